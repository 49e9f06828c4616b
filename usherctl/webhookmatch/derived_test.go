package webhookmatch_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/test/seed"
	"usher.dev/usher/usherctl/webhookmatch"
)

// randomRules returns rules of a policy; named ones have names of objects, too.
func randomRules(random *rand.Rand, most int, named bool) (all []admit.Rule) {
	for range random.IntN(most + 1) {
		rule := admit.Rule{Groups: some(random, "", "apps", "*"), Versions: []string{"*"},
			Operations: some(random, admissionv1.Create, admissionv1.Update, admissionv1.Delete),
			Resources:  some(random, "pods", "pods/status", "*", "*/*", "*/status", "pods/*", "namespaces", "nodes/status"),
			Scope:      pick(random, "", registration.AllScopes, registration.ClusterScope, registration.NamespacedScope)}
		if named && random.IntN(3) == 0 {
			rule.Names = some(random, "a", "b")
		}
		all = append(all, rule)
	}
	return all
}

// TestDerivedWebhooksFollowThePolicy: the webhooks that are made from rules with exclusions are called for all requests that
// the rules cover, and if all rules exclude the same, for no others, for 20,000 random pairs.
func TestDerivedWebhooksFollowThePolicy(t *testing.T) {
	// From the API server's disk, webhooks for Namespaces have no condition that asks who may exempt one.
	random, matcher := seed.Random(t), new(webhookmatch.Matcher)
	decided := map[[2]bool]int{}
	for n := range 20000 {
		same := n%2 == 0
		except := randomRules(random, 2, true)
		rules := randomRules(random, 3, !same)
		for i := range rules {
			if rules[i].Except = except; !same {
				rules[i].Except = randomRules(random, 2, true)
			}
		}
		req := &admit.Request{Operation: pick(random, admissionv1.Create, admissionv1.Update, admissionv1.Delete), SubResource: pick(random, "", "status"),
			Namespace: pick(random, "", "shop"), Name: pick(random, "a", "b", "c", "")}
		object := []byte(pick(random, `{"metadata":{"name":"a"}}`, `{"metadata":{"name":"b"}}`, `{"metadata":{}}`, `{}`))
		req.Resource = metav1.GroupVersionResource{Group: pick(random, "", "apps"), Version: "v1", Resource: pick(random, "pods", "nodes", "namespaces")}
		route := admit.Route{Path: "/x", For: admit.AnyKind(rules), Call: admit.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 5}}
		asked := webhookmatch.Request{AdmissionRequest: &admissionv1.AdmissionRequest{Kind: req.Kind, Resource: req.Resource, SubResource: req.SubResource,
			Operation: req.Operation, Name: req.Name, Namespace: req.Namespace}}
		if req.Operation != admissionv1.Delete {
			req.Object, asked.Object.Raw = parsed(t, object), object
		}
		if req.Operation != admissionv1.Create {
			req.OldObject, asked.OldObject.Raw = parsed(t, object), object
		}
		called := slices.ContainsFunc(webhooks.Validating([]admit.Route{route}, webhooks.Address{OnDisk: true}).Webhooks, func(w webhooks.Hook) bool {
			v := matcher.One(t.Context(), asked, webhookmatch.Hook{ValidatingWebhook: registration.ValidatingWebhook{Name: w.Name, Rules: w.Rules,
				FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy, MatchConditions: w.MatchConditions}})
			if v.Filter == webhookmatch.Unknown {
				t.Fatalf("%s\n%+v", v.Why, w)
			}
			return v.Called
		})
		covered := route.Covers(req)
		if covered && !called || called && !covered && same {
			t.Fatalf("called %t, covered %t\n%+v\n%+v", called, covered, req, rules)
		}
		decided[[2]bool{same, covered}]++
	}
	for _, way := range [][2]bool{{true, true}, {true, false}, {false, true}} {
		if decided[way] < 1000 {
			t.Errorf("the same exclusions, covered: %v came %d times, want 1000", way, decided[way])
		}
	}
}

func parsed(t *testing.T, raw []byte) *document.Document {
	t.Helper()
	d, err := document.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
