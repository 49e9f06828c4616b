package rules

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"

	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/config"
	"usher.dev/usher/routes"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/usherctl/engine"
)

// policyText has rules of all shapes that are exported, of which none is for the requests of another.
const policyText = `
rules:
- name: replicas
  match: {apiGroups: [apps], resources: [deployments], operations: [CREATE, UPDATE], scope: Namespaced}
  variables: [{name: most, expression: "namespaceObject.metadata.?labels['tier'].orValue('') == 'prod' ? 4 : 2"}]
  matchConditions: [{name: not-free, expression: "object.metadata.?labels['free'].orValue('') != 'yes'"}]
  validations:
  - {expression: object.spec.replicas <= variables.most, messageExpression: "'at most ' + string(variables.most)", fieldPath: spec.replicas}
  - {expression: "object.spec.template.spec.containers.all(c, c.image != 'a:latest') // no latest", message: no latest, reason: Forbidden}
- name: data
  match:
    resourceRules: [{apiGroups: [""], resources: [configmaps], operations: ["*"]}]
    excludeResourceRules: [{apiGroups: [""], resources: [configmaps], operations: [CREATE], resourceNames: [c1]}]
  matchConditions: [{name: not-deleted, expression: "object != null"}]
  validations: [{expression: "!has(object.data) || object.data['a'] != 'x'"}]
- name: kept
  onError: deny
  ratchet: false
  match: {apiGroups: [""], resources: [secrets], operations: [UPDATE, DELETE], objectSelector: {matchLabels: {free: "no"}}}
  validations: [{expression: "request.operation == 'DELETE' ? oldObject.metadata.name != 's1' : object.metadata.labels.team == oldObject.metadata.labels.team"}]
- name: names
  match: {apiGroups: [""], resources: [namespaces, persistentvolumes, services], operations: [CREATE, UPDATE]}
  validations: [{expression: "object.metadata.?labels[?'team'].hasValue()", reason: RequestEntityTooLarge}]
`

// drawn returns a random request for which there may be a rule.
func drawn(r *rand.Rand) engine.Request {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	kind := pick("Deployment", "Deployment", "ConfigMap", "Secret", "Namespace", "Service")
	name := map[string]string{"Deployment": "d", "ConfigMap": "c", "Secret": "s", "Namespace": "n", "Service": "v"}[kind] + pick("1", "2")
	in := pick("prod", "open", "elsewhere")
	object := func() []byte {
		labels := "{" + pick("", "free: 'yes'", "free: 'no'") + pick("", ", team: a", ", team: b") + "}"
		labels = strings.Replace(labels, "{,", "{", 1)
		head := fmt.Sprintf("kind: %s\nmetadata: {name: %s, labels: %s%s}\n", kind, name, labels, map[bool]string{false: ", namespace: " + in}[kind == "Namespace"])
		switch kind {
		case "Deployment":
			return fmt.Appendf(nil, "apiVersion: apps/v1\n%sspec: {replicas: %s, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, "+
				"spec: {containers: [{name: a, image: '%s'}]}}}\n", head, pick("1", "3", "5"), pick("a:latest", "a:1"))
		case "ConfigMap":
			return []byte("apiVersion: v1\n" + head + pick("", "data: {}\n", "data: {a: x}\n", "data: {a: x, b: y}\n", "data: {a: z}\n", "data: {b: x}\n"))
		case "Service":
			return []byte("apiVersion: v1\n" + head + "spec: {ports: [{port: 80}], clusterIP: None}\n")
		}
		return []byte("apiVersion: v1\n" + head)
	}
	q := engine.Request{Operation: admissionv1.Operation(pick("CREATE", "UPDATE", "DELETE")), User: "ann", DryRun: r.IntN(4) == 0, New: true}
	if kind == "Namespace" && q.Operation == admissionv1.Delete {
		q.Operation = admissionv1.Create
	}
	q.Object = object()
	switch q.Operation {
	case admissionv1.Update:
		q.Old, q.New = object(), false
		if r.IntN(2) == 0 {
			q.Old = q.Object
		}
	case admissionv1.Delete:
		q.Old, q.New, q.Object = q.Object, false, nil
		u := unstructured.Unstructured{}
		_ = yaml.Unmarshal(q.Old, &u.Object)
		q.Kind, q.Name, q.Namespace = u.GroupVersionKind(), u.GetName(), u.GetNamespace()
	}
	return q
}

const namespaces = `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod", "labels": {"kubernetes.io/metadata.name": "prod", "admission-webhook": "enabled", "tier": "prod"}}}
{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "open", "labels": {"kubernetes.io/metadata.name": "open", "admission-webhook": "enabled"}}}
{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere", "labels": {"kubernetes.io/metadata.name": "elsewhere"}}}`

