package override

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// BenchmarkOverrides measures what overrides add to a review of the 20 KB pod with six steps: without overrides, and with
// 200 that are all about the same steps, by the condition that they have. None of them matches, which takes longest.
func BenchmarkOverrides(b *testing.B) {
	review, err := os.ReadFile("../../samples/reviews/mutate-pods/production-pod.json")
	if err != nil {
		b.Fatal(err)
	}
	many := func(condition func(o *admit.Override, i int)) (list []admit.Override) {
		for i := range 200 {
			o := admit.Override{Name: fmt.Sprint("o", i), Steps: []string{"s3"}, Mode: admit.Warn, Until: time.Now().Add(time.Hour), Reason: "why"}
			condition(&o, i)
			list = append(list, o)
		}
		return list
	}
	value := func(key string, i int) string { return fmt.Sprintf("%s=v%d", key, i) }
	for _, c := range []struct {
		name string
		list []admit.Override
	}{
		{"none", nil},
		{"other-steps", many(func(o *admit.Override, _ int) { o.Steps = []string{"elsewhere"} })},
		{"namespaces", many(func(o *admit.Override, i int) { o.Namespaces = []string{fmt.Sprint("n", i), fmt.Sprint("m", i)} })},
		{"namespace-labels", many(func(o *admit.Override, i int) { o.NamespaceSelector = selectorOf(value("team", i)) })},
		{"users", many(func(o *admit.Override, i int) { o.Users = []string{fmt.Sprint("u", i)} })},
		{"group-and-labels", many(func(o *admit.Override, i int) { o.Groups, o.Selector = []string{"dev"}, selectorOf(value("app", i)) })},
		{"every-step", many(func(o *admit.Override, i int) {
			o.Steps, o.Namespaces = []string{"s0", "s1", "s2", "s3", "s4", "s5"}, []string{fmt.Sprint("n", i)}
		})},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkOverrides(b, review, c.list) })
	}
}

func benchmarkOverrides(b *testing.B, review []byte, list []admit.Override) {
	var steps []admit.Mutator[admit.Pod]
	for i := range 6 {
		steps = append(steps, admit.Mutator[admit.Pod]{Name: fmt.Sprint("s", i), Run: func(context.Context, *admit.Request, *admit.Pod) error { return nil }})
	}
	space := admit.Namespace{Labels: map[string]string{"kubernetes.io/metadata.name": "shop", "team": "shop"}}
	chain := admit.Mutate(admit.AsPod, steps)
	of := Of(list, Context{Now: time.Now, Namespace: func(string) (admit.Namespace, bool, error) { return space, true, nil }})
	var overriding []admit.Overriding
	for _, s := range chain.Steps() {
		overriding = append(overriding, of(s))
	}
	d, err := document.Parse(review)
	if err != nil {
		b.Fatal(err)
	}
	object := d.Root().At("request", "object").Sub()
	b.ReportAllocs()
	var req admit.Request // outlives the loop, as a request is on the heap anyway
	for b.Loop() {
		req = admit.Request{Object: object, Namespace: "shop", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			UserInfo: authenticationv1.UserInfo{Username: "ann", Groups: []string{"dev", "system:authenticated"}}}
		for _, resolve := range overriding {
			if resolve == nil {
				continue
			}
			if _, o, err := resolve(&req); o != nil || err != nil {
				b.Fatal(o, err)
			}
		}
	}
}

// TestOverridesAllocateNothing: to look for an override costs no memory.
func TestOverridesAllocateNothing(t *testing.T) {
	var list []admit.Override
	for i := range 200 {
		list = append(list, admit.Override{Name: fmt.Sprint("o", i), Steps: []string{"one"}, Namespaces: []string{fmt.Sprint("n", i)}, Mode: admit.Warn})
	}
	resolve := Of(list, around(&asked{now: time.Now()}))(admit.Step{Name: "one", Mode: admit.Enforce})
	req := podRequest(t)
	for _, req.Namespace = range []string{"n7", "elsewhere"} {
		if n := testing.AllocsPerRun(100, func() { _, _, _ = resolve(req) }); n > 0 {
			t.Errorf("namespace %s: %v allocations", req.Namespace, n)
		}
	}
}
