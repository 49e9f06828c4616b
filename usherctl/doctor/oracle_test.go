package doctor

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/test/seed"
	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/requests"
)

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

func some[T any](random *rand.Rand, from ...T) (list []T) {
	for range 1 + random.IntN(2) {
		list = append(list, pick(random, from...))
	}
	return list
}

func randomSelector(random *rand.Rand) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	for range random.IntN(3) {
		r := metav1.LabelSelectorRequirement{Key: pick(random, "a", "b"), Operator: pick(random, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn,
			metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = some(random, "1", "2")
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}

func randomLabels(random *rand.Rand) map[string]string {
	of := map[string]string{}
	for _, key := range []string{"a", "b"} {
		if random.IntN(2) == 0 {
			of[key] = pick(random, "1", "2")
		}
	}
	return of
}

// randomHook returns a webhook that the API server would store, and that is for many of randomRequest's.
func randomHook(random *rand.Rand, name string) registration.MutatingWebhook {
	w := registration.MutatingWebhook{Name: name, SideEffects: new(registration.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		ClientConfig: registration.WebhookClientConfig{URL: new("https://a.example")}, FailurePolicy: new(registration.Ignore),
		MatchPolicy: pick(random, nil, new(registration.Exact), new(registration.Equivalent)), NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}}
	for range 1 + random.IntN(2) {
		w.Rules = append(w.Rules, registration.RuleWithOperations{
			Operations: some(random, registration.Create, registration.Update, registration.Delete, registration.OperationAll),
			Rule: registration.Rule{APIGroups: some(random, "", "farm.test", "autoscaling", "*"), APIVersions: some(random, "v1", "v2", "*"),
				Resources: some(random, "pods", "pods/status", "*", "*/*", "*/status", "pods/*", "namespaces", "oxen", "horizontalpodautoscalers"),
				Scope:     pick(random, nil, new(registration.AllScopes), new(registration.ClusterScope), new(registration.NamespacedScope))}})
	}
	if random.IntN(3) == 0 {
		w.NamespaceSelector = randomSelector(random)
	}
	if random.IntN(3) == 0 {
		w.ObjectSelector = randomSelector(random)
	}
	for i := range random.IntN(3) {
		w.MatchConditions = append(w.MatchConditions, registration.MatchCondition{Name: fmt.Sprint(i), Expression: pick(random,
			"'a' in object.metadata.labels", "object.metadata.labels.a == '1'", "has(object.metadata.name)", "request.name.startsWith('x')", "oldObject == null",
			"object.spec.restartPolicy == 'Always'", "object.spec.serviceAccountName == 'default'", "request.operation != 'DELETE'", "object.apiVersion.endsWith('v1')",
			"has(object.metadata.labels) && 'kubernetes.io/metadata.name' in object.metadata.labels", "request.namespace == 'shop'", "request.resource.version == 'v1'",
			"size(object.spec.tolerations) > 1", "request.userInfo.username == 'ann'", "has(object.metadata.generateName)", "request.kind.kind == 'Pod'")})
	}
	return w
}

// randomRequest returns a manifest, and what is done with it.
func randomRequest(random *rand.Rand, i int) (requests.Document, requests.Options) {
	o := requests.Options{Operation: pick(random, admissionv1.Create, admissionv1.Update, admissionv1.Delete), User: "ann", Namespace: pick(random, "shop", "bank"),
		DryRun: random.IntN(4) == 0}
	kind := pick(random, `"v1","kind":"Pod"`, `"v1","kind":"Pod"`, `"v1","kind":"Namespace"`, `"farm.test/v1","kind":"Ox"`, `"farm.test/v2","kind":"Ox"`, `"autoscaling/v1","kind":"HorizontalPodAutoscaler"`,
		`"autoscaling/v2","kind":"HorizontalPodAutoscaler"`)
	labels, _ := json.Marshal(randomLabels(random))
	name := fmt.Sprintf(`"name":"x%d"`, i)
	if kind == `"v1","kind":"Pod"` && o.Operation == admissionv1.Create && random.IntN(2) == 0 {
		name = `"generateName":"x-"`
	}
	if kind == `"v1","kind":"Pod"` && o.Operation == admissionv1.Update && random.IntN(2) == 0 {
		o.SubResource = "status"
	}
	return requests.Document{JSON: fmt.Appendf(nil, `{"apiVersion":%s,"metadata":{%s,"labels":%s},"spec":{"containers":[{"name":"a","image":"a"}],"restartPolicy":"Always",
		"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"},"maxReplicas":2}}`, kind, name, labels)}, o
}

const oxen = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: oxen.farm.test}, spec: {group: farm.test, scope: Namespaced,
  names: {plural: oxen, singular: ox, kind: Ox, listKind: OxList}, versions: [{name: v1, served: true, storage: true, schema: &any {openAPIV3Schema: {type: object,
  x-kubernetes-preserve-unknown-fields: true}}}, {name: v2, served: true, schema: *any}]}}`

// TestExplainsTheFacts: why a webhook is called or not is explained as the API server's code decides it, for random webhooks and requests.
func TestExplainsTheFacts(t *testing.T) {
	random := seed.Random(t)
	filters := map[string]int{}
	rare := func() (rare []string) {
		for _, filter := range []string{"", "rules", "scope", "matchPolicy", "namespaceSelector", "objectSelector", "matchConditions"} {
			if filters[filter] < 20 {
				rare = append(rare, filter)
			}
		}
		return rare
	}
	for round := 0; round < 6 || len(rare()) > 0 && round < 100; round++ {
		dir := t.TempDir()
		write := func(name string, object any) {
			text, is := object.(string)
			if !is {
				raw, err := json.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				text = string(raw)
			}
			if err := os.WriteFile(dir+"/"+name+".yaml", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("oxen", oxen)
		for _, name := range []string{"shop", "bank"} {
			write(name, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": randomLabels(random)}})
		}
		for _, kind := range []string{mutatingKind, validatingKind} {
			c := registration.MutatingWebhookConfiguration{TypeMeta: metav1.TypeMeta{APIVersion: registrationGroup + "/v1", Kind: kind}, ObjectMeta: metav1.ObjectMeta{Name: "c"}}
			for i := range 15 {
				c.Webhooks = append(c.Webhooks, randomHook(random, fmt.Sprintf("w%d.example.com", i)))
			}
			write(kind, c)
		}
		source, err := reader.Files(dir)
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewExaminer(t.Context(), source, requests.NewCatalogue(nil))
		if err != nil {
			t.Fatal(err)
		}
		var documents []requests.Document
		var options []requests.Options
		for i := range 30 {
			d, o := randomRequest(random, i)
			documents, options = append(documents, d), append(options, o)
			e.Learn(t.Context(), []requests.Document{d}, o)
		}
		for i, d := range documents {
			o := options[i]
			r, err := e.request(t.Context(), d, o)
			if err != nil {
				t.Fatal(err)
			}
			j := e.judgeRequest(t.Context(), d, r, nobody)
			if j.Refusal != nil {
				t.Fatalf("%s: %s", d.JSON, j.Refusal.Message)
			}
			explained := e.matcher.Of(t.Context(), j.seenBy(true), j.seenBy(false), hooksOf(e.hooks))
			for i, h := range e.hooks {
				called := slices.ContainsFunc(j.Calls, func(c engine.Call) bool { return c.Name == h.Name && c.Mutates == h.mutating() })
				if filters[explained[i].Filter]++; explained[i].Called != called && !explained[i].Converts {
					hook, _ := json.Marshal(h.Hook)
					t.Fatalf("called: %t, explained: %+v\n%s\n%s %s", called, explained[i], hook, o.Operation, d.JSON)
				}
				if j.verdicts[i].Called != called {
					t.Fatalf("called: %t, reported: %+v", called, j.verdicts[i])
				}
			}
		}
	}
	if len(rare()) > 0 {
		t.Errorf("the filters %q are drawn too seldom: %v", rare(), filters)
	}
}