// both returns two API servers: one that calls usher by its webhooks, and one that has the exported policies.
func both(t *testing.T) (usher, policies *engine.Engine) {
	t.Helper()
	suites := routes.Suites()
	policy, problems := config.Parse([]byte(policyText), suites.Schema())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	given, errs := manifest.Read("namespaces", []byte(strings.ReplaceAll(namespaces, "\n", "\n---\n")))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	in, err := suite.Load(suite.Setup{Suites: suites, Names: []string{"core"}, Policy: policy, Gates: gate.Defaults(suites.Gates()), Cluster: suite.Source{Given: given}})
	if err != nil {
		t.Fatal(err)
	}
	mux := harness.DefaultServer().Serve(in.Routes())
	with := engine.Cluster{Webhook: func(_ context.Context, called engine.Registered, review []byte) (engine.Answer, error) {
		answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, called.Path, bytes.NewReader(review))
		request.Header.Set("Content-Type", "application/json")
		mux.ServeHTTP(answer, request)
		return engine.Answer{Code: answer.Code, Body: answer.Body.Bytes()}, nil
	}}
	var exported engine.Cluster
	for _, o := range given {
		with.Objects = append(with.Objects, fromJSON(t, o.JSON))
	}
	exported.Objects = slices.Clip(with.Objects)
	var only []admit.Route
	for _, r := range in.Routes() {
		if r.Path == path {
			only = append(only, r)
		}
	}
	raw, err := json.Marshal(webhooks.Validating(only, webhooks.Address{Namespace: "usher", Service: "usher"}))
	if err != nil {
		t.Fatal(err)
	}
	with.Objects = append(slices.Clip(with.Objects), fromJSON(t, raw))
	all, err := Of(t.Context(), suites, policy)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range all {
		if rule.Why != "" {
			t.Fatalf("%s: %s", rule.Name, rule.Why)
		}
		for _, text := range rule.Objects {
			text, _ = yaml.YAMLToJSON(text)
			exported.Objects = append(exported.Objects, fromJSON(t, text))
		}
	}
	return opened(t, with), opened(t, exported)
}

func opened(t *testing.T, c engine.Cluster) *engine.Engine {
	t.Helper()
	e, err := engine.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func fromJSON(t *testing.T, raw []byte) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

func number(variable string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(variable), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// TestSameVerdicts: an API server with the exported policies allows and refuses the same random requests as one that calls usher.
func TestSameVerdicts(t *testing.T) {
	seed, draws := number("USHER_ORACLE_SEED", rand.Uint64()>>32), 13*number("USHER_ORACLE_DRAWS", 80) // 400: 5,200 requests
	t.Logf("USHER_ORACLE_SEED=%d", seed)
	usher, policies := both(t)
	r := rand.New(rand.NewPCG(seed, 1))
	refused, stayed := map[string]int{}, 0
	for range draws {
		q := drawn(r)
		a, b := usher.Judge(t.Context(), q), policies.Judge(t.Context(), q)
		if a.Allowed() != b.Allowed() || len(a.Unjudged)+len(b.Unjudged) > 0 {
			t.Fatalf("%s\n%s\nold: %s\nusher: %+v, called: %d times\npolicies: %+v", q.Operation, q.Object, q.Old, a.Refusal, len(a.Calls), b.Refusal)
		}
		if !a.Allowed() {
			_, after, _ := strings.Cut(b.Refusal.Message, "ValidatingAdmissionPolicy '")
			name, _, _ := strings.Cut(after, ".")
			refused[name]++
			failed := strings.Contains(a.Refusal.Message, "failed calling webhook") && strings.Contains(b.Refusal.Message, "resulted in error")
			if byRule := name != "" && strings.Contains(a.Refusal.Message, name); !byRule && !failed && a.Refusal.Message != b.Refusal.Message {
				t.Errorf("usher refuses by %s\nthe policies by %s", a.Refusal.Message, b.Refusal.Message)
			}
		}
		if q.Operation == admissionv1.Update && a.Allowed() && bytes.Equal(q.Object, q.Old) && bytes.Contains(q.Object, []byte("a:latest")) &&
			!bytes.Contains(q.Object, []byte("free: 'yes'")) && !bytes.Contains(q.Object, []byte("elsewhere")) {
			stayed++
		}
	}
	t.Logf("%d requests, refused by rule: %v, unchanged violations: %d", draws, refused, stayed)
	if draws < 1000 {
		return // too few to say what they must have
	}
	for _, rule := range []string{"replicas", "data", "kept", "names"} {
		if refused[rule] == 0 {
			t.Errorf("rule %s has refused nothing", rule)
		}
	}
	if stayed == 0 {
		t.Error("no violation was unchanged")
	}
}

// TestNotExported: what an API server cannot judge as usher does is named.
func TestNotExported(t *testing.T) {
	const rule = `{name: r, match: {apiGroups: [""], resources: [pods], operations: [CREATE, UPDATE]%s}, validations: [{expression: has(object.spec)}]%s}`
	for _, c := range []struct{ name, policy, want string }{
		{"off", "modes: {rules: \"off\"}\nrules: [" + fmt.Sprintf(rule, "", "") + "]", "is off"},
		{"override", "overrides: [{name: o, steps: [rules], mode: warn, users: [ann], reason: r, until: 2999-01-01}]\nrules: [" + fmt.Sprintf(rule, "", "") + "]", "override o"},
		{"override-over", "overrides: [{name: o, steps: [rules], mode: warn, users: [ann], reason: r, until: 2020-01-01}]\nrules: [" + fmt.Sprintf(rule, "", "") + "]", ""},
		{"selector", "rules: [" + fmt.Sprintf(rule, ", objectSelector: {matchLabels: {a: b}}", "") + "]", "ratchet: false"},
		{"selector-without-ratchet", "rules: [" + fmt.Sprintf(rule, ", objectSelector: {matchLabels: {a: b}}", ", ratchet: false") + "]", ""},
		{"condition-name", "rules: [" + fmt.Sprintf(rule, "", `, matchConditions: [{name: two words, expression: "true"}]`) + "]", "an API server refuses it: "},
		{"warn", "modes: {rules: warn}\nrules: [" + fmt.Sprintf(rule, "", "") + "]", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy, problems := config.Parse([]byte(c.policy), routes.Suites().Schema())
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			all, err := Of(t.Context(), routes.Suites(), policy)
			if err != nil || len(all) != 1 || !strings.Contains(all[0].Why, c.want) || (c.want == "") != (len(all[0].Objects) == 2) {
				t.Errorf("%+v, %v", all, err)
			}
			if c.name == "warn" && !bytes.Contains(all[0].Objects[1], []byte("validationActions:\n  - Warn")) {
				t.Errorf("%s", all[0].Objects[1])
			}
		})
	}
}
