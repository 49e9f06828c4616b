//go:build !race

package mutators

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators/amplify"
	"usher.dev/usher/test/reviews"
)

// TestAllocationsOfChains: a review makes few objects from the parsed object to the patch, however many containers it
// has. The bounds have some room, since pools are emptied now and then.
func TestAllocationsOfChains(t *testing.T) {
	bounds := map[string]float64{
		"2KB-pod": 25, "20KB-pod-changed": 25, "20KB-pod-unchanged": 20, "220KB-pod": 30,
		"51KB-node-amplified": 80, "51KB-node-unchanged": 80,
	}
	for _, review := range reviews.Core() {
		chain, req := chainFor(t, review)
		var patch []byte
		n := testing.AllocsPerRun(100, func() { patch = decide(t, chain, req(), patch[:0]) })
		if n > bounds[review.Name] || len(patch) > 0 != review.Patched {
			t.Errorf("%s: %v allocations, at most %v; a patch of %d bytes", review.Name, n, bounds[review.Name], len(patch))
		}
	}
}

// BenchmarkChains measures the same.
func BenchmarkChains(b *testing.B) {
	for _, review := range reviews.Core() {
		chain, req := chainFor(b, review)
		b.Run(review.Name, func(b *testing.B) {
			b.ReportAllocs()
			var patch []byte
			for b.Loop() {
				patch = decide(b, chain, req(), patch[:0])
			}
		})
	}
}

// chainFor returns the chain of a review's route, and a function that parses its objects again.
func chainFor(t testing.TB, review reviews.Review) (admit.Chain, func() *admit.Request) {
	policy := config.PolicyOf( // the default
		&Lifespan{Label: "acme.com/lifespan-requested", Taint: "acme.com/lifespan-remaining", Max: 14},
		Env{{Name: "KUBE", Value: "true"}},
		&amplify.Overcommit{Pools: []amplify.Pool{
			{Name: "default", Ratios: map[corev1.ResourceName]string{"cpu": "2"}, MaxRatio: "4", Capacity: amplify.Raise}}},
	)
	chain := admit.Mutate(admit.AsPod, Pods(policy, admit.Questions{}))
	if review.Path == "/mutate-nodes" {
		chain = admit.Mutate(admit.AsNode, Nodes(policy))
	}
	var sent struct {
		Request struct {
			UserInfo          struct{ Username string }
			Object, OldObject json.RawMessage
		}
	}
	if err := json.Unmarshal(review.Body, &sent); err != nil {
		t.Fatal(err)
	}
	return chain, func() *admit.Request {
		req := &admit.Request{Object: parsed(t, sent.Request.Object), OldObject: parsed(t, sent.Request.OldObject)}
		req.UserInfo.Username = sent.Request.UserInfo.Username
		return req
	}
}

func parsed(t testing.TB, raw []byte) *document.Document {
	if string(raw) == "null" || raw == nil {
		return nil
	}
	d, err := document.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func decide(t testing.TB, chain admit.Chain, req *admit.Request, patch []byte) []byte {
	if result, err := chain.Run(t.Context(), req, nil); err != nil || len(result.Problems) > 0 {
		t.Fatal(err, result.Problems)
	}
	patch = req.Object.AppendPatch(patch)
	req.Release()
	return patch
}
