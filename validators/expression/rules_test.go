package expression

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/config"
	"usher.dev/usher/test/configtest"
)

// rulesOf reads the section rules from a policy.
func rulesOf(t testing.TB, text string) Rules {
	t.Helper()
	policy := configtest.Parse(t, text, section)
	return config.SectionOf[Rules](policy)
}

// change is a request as a test writes it.
type change struct {
	operation      admissionv1.Operation
	group          string
	resource, sub  string
	namespace      string
	object, stored string
}

func (c change) request(t testing.TB) *admit.Request {
	t.Helper()
	review := map[string]any{"operation": c.operation, "namespace": c.namespace, "userInfo": map[string]any{"username": "dev"}}
	raw, err := json.Marshal(map[string]any{"request": review})
	if err != nil {
		t.Fatal(err)
	}
	parse := func(text []byte) *document.Document {
		if len(text) == 0 {
			return nil
		}
		d, err := document.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	return &admit.Request{Operation: c.operation, Namespace: c.namespace, SubResource: c.sub,
		Resource: metav1.GroupVersionResource{Group: c.group, Version: "v1", Resource: c.resource},
		Object:   parse([]byte(c.object)), OldObject: parse([]byte(c.stored)), Review: parse(raw)}
}

// deployment is a request about a Deployment in a namespace of team red.
func deployment(operation admissionv1.Operation, object, stored string) change {
	return change{operation, "apps", "deployments", "", "red", object, stored}
}

// askRed knows one namespace, and fails for the namespace "new", which the watch has not brought.
func askRed(t testing.TB) admit.Questions {
	return admit.Questions{Namespace: func(name string) (admit.Namespace, bool, error) {
		switch name {
		case "red":
			return admit.Namespace{Labels: map[string]string{"team": "red"}, Deleting: true}, true, nil
		case "new":
			return admit.Namespace{}, false, fmt.Errorf("namespace new: %w", admit.ErrNotReady)
		case "never":
			t.Error("asked without need")
		}
		return admit.Namespace{}, false, nil
	}}
}

func TestRules(t *testing.T) {
	const (
		create, update = admissionv1.Create, admissionv1.Update
		one            = `{"metadata":{"labels":{"a":"b"}},"spec":{"replicas":1}}`
		nine           = `{"metadata":{"labels":{"a":"b"}},"spec":{"replicas":9}}`
		nineOfC        = `{"metadata":{"labels":{"a":"c"}},"spec":{"replicas":9}}`
		most           = `validations: [{expression: object.spec.replicas <= 5, message: too many, fieldPath: spec.replicas}]`
		tooMany        = `spec.replicas: Invalid value: 9: too many (rule r)`
	)
	match := func(more string) string {
		return `match: {apiGroups: [apps], resources: [deployments, deployments/scale], operations: [CREATE, UPDATE, DELETE]` + more + `}`
	}
	cases := []struct {
		name  string
		rules string // of one rule, without its name
		change
		want string
		says string // of Explain
	}{
		{"true", match("") + ", " + most, deployment(create, one, ""), "", "rule r: all validations are true"},
		{"false", match("") + ", " + most, deployment(create, nine, ""), tooMany, "rule r: too many"},
		{"another resource", match("") + ", " + most, change{create, "apps", "statefulsets", "", "red", nine, ""}, "", "the step does not judge CREATE of statefulsets"},
		{"another operation", match("") + ", " + most, change{admissionv1.Connect, "apps", "deployments", "", "red", nine, ""}, "", "the step does not judge CONNECT of deployments"},
		{"a subresource", match("") + ", " + most, change{update, "apps", "deployments", "scale", "red", nine, one}, tooMany, ""},
		{"forbidden", match("") + ", validations: [{expression: 'false', reason: Forbidden}]", deployment(create, one, ""), `object: Forbidden: failed expression: false (rule r)`, ""},
		{"unauthorized", match("") + ", validations: [{expression: 'false', reason: Unauthorized}]", deployment(create, one, ""), `object: Forbidden: failed expression: false (rule r)`, ""},
		{"too large", match("") + ", validations: [{expression: 'false', reason: RequestEntityTooLarge}]", deployment(create, one, ""), `object: Too long: failed expression: false (rule r)`, ""},
		{"invalid", match("") + ", validations: [{expression: 'false', reason: Invalid}]", deployment(create, one, ""), `object: Invalid value: failed expression: false (rule r)`, ""},
		{"a Secret", `match: {apiGroups: [""], resources: [secrets], operations: [CREATE]}, validations: [{expression: 'false', fieldPath: data.a}]`,
			change{create, "", "secrets", "", "red", `{"data":{"a":"cGFzc3dvcmQ="}}`, ""}, `data.a: Invalid value: failed expression: false (rule r)`, ""},
		{"all at once", match("") + ", validations: [{expression: object.spec.replicas > 5}, {expression: object.spec.replicas > 6, fieldPath: .spec.replicas}]",
			deployment(create, one, ""), `object: Invalid value: failed expression: object.spec.replicas > 5 (rule r); spec.replicas: Invalid value: 1: failed expression: object.spec.replicas > 6 (rule r)`, ""},
		{"unchanged", match("") + ", " + most, deployment(update, nineOfC, nine), "", "passes, because the stored object has the same: too many"},
		{"unchanged, without ratchet", match("") + ", ratchet: false, " + most, deployment(update, nineOfC, nine), tooMany, ""},
		{"changed", match("") + ", " + most, deployment(update, nine, one), tooMany, ""},
		{"a deletion", match("") + ", validations: [{expression: object == null && oldObject.spec.replicas <= 5}]", deployment(admissionv1.Delete, "", nine),
			"object: Invalid value: failed expression: object == null && oldObject.spec.replicas <= 5 (rule r)", ""},
		{"object selected", match(", objectSelector: {matchLabels: {a: b}}") + ", " + most, deployment(create, nine, ""), tooMany, ""},
		{"object not selected", match(", objectSelector: {matchLabels: {a: b}}") + ", " + most, deployment(create, nineOfC, ""), "", "no rule"},
		{"object selected before", match(", objectSelector: {matchLabels: {a: b}}") + ", " + most, deployment(update, nineOfC, one), tooMany, ""},
		{"unchanged, and selected before", match(", objectSelector: {matchLabels: {a: b}}") + ", " + most, deployment(update, nineOfC, nine), "", "passes, because"},
		{"unchanged, but not selected before", match(", objectSelector: {matchLabels: {a: b}}") + ", " + most, deployment(update, nine, nineOfC), tooMany, ""},
		{"unchanged, with the same condition", match("") + ", matchConditions: [{name: b, expression: object.spec.replicas > 1}], " + most, deployment(update, nineOfC, nine), "", "passes, because"},
		{"unchanged, but the condition was false", match("") + ", matchConditions: [{name: b, expression: object.metadata.labels.a == 'b'}], " + most, deployment(update, nine, nineOfC), tooMany, ""},
		{"unchanged, but a condition compares what has changed", match("") + ", matchConditions: [{name: b, expression: object.metadata != oldObject.metadata}], " + most, deployment(update, nine, nineOfC), tooMany, ""},
		{"unchanged, but the condition was false for it and its predecessor", match("") + ", matchConditions: [{name: b, expression: object.metadata.labels.a == 'b' && oldObject.metadata.labels.a != 'x'}], " + most,
			deployment(update, nine, nineOfC), tooMany, ""},
		{"unchanged, with a condition about the stored object", match("") + ", matchConditions: [{name: b, expression: oldObject.metadata.labels.a == 'c'}], " + most, deployment(update, nine, nineOfC), "", "passes, because"},
		{"unchanged, with a condition about the user", match("") + ", matchConditions: [{name: b, expression: request.userInfo.username != 'admin'}], " + most, deployment(update, nineOfC, nine), tooMany, ""},
		{"unchanged, but it is about the user", match("") + ", validations: [{expression: object.spec.replicas <= 5 || request.userInfo.username == 'admin', message: too many, fieldPath: spec.replicas}]",
			deployment(update, nineOfC, nine), tooMany, ""},
		{"unchanged, but a variable is about the user", match("") + ", variables: [{name: admin, expression: request.userInfo.username == 'admin'}], validations: [{expression: object.spec.replicas <= 5 || variables.admin, message: too many, fieldPath: spec.replicas}]",
			deployment(update, nineOfC, nine), tooMany, ""},
		{"unchanged, but it is about the user under another name", match("") + ", validations: [{expression: \"object.spec.replicas <= 5 || ['admin'].all(request, request == .request.userInfo.username)\", message: too many, fieldPath: spec.replicas}]",
			deployment(update, nineOfC, nine), tooMany, ""},
		{"unchanged, in a namespace that may have changed", match("") + ", validations: [{expression: object.spec.replicas <= 5 && namespaceObject.metadata.name != '', message: too many}]", deployment(update, nineOfC, nine), "", "passes, because"},
		{"a parent appeared", match("") + ", validations: [{expression: has(object.spec.template.hostname), message: nameless}]",
			deployment(update, `{"spec":{"template":{"x":1}}}`, `{"spec":{}}`), "object: Invalid value: nameless (rule r)", ""},
		{"a parent was null", match("") + ", validations: [{expression: has(object.spec.template.hostname), message: nameless}]",
			deployment(update, `{"spec":{"template":{}}}`, `{"spec":{"template":null}}`), "object: Invalid value: nameless (rule r)", ""},
		{"the same parents", match("") + ", validations: [{expression: has(object.spec.template.hostname), message: nameless}]",
			deployment(update, `{"spec":{"template":{"x":1}}}`, `{"spec":{"template":{"y":1}}}`), "", "passes, because"},
		{"namespace selected", match(", namespaceSelector: {matchLabels: {team: red}}") + ", " + most, deployment(create, nine, ""), tooMany, ""},
		{"namespace not selected", match(", namespaceSelector: {matchLabels: {team: blue}}") + ", " + most, deployment(create, nine, ""), "", "no rule"},
		{"namespace unknown", match(", namespaceSelector: {matchLabels: {team: red}}") + ", " + most, change{create, "apps", "deployments", "", "other", nine, ""}, "", "the namespace other is not known here"},
		{"namespace not yet known", match(", namespaceSelector: {matchLabels: {team: red}}") + ", " + most, change{create, "apps", "deployments", "", "new", nine, ""},
			"ERROR rule r: namespace new: not ready yet", ""},
		{"namespace not yet known, deny", match(", namespaceSelector: {matchLabels: {team: red}}") + ", onError: deny, " + most, change{create, "apps", "deployments", "", "new", nine, ""},
			"ERROR rule r: namespace new: not ready yet", ""},
		{"namespace not needed", match("") + ", " + most, change{create, "apps", "deployments", "", "never", one, ""}, "", ""},
		{"namespace not needed by an unselected object", match(", namespaceSelector: {matchLabels: {team: red}}, objectSelector: {matchLabels: {a: x}}") + ", " + most,
			change{create, "apps", "deployments", "", "never", one, ""}, "", ""},
		{"namespaceObject", match("") + ", validations: [{expression: \"namespaceObject.metadata.labels.team == 'red' && namespaceObject.status.phase == 'Active'\"}]",
			deployment(create, one, ""), "object: Invalid value: failed expression: namespaceObject.metadata.labels.team == 'red' && namespaceObject.status.phase == 'Active' (rule r)", ""},
		{"a condition", match("") + ", matchConditions: [{name: big, expression: object.spec.replicas > 100}], validations: [{expression: 'false'}]", deployment(create, one, ""), "", "rule r: match condition big is false"},
		{"a long message", match("") + ", validations: [{expression: 'false', message: " + strings.Repeat("m", 6000) + "}]", deployment(create, one, ""),
			"object: Invalid value: " + strings.Repeat("m", 5119) + "… (rule r)", ""},
		{"a composed message of 5 KiB", match("") + ", validations: [{expression: 'false', messageExpression: \"'" + strings.Repeat("m", 5120) + "'\"}]", deployment(create, one, ""),
			"object: Invalid value: " + strings.Repeat("m", 5120) + " (rule r)", ""},
		{"a longer composed message", match("") + ", validations: [{expression: 'false', message: too long, messageExpression: \"'" + strings.Repeat("m", 5121) + "'\"}]", deployment(create, one, ""),
			"object: Invalid value: too long (rule r)", ""},
		{"a failure", match("") + ", validations: [{expression: object.missing == 1}]", deployment(create, one, ""), `ERROR rule r: evaluating "object.missing == 1": no such key: missing`, "rule r: no result"},
		{"a failure that denies", match("") + ", onError: deny, validations: [{expression: object.missing == 1}]", deployment(create, one, ""),
			`object: Forbidden: rule r could not be evaluated, and refuses what it cannot evaluate: evaluating "object.missing == 1": no such key: missing`, ""},
		{"a failure beside a violation", match("") + ", validations: [{expression: object.missing == 1}, {expression: 'false', message: nope}]", deployment(create, one, ""), "object: Invalid value: nope (rule r)", "no result"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			step := rules(rulesOf(t, "rules: [{name: r, "+c.rules+"}]"), askRed(t))
			req := c.request(t)
			chain := admit.Validate(admit.AsMeta, []admit.Validator[admit.Meta]{step}).Explained()
			result, err := chain.Run(t.Context(), req, nil)
			var got []string
			for _, p := range result.Problems {
				got = append(got, p.Error.Error())
			}
			if err != nil {
				got = append(got, "ERROR "+strings.TrimPrefix(err.Error(), "rules: "))
			}
			if text := strings.Join(got, "; "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
			if strings.Contains(c.want, "not ready") != errors.Is(err, admit.ErrNotReady) {
				t.Errorf("whose failure is %v?", err)
			}
			if err == nil && !strings.Contains(strings.Join(result.Steps[0].Why, "\n"), c.says) {
				t.Errorf("explained as %q, want %s", result.Steps[0].Why, c.says)
			}
		})
	}
}

// TestRulesOutOfTime: that the time of a review is over is usher's failure, also of a rule that refuses what it cannot
// evaluate.
func TestRulesOutOfTime(t *testing.T) {
	policy := rulesOf(t, `rules: [{name: r, match: {apiGroups: [apps], resources: [deployments], operations: [CREATE]}, onError: deny, validations: [{expression: object.spec.replicas > 1}]}]`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := deployment(admissionv1.Create, `{"spec":{"replicas":9}}`, "").request(t)
	problems, err := rules(policy, askRed(t)).Run(ctx, req, admit.AsMeta(req.Object))
	if len(problems) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", problems, err)
	}
}

// TestRulesOfClusterScope: the namespaceSelector of a rule selects Namespaces by their own labels, and no other
// cluster-scoped objects.
func TestRulesOfClusterScope(t *testing.T) {
	step := rules(rulesOf(t, `rules: [{name: r, match: {apiGroups: ["*"], resources: [nodes, namespaces], operations: [CREATE, UPDATE], namespaceSelector: {matchLabels: {team: red}}},
  validations: [{expression: "!has(object.spec) && namespaceObject != null"}]}]`), askRed(t))
	for _, c := range []struct {
		change
		refused bool
	}{
		{change{admissionv1.Create, "", "nodes", "", "", `{}`, ""}, true},
		{change{admissionv1.Create, "", "namespaces", "", "never", `{"metadata":{"labels":{"team":"red"}}}`, ""}, true},
		{change{admissionv1.Create, "", "namespaces", "", "never", `{"metadata":{"labels":{"team":"blue"}}}`, ""}, false},
		{change{admissionv1.Update, "", "namespaces", "", "never", `{"metadata":{"labels":{"team":"red"}}}`, `{"metadata":{"labels":{"team":"red","a":"b"}}}`}, false},
		{change{admissionv1.Update, "", "namespaces", "", "never", `{"metadata":{"labels":{"team":"red"}}}`, `{"metadata":{"labels":{"team":"blue"}}}`}, true},
	} {
		req := c.request(t)
		problems, err := step.Run(t.Context(), req, admit.AsMeta(req.Object))
		if err != nil || (len(problems) > 0) != c.refused {
			t.Errorf("%+v: %v, %v", c.change, problems, err)
		}
	}
}

// TestNoRules: without rules the step does nothing, and says so.
func TestNoRules(t *testing.T) {
	req := deployment(admissionv1.Create, "{}", "").request(t)
	if problems, err := rules(nil, admit.Questions{}).Run(t.Context(), req, admit.AsMeta(req.Object)); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// tenRules are rules that a cluster might have for pods.
const tenRules = `
- {expression: "object.spec.containers.all(c, has(c.resources) && has(c.resources.requests))"}
- {expression: "object.spec.containers.all(c, !c.image.endsWith(':latest'))"}
- {expression: "!has(object.spec.hostNetwork) || !object.spec.hostNetwork"}
- {expression: "object.metadata.?labels['app.kubernetes.io/name'].hasValue() || object.metadata.?labels.app.hasValue()"}
- {expression: "object.spec.?terminationGracePeriodSeconds.orValue(30) <= 600"}
- {expression: "object.spec.containers.all(c, quantity(c.?resources.limits.memory.orValue('1Gi')).isLessThan(quantity('1Ti')))"}
- {expression: "object.spec.?volumes.orValue([]).all(v, !has(v.hostPath))"}
- {expression: "object.spec.containers.all(c, c.?securityContext.privileged.orValue(false) == false)"}
- {expression: "request.userInfo.username != 'system:anonymous'"}
- {expression: "object.spec.containers.size() + object.spec.?initContainers.orValue([]).size() < 50"}
`

// BenchmarkTenRules: ten rules on a pod of 20 KB, each with an expression of its own. Setup is not measured.
func BenchmarkTenRules(b *testing.B) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i, line := range strings.Split(strings.TrimSpace(tenRules), "\n") {
		fmt.Fprintf(&text, "- {name: r%d, match: {apiGroups: [\"\"], resources: [pods], operations: [CREATE]}, validations: [%s]}\n", i, strings.TrimPrefix(line, "- "))
	}
	raw, err := os.ReadFile("../../samples/reviews/mutate-pods/production-pod.json")
	if err != nil {
		b.Fatal(err)
	}
	var review struct {
		Request struct{ Object json.RawMessage }
	}
	var compact bytes.Buffer
	if err := errors.Join(json.Unmarshal(raw, &review), json.Compact(&compact, review.Request.Object)); err != nil {
		b.Fatal(err)
	}
	step := rules(rulesOf(b, text.String()), askRed(b))
	req := change{admissionv1.Create, "", "pods", "", "red", compact.String(), ""}.request(b)
	b.SetBytes(int64(compact.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if problems, err := step.Run(b.Context(), req, nil); err != nil || len(problems) > 0 {
			b.Fatal(problems, err)
		}
	}
}
