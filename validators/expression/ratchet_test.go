package expression

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metaunstructured "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/test/seed"
)

// text is an expression, and what it reads, itself and through variables. Whoever writes it says so.
type text struct {
	cel                         string
	parts                       []string // of object
	request, old, readNamespace bool
}

func of(cel string, parts ...string) text { return text{cel: cel, parts: parts} }

// atoms are the expressions that others are made of.
var atoms = []text{
	of("object.spec.a <= 1", "spec.a"),
	of("object.?spec.?a.orValue(0) <= 1", "spec.a"),
	of("object['spec']['b'] != 2", "spec.b"),
	of("object.spec[?'b'].orValue(0) != 2", "spec.b"),
	of("has(object.spec.p.q)", "spec.p.q"),
	of("object.spec.p.q == 'x'", "spec.p.q"),
	of("has(object.spec.p) && object.spec.p.r == 1", "spec.p", "spec.p.r"),
	of("object.spec.p != null", "spec.p"),
	of("object.spec.l.all(i, i < 3)", "spec.l"),
	of("object.spec.l[0] == 1", "spec.l"),
	of("object.?spec.l.orValue([]).size() < 3", "spec.l"),
	of("object.spec.l.exists(object, object == 2)", "spec.l"),
	of("!('k' in object.spec.m)", "spec.m"),
	of("object.spec.m[object.spec.p.q] == 1", "spec.m", "spec.p.q"),
	of("object.spec == {'a': 1}", "spec"),
	of("object.metadata.?labels.locked.orValue('') != 'true'", "metadata.labels.locked"),
	of("object.metadata.labels['k'] == 'v'", "metadata.labels.k"),
	of("object.metadata.labels.all(k, v, k != v)", "metadata.labels"),
	{cel: "'admins' in request.userInfo.groups", request: true},
	{cel: "['jane'].all(request, request != .request.userInfo.username)", request: true},
	{cel: "request.?userInfo.username.orValue('') == 'root'", request: true},
	{cel: "object.spec.a == oldObject.spec.a", parts: []string{"spec.a"}, old: true},
	{cel: "oldObject.?spec.?b.orValue(0) < 2", old: true},
	{cel: "namespaceObject.metadata.labels.tier == 'gold'", readNamespace: true},
	of("true"), of("false"), of("1 in [1, 2]"),
}

// together returns what expressions read.
func together(all ...text) (is text) {
	for _, e := range all {
		is.parts = append(is.parts, e.parts...)
		is.request, is.old, is.readNamespace = is.request || e.request, is.old || e.old, is.readNamespace || e.readNamespace
	}
	return is
}

// join returns an expression that is made of others.
func join(format string, all ...text) text {
	var texts []any
	for _, e := range all {
		texts = append(texts, e.cel)
	}
	joined := together(all...)
	joined.cel = fmt.Sprintf(format, texts...)
	return joined
}

func randomText(random *rand.Rand, depth int, from []text) text {
	some := func() text { return randomText(random, depth-1, from) }
	if depth > 0 {
		switch random.IntN(6) {
		case 0:
			return join("(%s && %s)", some(), some())
		case 1:
			return join("(%s || %s)", some(), some())
		case 2:
			return join("!(%s)", some())
		case 3:
			return join("(%s ? %s : %s)", some(), some(), some())
		}
	}
	return from[random.IntN(len(from))]
}

// writtenRule is a rule as its author sees it.
type writtenRule struct{ conditions, variables, validations []text }

func randomRule(random *rand.Rand) (r writtenRule) {
	from := slices.Clone(atoms)
	for i := range random.IntN(3) {
		variable := randomText(random, 1, from)
		r.variables = append(r.variables, variable)
		used := variable
		used.cel = fmt.Sprintf("variables.v%d", i)
		from = append(from, used, used, used)
	}
	withoutNamespace := slices.DeleteFunc(slices.Clone(from), func(e text) bool { return e.readNamespace })
	for range random.IntN(3) {
		r.conditions = append(r.conditions, randomText(random, 1, withoutNamespace))
	}
	for range 1 + random.IntN(2) {
		r.validations = append(r.validations, randomText(random, 2, from))
	}
	return r
}

