package webhookmatch_test

import (
	"math/rand/v2"
	"testing"

	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/usherctl/webhookmatch"
)

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

func some[T any](random *rand.Rand, from ...T) (list []T) {
	for range 1 + random.IntN(2) {
		list = append(list, pick(random, from...))
	}
	return list
}

// FuzzOne: whatever an object and a condition are, there is a verdict with a reason.
func FuzzOne(f *testing.F) {
	f.Add(labelled, "object.metadata.labels.app == 'web'", "app", "web")
	f.Add(`{"metadata":{"labels":7}}`, "object.x > 1", "", "")
	f.Add(`null`, "1", "a b", "!")
	f.Add(`[`, "", "x", "")
	matcher := new(webhookmatch.Matcher)
	f.Fuzz(func(t *testing.T, object, expression, key, value string) {
		h := hook(t, onAll)
		h.MatchConditions = []registration.MatchCondition{{Name: "a", Expression: expression}}
		h.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
		r := asked{operation: "CREATE", resource: "/v1/pods", namespace: "shop", object: object}.request()
		v := matcher.One(t.Context(), r, h)
		if v.Called == (v.Filter != "") || v.Filter != "" && v.Why == "" {
			t.Errorf("%+v", v)
		}
	})
}
