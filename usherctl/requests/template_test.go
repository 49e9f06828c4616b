package requests

import (
	"fmt"
	"strings"
	"testing"
)

// TestCheckTemplates: a path is right if a custom resource has something there, also one in an AdmissionReview; the paths of workloads are known.
func TestCheckTemplates(t *testing.T) {
	const object = `{apiVersion: %s, kind: %s, metadata: {name: x}, spec: {template: {}}}`
	rollout, deployment := fmt.Sprintf(object, "example.io/v1", "Rollout"), fmt.Sprintf(object, "apps/v1", "Deployment")
	const review = `{apiVersion: admission.k8s.io/v1, kind: AdmissionReview, request: {%s: %s}}`
	for text, right := range map[string]bool{
		rollout: true, deployment: false, deployment + "\n---\n" + rollout: true,
		fmt.Sprintf(review, "object", rollout): true, fmt.Sprintf(review, "oldObject", rollout): true,
		fmt.Sprintf(review, "object", deployment): false, `{apiVersion: example.io/v1, kind: Policy}`: false, "a: [": true,
	} {
		if err := CheckTemplates(Read("test", strings.NewReader(text)), []string{"spec.template"}); (err == nil) != right {
			t.Errorf("%s: %v", text, err)
		}
	}
}