// policy returns the rule for usher. Validations say their number.
func (r writtenRule) policy(t *testing.T) string {
	list := func(all []text, field func(i int, cel string) map[string]any) (list []any) {
		for i, e := range all {
			list = append(list, field(i, e.cel))
		}
		return list
	}
	named := func(i int, cel string) map[string]any {
		return map[string]any{"name": fmt.Sprintf("v%d", i), "expression": cel}
	}
	return encode(t, map[string]any{"rules": []any{map[string]any{"name": "r",
		"match":           map[string]any{"apiGroups": []string{"e2e.usher.dev"}, "resources": []string{"widgets"}, "operations": []string{"UPDATE"}},
		"matchConditions": list(r.conditions, named), "variables": list(r.variables, named),
		"validations": list(r.validations, func(i int, cel string) map[string]any {
			return map[string]any{"expression": cel, "message": fmt.Sprintf("v%d", i)}
		})}}})
}

func encode(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// apiServer is the rule, as the API server evaluates it.
type apiServer struct{ conditions, validations cel.ConditionEvaluator }

// named is an expression as the API server's compiler takes it.
type named struct {
	name, text string
	of         *celgo.Type
}

func (a named) GetName() string            { return a.name }
func (a named) GetExpression() string      { return a.text }
func (a named) ReturnTypes() []*celgo.Type { return []*celgo.Type{a.of} }

func newAPIServer(t *testing.T, r writtenRule) apiServer {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range r.variables {
		variable := named{fmt.Sprintf("v%d", i), v.cel, celgo.AnyType}
		if result := compiler.CompileAndStoreVariable(variable, cel.OptionalVariableDeclarations{}, environment.StoredExpressions); result.Error != nil {
			t.Fatal(result.Error)
		}
	}
	compile := func(all []text) cel.ConditionEvaluator {
		var accessors []cel.ExpressionAccessor
		for _, e := range all {
			accessors = append(accessors, named{"", e.cel, celgo.BoolType})
		}
		evaluator := compiler.CompileCondition(accessors, cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
		if errs := evaluator.CompilationErrors(); len(errs) > 0 {
			t.Fatal(errs)
		}
		return evaluator
	}
	return apiServer{compile(r.conditions), compile(r.validations)}
}

// update is a random request.
type update struct {
	object, stored *metaunstructured.Unstructured
	request        *admissionv1.AdmissionRequest
	tier           string // of the namespace
}

// evaluate returns the results of expressions by the API server's evaluation, and what is left of the budget.
func (u update) evaluate(t *testing.T, of cel.ConditionEvaluator) ([]cel.EvaluationResult, int64, error) {
	t.Helper()
	attributes := admission.NewAttributesRecord(u.object, u.stored, schema.GroupVersionKind(u.request.Kind), "n", "w", schema.GroupVersionResource(u.request.Resource), "",
		admission.Update, nil, false, nil)
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: attributes.GetKind(),
		VersionedObject: admission.NewLazyObject(u.object), VersionedOldObject: admission.NewLazyObject(u.stored)}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"tier": u.tier}}}
	return of.ForInput(t.Context(), versioned, u.request, cel.OptionalVariableBindings{}, namespace, celconfig.RuntimeCELCostBudget)
}

// results returns the result of each expression: "true", "false" or "none".
func (u update) results(t *testing.T, of cel.ConditionEvaluator) (results []string) {
	t.Helper()
	all, _, err := u.evaluate(t, of)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		switch {
		case one.Error != nil:
			results = append(results, "none")
		case one.EvalResult == types.False:
			results = append(results, "false")
		default:
			results = append(results, "true")
		}
	}
	return results
}

