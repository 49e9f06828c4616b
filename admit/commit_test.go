package admit

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/gate"
)

// TestCommit: a check remembers something only when nothing else refuses, and never for what does not happen.
func TestCommit(t *testing.T) {
	for name, c := range map[string]struct {
		before field.ErrorList
		dryRun bool
		modes  Modes
		want   string
	}{
		"nothing refuses":             {want: "commit"},
		"a check refuses":             {before: field.ErrorList{invalid}, want: ""},
		"a check would refuse":        {before: field.ErrorList{invalid}, modes: Modes{"check": Warn}, want: "commit"},
		"dry run":                     {dryRun: true, want: "run"},
		"dry run that a check denies": {dryRun: true, before: field.ErrorList{invalid}, want: ""},
		"mode warn":                   {modes: Modes{"commit": Warn}, want: "run"},
		"mode dryrun":                 {modes: Modes{"commit": DryRun}, want: "run"},
		"mode off":                    {modes: Modes{"commit": Off}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			called := ""
			note := func(which string) func(context.Context, *Request, *Pod) (field.ErrorList, error) {
				return func(context.Context, *Request, *Pod) (field.ErrorList, error) { called += which; return nil, nil }
			}
			chain := Validate(AsPod, []Validator[Pod]{checker("check", c.before, nil),
				{Name: "commit", Doc: "commits", Gate: "A", Run: note("run"), Commit: note("commit")}}).WithModes(c.modes)
			req := podRequest(t)
			req.DryRun = c.dryRun
			if _, err := chain.Run(t.Context(), req, nil); err != nil || called != c.want {
				t.Errorf("called %q, not %q: %v", called, c.want, err)
			}
		})
	}
}

// TestCommitComesLast: a list of checks that could not keep the promise of Commit makes no chain.
func TestCommitComesLast(t *testing.T) {
	run := func(context.Context, *Request, *Pod) (field.ErrorList, error) { return nil, nil }
	check, commits, dry := Validator[Pod]{Name: "check", Run: run}, Validator[Pod]{Name: "commits", Run: run, Commit: run}, Validator[Pod]{Name: "dry", Commit: run}
	for _, c := range []struct {
		name  string
		list  []Validator[Pod]
		panic string // what the panic says; empty: none
	}{
		{"last", []Validator[Pod]{check, commits}, ""},
		{"alone", []Validator[Pod]{commits}, ""},
		{"not last", []Validator[Pod]{commits, check, check}, "commits has a Commit, but 2 more follow in the list"},
		{"two", []Validator[Pod]{commits, commits}, "make it the last of the list, and the only one with a Commit"},
		{"without Run", []Validator[Pod]{check, dry}, "dry has a Commit but no Run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				said := fmt.Sprint(recover())
				if c.panic == "" && said != "<nil>" || !strings.Contains(said, c.panic) {
					t.Errorf("it panics with %s, want %q", said, c.panic)
				}
			}()
			Validate(AsPod, c.list)
		})
	}
}

// TestCommits: Commits does not depend on the gates.
func TestCommits(t *testing.T) {
	run := func(context.Context, *Request, *Pod) (field.ErrorList, error) { return nil, nil }
	check, commits := Validator[Pod]{Name: "check", Run: run}, Validator[Pod]{Name: "commits", Gate: "A", Run: run, Commit: run}
	closed := func(name gate.Name) bool { return name == "" }
	for _, c := range []struct {
		name  string
		chain Chain
		want  bool
	}{
		{"none", Validate(AsPod, []Validator[Pod]{check}), false},
		{"one", Validate(AsPod, []Validator[Pod]{check, commits}), true},
		{"behind a closed gate", Validate(AsPod, []Validator[Pod]{check, commits}).Gated(closed).WithModes(Modes{"commits": Off}), true},
		{"step by step", PerStep(func([]string) Chain { return Validate(AsPod, []Validator[Pod]{check, commits}) }), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.chain.Commits(); got != c.want {
				t.Errorf("it commits: %v", got)
			}
		})
	}
}

// TestDeleteIsAboutTheStoredObject: a DELETE has no object; its checks see the stored one.
func TestDeleteIsAboutTheStoredObject(t *testing.T) {
	req := podRequest(t)
	req.Object, req.OldObject = nil, req.Object
	seen := ""
	check := Validator[Pod]{Name: "check", Run: func(_ context.Context, _ *Request, p *Pod) (field.ErrorList, error) {
		seen = p.Name()
		return nil, nil
	}}
	if _, err := Validate(AsPod, []Validator[Pod]{check}).Run(t.Context(), req, nil); err != nil || seen != "p" {
		t.Errorf("saw %q: %v", seen, err)
	}
}
