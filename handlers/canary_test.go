package handlers

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// TestCanary: the answer to the dry run of a canary says so, whatever it is, and no other answer does.
func TestCanary(t *testing.T) {
	refuse := func(context.Context, *admit.Request, *admit.Pod) error {
		return field.Required(field.NewPath("spec"), "it is told to")
	}
	canary := strings.Replace(podReview, `"metadata":{`, `"metadata":{"annotations":{"usher.dev/canary":"true"},`, 1)
	dryRun := func(review string) string { return strings.Replace(review, `"uid":"u"`, `"uid":"u","dryRun":true`, 1) }
	for _, c := range []struct {
		name, review string
		run          func(context.Context, *admit.Request, *admit.Pod) error
		want         bool
	}{
		{"allowed", dryRun(canary), succeed, true},
		{"denied", dryRun(canary), refuse, true},
		{"stored", canary, succeed, false},
		{"no canary", dryRun(podReview), succeed, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, _ := serveOne(route(c.run), postTo(strings.NewReader(c.review)))
			warnings := answer(t, w).Warnings
			if slices.Contains(warnings, CanaryAnswer("/mutate-test")) != c.want || !c.want && len(warnings) > 0 {
				t.Errorf("%q", warnings)
			}
		})
	}
}