func randomUpdate(random *rand.Rand, t *testing.T) update {
	stored := map[string]any{"apiVersion": "e2e.usher.dev/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": map[string]any{}}
	if random.IntN(8) == 0 {
		delete(stored, "spec")
	}
	for _, field := range memberNames {
		set(random, stored, field)
	}
	parse := func() *metaunstructured.Unstructured {
		parsed := &metaunstructured.Unstructured{}
		if err := parsed.UnmarshalJSON([]byte(encode(t, stored))); err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	u := update{stored: parse(), tier: pick(random, "gold", "iron")}
	for range random.IntN(3) {
		set(random, stored, pick(random, memberNames...))
	}
	u.object = parse()
	user := authenticationv1.UserInfo{Username: pick(random, "jane", "root")}
	if random.IntN(2) == 0 {
		user.Groups = []string{"admins"}
	}
	u.request = updateBy(user)
	return u
}

func updateBy(user authenticationv1.UserInfo) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{Operation: admissionv1.Update, Namespace: "n", Name: "w", UserInfo: user,
		Kind:     metav1.GroupVersionKind{Group: "e2e.usher.dev", Version: "v1", Kind: "Widget"},
		Resource: metav1.GroupVersionResource{Group: "e2e.usher.dev", Version: "v1", Resource: "widgets"}}
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// choices are the fields of a random object, and the values that they may have; nil: the field is absent.
var choices = map[string][]any{
	"spec.a": {nil, 1, 2, 3}, "spec.b": {nil, 1, 2, json.RawMessage("null")}, "spec.l": {nil, []any{}, []any{1, 2}, []any{2, 3, 4}},
	"spec.p": {nil, map[string]any{}, map[string]any{"q": "x"}, map[string]any{"q": "y", "r": 1}, map[string]any{"r": 1}, json.RawMessage("null")},
	"spec.m": {nil, map[string]any{"k": 1}, map[string]any{"x": 1, "y": 2}}, "spec": {nil, map[string]any{}, map[string]any{"a": 1}},
	"metadata.labels":      {nil, map[string]any{}, map[string]any{"k": "v"}, map[string]any{"locked": "true"}, map[string]any{"locked": "true", "k": "w"}, map[string]any{"k": "k"}},
	"metadata.annotations": {nil, map[string]any{"note": "1"}, map[string]any{"note": "2"}},
}

var memberNames = []string{"spec.a", "spec.b", "spec.l", "spec.p", "spec.m", "metadata.labels", "metadata.annotations"}

// set gives a field a random value.
func set(random *rand.Rand, object map[string]any, field string) {
	parent, name, _ := strings.Cut(field, ".")
	within, ok := object[parent].(map[string]any)
	if random.IntN(30) == 0 || !ok && random.IntN(2) == 0 { // the parent itself
		name, within, field = "spec", object, "spec"
	} else if !ok {
		return
	}
	if value := pick(random, choices[field]...); value == nil {
		delete(within, name)
	} else {
		within[name] = value
	}
}

// same reports whether two values are the same at a path, and have the same parents there.
func same(a, b any, path []string) bool {
	left, isObject := a.(map[string]any)
	right, isAlso := b.(map[string]any)
	if len(path) == 0 || !isObject || !isAlso {
		return reflect.DeepEqual(a, b)
	}
	one, has := left[path[0]]
	other, hasAlso := right[path[0]]
	if has && hasAlso {
		return same(one, other, path[1:])
	}
	return has == hasAlso
}

// unchanged reports whether an update leaves all parts of the object as they are.
func (u update) unchanged(parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !same(u.object.Object, u.stored.Object, strings.Split(part, ".")) })
}

// sameValues reports whether both objects have the same values at all paths, whatever their parents are.
func (u update) sameValues(parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool {
		path := strings.Split(part, ".")
		one, _, _ := metaunstructured.NestedFieldNoCopy(u.object.Object, path...)
		other, _, _ := metaunstructured.NestedFieldNoCopy(u.stored.Object, path...)
		return !reflect.DeepEqual(one, other)
	})
}

// passes returns why a violation passes, or why it does not.
func (u update) passes(r writtenRule, v text) (bool, string) {
	conditions := together(r.conditions...)
	switch {
	case !u.unchanged(v.parts) && u.sameValues(v.parts):
		return false, "refused: only a parent has changed"
	case !u.unchanged(v.parts):
		return false, "refused: changed"
	case len(v.parts) == 0:
		return false, "refused: nothing of object"
	case v.request:
		return false, "refused: reads the request"
	case v.old:
		return false, "refused: reads oldObject"
	case conditions.request:
		return false, "refused: a condition reads the request"
	case !u.unchanged(conditions.parts):
		return false, "refused: a condition reads what has changed"
	case v.readNamespace:
		return true, "passes: reads the namespace"
	case conditions.old:
		return true, "passes: a condition reads oldObject"
	}
	return true, "passes"
}

