package admit

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit/document"
)

// BenchmarkOverrides measures what overrides add to a review of the 20 KB pod with six steps: without overrides, and with
// 200 that are all about the same steps, by the condition that they have. None of them matches, which takes longest.
func BenchmarkOverrides(b *testing.B) {
	review, err := os.ReadFile("../samples/reviews/mutate-pods/production-pod.json")
	if err != nil {
		b.Fatal(err)
	}
	many := func(condition func(o *Override, i int)) (list []Override) {
		for i := range 200 {
			o := Override{Name: fmt.Sprint("o", i), Steps: []string{"s3"}, Mode: Warn, Until: time.Now().Add(time.Hour), Reason: "why"}
			condition(&o, i)
			list = append(list, o)
		}
		return list
	}
	value := func(key string, i int) string { return fmt.Sprintf("%s=v%d", key, i) }
	for _, c := range []struct {
		name string
		list []Override
	}{
		{"none", nil},
		{"other-steps", many(func(o *Override, _ int) { o.Steps = []string{"elsewhere"} })},
		{"namespaces", many(func(o *Override, i int) { o.Namespaces = []string{fmt.Sprint("n", i), fmt.Sprint("m", i)} })},
		{"namespace-labels", many(func(o *Override, i int) { o.NamespaceSelector = selectorOf(value("team", i)) })},
		{"users", many(func(o *Override, i int) { o.Users = []string{fmt.Sprint("u", i)} })},
		{"group-and-labels", many(func(o *Override, i int) { o.Groups, o.Selector = []string{"dev"}, selectorOf(value("app", i)) })},
		{"every-step", many(func(o *Override, i int) {
			o.Steps, o.Namespaces = []string{"s0", "s1", "s2", "s3", "s4", "s5"}, []string{fmt.Sprint("n", i)}
		})},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkOverrides(b, review, c.list) })
	}
}

func benchmarkOverrides(b *testing.B, review []byte, list []Override) {
	var steps []Mutator[Pod]
	for i := range 6 {
		steps = append(steps, Mutator[Pod]{Name: fmt.Sprint("s", i), Run: func(context.Context, *Request, *Pod) error { return nil }})
	}
	space := Namespace{Labels: map[string]string{"kubernetes.io/metadata.name": "shop", "team": "shop"}}
	chain := Mutate(AsPod, steps).WithOverrides(list, OverrideContext{Now: time.Now,
		Namespace: func(string) (Namespace, bool, error) { return space, true, nil }})
	d, err := document.Parse(review)
	if err != nil {
		b.Fatal(err)
	}
	object := d.Root().At("request", "object").Sub()
	b.ReportAllocs()
	for b.Loop() {
		req := Request{Object: object, Namespace: "shop", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			UserInfo: authenticationv1.UserInfo{Username: "ann", Groups: []string{"dev", "system:authenticated"}}}
		for i := range chain.steps {
			if _, o, err := chain.steps[i].resolve(&req); o != nil || err != nil {
				b.Fatal(o, err)
			}
		}
	}
}

// TestOverridesAllocateNothing: to look for an override costs no memory.
func TestOverridesAllocateNothing(t *testing.T) {
	var list []Override
	for i := range 200 {
		list = append(list, Override{Name: fmt.Sprint("o", i), Steps: []string{"one"}, Namespaces: []string{fmt.Sprint("n", i)}, Mode: Warn})
	}
	chain := Validate(AsPod, []Validator[Pod]{noted("one")}).WithOverrides(list, around(&asked{now: time.Now()}))
	req := podRequest(t)
	for _, req.Namespace = range []string{"n7", "elsewhere"} {
		if n := testing.AllocsPerRun(100, func() { _, _, _ = chain.steps[0].resolve(req) }); n > 0 {
			t.Errorf("namespace %s: %v allocations", req.Namespace, n)
		}
	}
}
