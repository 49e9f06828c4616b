package expression

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metaunstructured "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"usher.dev/usher/test/seed"
)

// both evaluate expressions as usher and as the API server do, for the same request.
type both struct {
	compiler *Compiler
	library  cel.Compiler
	object   string
	request  *admissionv1.AdmissionRequest
}

const refused, failed = "refused", "failed"

// ours returns a function that evaluates an expression anew, and returns its result and cost; or what has become of it.
func (b both) ours(t *testing.T, text string) func() string {
	s := scope{env: b.compiler.plain, overloads: b.compiler.overloads, variablesType: b.compiler.noVariables, variables: map[string]*compiled{}}
	x := s.compile(text, nil, nil)
	if len(s.problems) > 0 {
		return func() string { return refused }
	}
	request, err := json.Marshal(b.request)
	if err != nil {
		t.Fatal(err)
	}
	review := Review{Object: raw(t, b.object), OldObject: raw(t, b.object), Request: raw(t, string(request)),
		Namespace: &Namespace{Name: "n", Labels: map[string]string{"tier": "gold"}}}
	return func() string {
		review.reader.ctx, review.reader.turns = t.Context(), b.compiler.turns
		defer review.reader.rest()
		p := &Program{variablesType: b.compiler.noVariables, turns: b.compiler.turns}
		e := p.evaluation(t.Context(), &review, celconfig.RuntimeCELCostBudget)
		value, err := e.run(x)
		return told(value, err, e.budget)
	}
}

// theirs is ours of the API server.
func (b both) theirs(t *testing.T, text string) (outcome func() string) {
	defer func() {
		if recover() != nil { // at {b'a': 1}
			outcome = func() string { return refused }
		}
	}()
	x := b.library.CompileCELExpression(named{"", text, celgo.AnyType}, cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	if x.Error != nil {
		return func() string { return refused }
	}
	object := &metaunstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(b.object)); err != nil {
		t.Fatal(err)
	}
	return func() string {
		all, left, err := update{object, object, b.request, "gold"}.evaluate(t, cel.NewCondition([]cel.CompilationResult{x}))
		if err != nil { // out of budget
			return failed
		}
		return told(all[0].EvalResult, all[0].Error, left)
	}
}

func told(value ref.Val, err error, left int64) string {
	if err != nil {
		return failed
	}
	return fmt.Sprintf("%s for %d", canonical(value, false), celconfig.RuntimeCELCostBudget-left)
}

// TestExpressionsAreThoseOfTheAPIServer: an expression of any functions of the environment loads if the API server's compiler takes it, and
// has the result and the cost that its evaluation has. Each function has a result at least once.
func TestExpressionsAreThoseOfTheAPIServer(t *testing.T) {
	expressions := 10_000
	if testing.Short() || seed.Race {
		expressions = 2_000
	}
	random := seed.Random(t)
	b := both{compiler: newCompiler(t), library: cel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())),
		request: updateBy(authenticationv1.UserInfo{Username: "jane", Groups: []string{"a", "b"}})}
	parts, unknown := partsOf(b.compiler.plain)
	if len(unknown) > 0 {
		t.Fatalf("macros that are not drawn: %q", unknown)
	}
	d, missing, seen := &drawer{Rand: random, parts: parts}, map[string]bool{}, map[string]int{}
	for _, p := range parts {
		missing[p.name] = true
	}
	for i := 0; i < expressions || len(missing) > 0 && i < 2_000*len(parts); i++ {
		p := parts[i%len(parts)]
		if i >= expressions && !missing[p.name] {
			continue
		}
		text := d.piece(p, nil, 1+random.IntN(3))
		b.object = fmt.Sprintf(`{"apiVersion":"e2e.usher.dev/v1","kind":"Widget","metadata":{"name":"w"},"a":%s,"b":%s,"c":%s}`,
			randomJSON(random, 2), randomJSON(random, 2), randomJSON(random, 1))
		got, want := b.ours(t, text), b.theirs(t, text)
		ours, outcome := got(), want()
		for tries := 0; ours != outcome && tries < 30; tries++ { // maps are iterated in random order
			ours, outcome = got(), want()
		}
		if ours != outcome {
			t.Errorf("%s\nof %s\nusher: %s\nthe API server: %s", text, b.object, ours, outcome)
		}
		kind := "has a result"
		if outcome == refused || outcome == failed {
			kind = outcome
		} else {
			delete(missing, p.name)
		}
		seen[kind]++
	}
	t.Log(seen)
	if len(missing) > 0 {
		t.Errorf("functions without a result: %q", slices.Sorted(maps.Keys(missing)))
	}
}

// TestOnPurposeUnlikeTheAPIServer: a list or map of request and namespaceObject equals no value of another type, in either order, and has
// no key of one, as CEL defines it; the API server has no result if the typed value is on the left, or is asked for the key. It takes an
// optional text for a text where a pattern is constant. docs/rules.md names the difference, and nothing of this is drawn.
func TestOnPurposeUnlikeTheAPIServer(t *testing.T) {
	b := both{compiler: newCompiler(t), library: cel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())),
		request: updateBy(authenticationv1.UserInfo{Username: "jane", Groups: []string{"a", "b"}}), object: `{"apiVersion":"e2e.usher.dev/v1","kind":"Widget","metadata":{"name":"w"}}`}
	for _, c := range []struct{ text, ours, theirs string }{
		{"request.userInfo.groups == dyn(1)", "bool false for 4", failed},
		{"dyn(1) == request.userInfo.groups", "bool false for 4", "bool false for 4"},
		{"request.userInfo.groups != dyn(1)", "bool true for 4", "bool true for 4"},
		{"namespaceObject.metadata.labels == dyn('a')", "bool false for 4", failed},
		{"b'a' in dyn(namespaceObject.metadata.labels)", "bool false for 5", failed},
		{"namespaceObject.metadata.labels in {namespaceObject.metadata.labels: 1}", "bool false for 37", "bool true for 37"},
		{"dyn(optional.of('a')).matches('b')", failed, "bool false for 3"},
	} {
		if ours, theirs := b.ours(t, c.text)(), b.theirs(t, c.text)(); ours != c.ours || theirs != c.theirs {
			t.Errorf("%s\nusher: %s, want %s\nthe API server: %s, want %s", c.text, ours, c.ours, theirs, c.theirs)
		}
	}
}