// expect returns the verdict that usher should have, and counts why.
func (u update) expect(t *testing.T, r writtenRule, by apiServer, seen map[string]int) string {
	t.Helper()
	conditions := u.results(t, by.conditions)
	if slices.Contains(conditions, "false") {
		seen["the rule is not for it"]++
		return "allowed"
	}
	failed := slices.Contains(conditions, "none")
	var refused []string
	for i, result := range u.results(t, by.validations) {
		if result == "false" && !slices.Contains(conditions, "none") {
			passes, why := u.passes(r, r.validations[i])
			seen[why]++
			if passes {
				u.checkStored(t, r, by, i)
			} else {
				refused = append(refused, fmt.Sprintf("v%d", i))
			}
		}
		failed = failed || result == "none"
	}
	switch {
	case len(refused) > 0:
		return strings.Join(refused, ", ")
	case failed:
		seen["no result"]++
		return "no result"
	}
	seen["allowed"]++
	return "allowed"
}

// checkStored fails the test unless the stored object violates a validation: only then may the violation pass.
func (u update) checkStored(t *testing.T, r writtenRule, by apiServer, validation int) {
	t.Helper()
	u.object = u.stored
	if result := u.results(t, by.validations)[validation]; result != "false" {
		t.Errorf("a violation of %s passes, which has the result %s for the stored object", r.validations[validation].cel, result)
	}
	if together(r.conditions...).old {
		return
	}
	for _, result := range u.results(t, by.conditions) {
		if result != "true" {
			t.Errorf("a violation of %s passes, although the rule was not for the stored object", r.validations[validation].cel)
		}
	}
}

// verdict returns usher's verdict.
func (u update) verdict(t *testing.T, step admit.Validator[admit.Meta]) string {
	t.Helper()
	parse := func(value any) *document.Document {
		d, err := document.Parse([]byte(encode(t, value)))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	req := &admit.Request{Operation: admissionv1.Update, Namespace: "n", Name: "w", Resource: u.request.Resource, Kind: u.request.Kind,
		Object: parse(u.object), OldObject: parse(u.stored), Review: parse(map[string]any{"request": u.request})}
	problems, err := step.Run(t.Context(), req, nil)
	var refused []string
	for _, p := range problems {
		refused = append(refused, strings.TrimSuffix(p.Detail, " (rule r)"))
	}
	switch {
	case len(refused) > 0:
		return strings.Join(refused, ", ")
	case err != nil:
		return "no result"
	}
	return "allowed"
}

// outcomes are what each run must have seen, and why.
var outcomes = []string{
	"allowed", "no result", "the rule is not for it", "passes", "passes: reads the namespace", "passes: a condition reads oldObject", "refused: changed",
	"refused: only a parent has changed", "refused: nothing of object", "refused: reads the request", "refused: reads oldObject", "refused: a condition reads the request",
	"refused: a condition reads what has changed",
}

// TestRatchetAgreesWithAPIServer: for random rules and updates, usher refuses exactly when the API server's evaluation
// refuses the new object, unless nothing has changed of what the expression and the conditions read of it.
func TestRatchetAgreesWithAPIServer(t *testing.T) {
	random := seed.Random(t)
	seen := map[string]int{}
	missing := func() []string {
		return slices.DeleteFunc(slices.Clone(outcomes), func(why string) bool { return seen[why] >= 5 })
	}
	for i := 0; i < 100 || len(missing()) > 0; i++ {
		if i == 5000 {
			t.Fatalf("of %d rules, too few had the outcomes %q: %v", i, missing(), seen)
		}
		r := randomRule(random)
		by := newAPIServer(t, r)
		var tier string
		step := rules(rulesOf(t, r.policy(t)), admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) {
			return admit.Namespace{Labels: map[string]string{"tier": tier}}, true, nil
		}})
		for range 10 {
			u := randomUpdate(random, t)
			tier = u.tier
			if want, got := u.expect(t, r, by, seen), u.verdict(t, step); got != want {
				t.Errorf("usher: %s; want %s\nrule   %s\nstored %s\nnew    %s\nby     %s", got, want, r.policy(t), encode(t, u.stored), encode(t, u.object), encode(t, u.request.UserInfo))
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Log(seen)
}
