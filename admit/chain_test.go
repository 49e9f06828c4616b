package admit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// labeller sets a label, then returns err.
func labeller(name string, err error) Mutator[Pod] {
	return Mutator[Pod]{Name: name, Doc: "sets a label", Run: func(_ context.Context, _ *Request, p *Pod) error {
		p.SetLabel(name, "set")
		return err
	}}
}

func checker(name string, problems field.ErrorList, err error) Validator[Pod] {
	return Validator[Pod]{Name: name, Doc: "checks", Run: func(context.Context, *Request, *Pod) (field.ErrorList, error) {
		return problems, err
	}}
}

func podRequest(t *testing.T) *Request {
	t.Helper()
	d, err := document.Parse([]byte(`{"metadata":{"name":"p"}}`))
	if err != nil {
		t.Fatal(err)
	}
	return &Request{Object: d, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Name: "p"}
}

var (
	refusal = field.Forbidden(field.NewPath("spec", "x"), "not here")
	invalid = field.Invalid(field.NewPath("spec", "y"), "5", "must be 4")
)

func TestMutatorsStopAtTheFirstRefusal(t *testing.T) {
	req := podRequest(t)
	chain := Mutate(AsPod, []Mutator[Pod]{labeller("one", nil), labeller("two", fmt.Errorf("wrapped: %w", refusal)), labeller("three", nil)})
	result, err := chain.Run(t.Context(), req, nil)
	if err != nil || len(result.Problems) != 1 || result.Problems[0].Step != "two" || !slices.Equal(result.Changed(), []string{"one"}) {
		t.Errorf("%+v, %v", result, err)
	}
	if strings.Contains(string(req.Object.Bytes()), "two") {
		t.Error("the refusing step's edits were kept")
	}
	if len(req.AuditAnnotations()) > 0 {
		t.Errorf("a refused request says what it changed: %v", req.AuditAnnotations())
	}
}

func TestOtherErrorsAreOurs(t *testing.T) {
	lost := errors.New("lookup failed")
	_, err := Mutate(AsPod, []Mutator[Pod]{labeller("one", lost)}).Run(t.Context(), podRequest(t), nil)
	if !errors.Is(err, lost) || !strings.HasPrefix(err.Error(), "one: ") {
		t.Errorf("mutator: %v", err)
	}
	result, err := Validate(AsPod, []Validator[Pod]{checker("a", field.ErrorList{refusal}, nil), checker("b", nil, lost)}).Run(t.Context(), podRequest(t), nil)
	if !errors.Is(err, lost) {
		t.Errorf("validator: %v, %+v", err, result)
	}
}

func TestAllValidatorsRun(t *testing.T) {
	chain := Validate(AsPod, []Validator[Pod]{checker("a", field.ErrorList{refusal, invalid}, nil), checker("b", nil, nil), checker("c", field.ErrorList{invalid}, nil)})
	result, err := chain.Run(t.Context(), podRequest(t), nil)
	if err != nil || len(result.Problems) != 3 {
		t.Fatalf("%+v, %v", result, err)
	}
}

// TestLongProblems: in a warning, a long value does not hide the end of a problem.
func TestLongProblems(t *testing.T) {
	long := field.Invalid(field.NewPath("data"), strings.Repeat("v", 100_000), strings.Repeat("m", 5*1024)+" (rule r)")
	req := podRequest(t)
	if _, err := Validate(AsPod, []Validator[Pod]{checker("one", field.ErrorList{long}, nil)}).WithModes(Modes{"one": Warn}).Run(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	if w := req.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "would be denied by one: data: Invalid value") || !strings.HasSuffix(w[0], "m (rule r)") || utf8.RuneCountInString(w[0]) > 256 {
		t.Errorf("warnings %q", w)
	}
}

func TestModes(t *testing.T) {
	cases := []struct {
		mode     Mode
		err      error
		problems int
		labelled bool
		warned   bool
		audit    string
	}{
		{Enforce, nil, 0, true, false, "changed"},
		{Enforce, refusal, 1, false, false, ""},
		{Warn, nil, 0, true, false, "changed"},
		{Warn, refusal, 0, false, true, "would-deny.one"},
		{DryRun, nil, 0, false, false, "would-change.one"},
		{DryRun, refusal, 0, false, false, "would-deny.one"},
		{Off, refusal, 0, false, false, ""},
	}
	for _, c := range cases {
		req := podRequest(t)
		result, err := Mutate(AsPod, []Mutator[Pod]{labeller("one", c.err)}).WithModes(Modes{"one": c.mode}).Run(t.Context(), req, nil)
		labelled := AsPod(req.Object).Label("one") == "set"
		if err != nil || len(result.Problems) != c.problems || labelled != c.labelled || (len(req.Warnings()) > 0) != c.warned {
			t.Errorf("mode %s, error %v: %+v, %v, labelled %v, warnings %v", c.mode, c.err, result, err, labelled, req.Warnings())
		}
		if _, ok := req.AuditAnnotations()[c.audit]; c.audit != "" && !ok || len(req.AuditAnnotations()) > 1 {
			t.Errorf("mode %s, error %v: audit %v, want %s", c.mode, c.err, req.AuditAnnotations(), c.audit)
		}
	}
}

