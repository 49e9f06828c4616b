package requests

import (
	"math/rand/v2"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"usher.dev/usher/admit"
	"usher.dev/usher/test/seed"
)

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

func some[T any](random *rand.Rand, from ...T) (list []T) {
	for range 1 + random.IntN(2) {
		list = append(list, pick(random, from...))
	}
	return list
}

var (
	groups    = []string{"", "apps"}
	names     = []string{"pods", "nodes", "services"}
	serveable = []string{"v1", "v2"}
)

// randomRequests returns lists of requests, in some of the versions.
func randomRequests(random *rand.Rand, most int, versions ...string) (lists []Requests) {
	for range random.IntN(most + 1) {
		one := Requests{
			APIGroups: some(random, "", "apps", "*"), APIVersions: some(random, versions...), Operations: some(random, "CREATE", "UPDATE", "DELETE", "*"),
			Resources: some(random, "pods", "pods/status", "*", "*/*", "*/status", "pods/*", "services", "nodes/status"),
			Scope:     pick(random, "", registration.AllScopes, registration.ClusterScope, registration.NamespacedScope),
		}
		if random.IntN(3) == 0 {
			one.ResourceNames = some(random, "a", "b")
		}
		lists = append(lists, one)
	}
	return lists
}

// likeAPolicy is the decision about the matchConstraints of a ValidatingAdmissionPolicy with matchPolicy Equivalent, by the API
// server's own code for rules: a request matches if some version of its resource does, and exclusions win.
func likeAPolicy(m Match, r admit.Request) bool {
	matches := func(lists []Requests) bool {
		return slices.ContainsFunc(lists, func(one Requests) bool {
			return slices.ContainsFunc(serveable, func(version string) bool {
				as := schema.GroupVersionResource{Group: r.Resource.Group, Version: version, Resource: r.Resource.Resource}
				a := admission.NewAttributesRecord(nil, nil, as.GroupVersion().WithKind("X"), r.Namespace, r.Name, as, r.SubResource,
					admission.Operation(r.Operation), nil, false, nil)
				matcher := rules.Matcher{Rule: one.ofWebhook(), Attr: a}
				return matcher.Matches() && (len(one.ResourceNames) == 0 || slices.Contains(one.ResourceNames, r.Name))
			})
		})
	}
	var lists []Requests
	m.Each(nil, func(one *Requests, _ *field.Path) { lists = append(lists, *one) })
	return matches(lists) && !matches(m.ExcludeResourceRules)
}

// TestMatchLikeTheLibrary: several lists, exclusions and names match as the API server matches the matchConstraints of a
// policy, for 20,000 random pairs.
func TestMatchLikeTheLibrary(t *testing.T) {
	random := seed.Random(t)
	decided := map[[3]bool]int{}
	for range 20000 {
		m := Match{ResourceRules: randomRequests(random, 3, "*"), ExcludeResourceRules: randomRequests(random, 2, append(slices.Clone(serveable), "*")...)}
		if len(m.ResourceRules) == 0 {
			m.Requests = append(randomRequests(random, 1, "*"), Requests{APIGroups: []string{"*"}, Resources: []string{"*"}, Operations: []string{"*"}})[0]
		}
		r := admit.Request{Operation: pick(random, admissionv1.Create, admissionv1.Update, admissionv1.Delete), SubResource: pick(random, "", "status"),
			Namespace: pick(random, "", "shop"), Name: pick(random, "a", "b", "c", "")}
		r.Resource = metav1.GroupVersionResource{Group: pick(random, groups...), Version: pick(random, serveable...), Resource: pick(random, names...)}
		got := admit.RulesCover(m.Rules(), &r)
		if want := likeAPolicy(m, r); got != want {
			t.Fatalf("matches %t, the API server: %t\n%+v\n%+v", got, want, r, m)
		}
		m.ExcludeResourceRules = nil
		included := admit.RulesCover(m.Rules(), &r)
		decided[[3]bool{included, got, len(m.ResourceRules) > 1}]++
	}
	for _, way := range [][3]bool{{true, true, true}, {true, false, true}, {false, false, true}, {true, true, false}, {true, false, false}, {false, false, false}} {
		if decided[way] < 200 {
			t.Errorf("included, matched, with several lists: %v came %d times, want 200", way, decided[way])
		}
	}
}
