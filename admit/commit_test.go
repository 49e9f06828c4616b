package admit

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestCommitRunsLast: what may leave something behind runs only when nothing else refuses, and never for what does not happen.
func TestCommitRunsLast(t *testing.T) {
	for name, c := range map[string]struct {
		before field.ErrorList
		dryRun bool
		modes  Modes
		want   string
	}{
		"nothing refuses":             {want: "run"},
		"a check refuses":             {before: field.ErrorList{invalid}, want: ""},
		"a check would refuse":        {before: field.ErrorList{invalid}, modes: Modes{"check": Warn}, want: "run"},
		"dry run":                     {dryRun: true, want: "judge"},
		"dry run that a check denies": {dryRun: true, before: field.ErrorList{invalid}, want: ""},
		"mode warn":                   {modes: Modes{"commit": Warn}, want: "judge"},
		"mode dryrun":                 {modes: Modes{"commit": DryRun}, want: "judge"},
		"mode off":                    {modes: Modes{"commit": Off}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			called := ""
			note := func(which string) func(context.Context, *Request, *Pod) (field.ErrorList, error) {
				return func(context.Context, *Request, *Pod) (field.ErrorList, error) { called += which; return nil, nil }
			}
			chain := ThenCommit(Validate(AsPod, []Validator[Pod]{checker("check", c.before, nil)}), AsPod,
				Commit[Pod]{Name: "commit", Doc: "commits", Run: note("run"), Judge: note("judge")}).WithModes(c.modes)
			req := podRequest(t)
			req.DryRun = c.dryRun
			if _, err := chain.Run(t.Context(), req, nil); err != nil || called != c.want {
				t.Errorf("called %q, not %q: %v", called, c.want, err)
			}
			if !chain.Commits() {
				t.Error("the chain does not say that it commits")
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