func TestUnreadableObjectIsTheUsers(t *testing.T) {
	req := podRequest(t)
	d, _ := document.Parse([]byte(`{"metadata":{"labels":[]}}`))
	req.Object = d
	result, err := Mutate(AsPod, []Mutator[Pod]{labeller("one", nil)}).Run(t.Context(), req, nil)
	if err != nil || len(result.Problems) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	if p := result.Problems[0]; p.Type != field.ErrorTypeTypeInvalid || p.Field != "metadata.labels" {
		t.Errorf("%v", p)
	}
}

func TestOutOfTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Mutate(AsPod, []Mutator[Pod]{labeller("one", nil)}).Run(ctx, podRequest(t), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestWarnings(t *testing.T) {
	req := &Request{}
	for i := range 100 {
		req.Warnf("%d %s", i/2, strings.Repeat("ü", 300))
	}
	total := 0
	for _, w := range req.Warnings() {
		total += len([]rune(w))
		if n := len([]rune(w)); n != warningLength {
			t.Errorf("a warning of %d characters", n)
		}
	}
	if total > 4096 || len(req.Warnings()) != 16 || req.Warnings()[0] == req.Warnings()[1] {
		t.Errorf("%d warnings, %d characters", len(req.Warnings()), total)
	}
}

// TestStepsWithBugs: a panic, and an edit by a validator, is our failure. It names the step, and no edit remains.
func TestStepsWithBugs(t *testing.T) {
	label := func(d func(*Request) *document.Document, problems field.ErrorList) []Validator[Pod] {
		return []Validator[Pod]{{Name: "check", Run: func(_ context.Context, req *Request, _ *Pod) (field.ErrorList, error) {
			AsPod(d(req)).SetLabel("a", "b")
			return problems, nil
		}}}
	}
	object := func(req *Request) *document.Document { return req.Object }
	old := func(req *Request) *document.Document { return req.OldObject }
	const edited = "check: edited the object; a validator must not"
	for _, c := range []struct {
		name  string
		chain Chain
		want  string
		stack bool
	}{
		{"a validator edits", Validate(AsPod, label(object, nil)), edited, false},
		{"and refuses", Validate(AsPod, label(object, field.ErrorList{refusal})), edited, false},
		{"in mode warn", Validate(AsPod, label(object, nil)).WithModes(Modes{"check": Warn}), edited, false},
		{"the stored object", Validate(AsPod, label(old, nil)), edited, false},
		{"a validator panics", Validate(AsPod, []Validator[Pod]{{Name: "check", Run: func(context.Context, *Request, *Pod) (field.ErrorList, error) {
			panic("oh")
		}}}), "check: panic: see the stack", true},
		{"a mutator panics", Mutate(AsPod, []Mutator[Pod]{{Name: "change", Run: func(_ context.Context, _ *Request, p *Pod) error {
			p.SetLabel("a", "b")
			panic("oh")
		}}}), "change: panic: see the stack", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := podRequest(t)
			req.OldObject = podRequest(t).Object
			result, err := c.chain.Run(t.Context(), req, nil)
			if fmt.Sprint(err) != c.want || len(result.Problems) > 0 {
				t.Errorf("%v, %+v, want %s", err, result.Problems, c.want)
			}
			if req.Object.Edits() > 0 || len(req.Object.Patch()) > 0 {
				t.Errorf("edits remain: %s", req.Object.Bytes())
			}
			panicked, ok := errors.AsType[*PanicError](err)
			if ok != c.stack || ok && !strings.Contains(string(panicked.Stack), "TestStepsWithBugs") {
				t.Errorf("the stack is %+v", panicked)
			}
		})
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		name, in string
		n        int
		want     string
	}{
		{"short", "abc", 4, "abc"},
		{"as long as it may be", "abcd", 4, "abcd"},
		{"one too long", "abcde", 4, "abc…"},
		{"characters, not bytes", "ääääää", 4, "äää…"},
		{"invalid UTF-8", "\xff\xff\xff\xff\xff", 4, "\xff\xff\xff…"},
		{"empty", "", 4, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Shorten(c.in, c.n); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
