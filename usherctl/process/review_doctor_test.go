package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// aroundUsher is a cluster in which a policy and a webhook of others are asked, too.
const aroundUsher = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {admission-webhook: enabled}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: theirs}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}
  validations: [{expression: "EXPRESSION"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: theirs}
spec: {policyName: theirs, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: KINDWebhookConfiguration
metadata: {name: theirs}
webhooks:
- name: theirs.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {url: "https://192.0.2.1"}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [RESOURCE], operations: [CREATE]}]
---
`

// TestReviewAsksPolicies: with --doctor an object is allowed only if the admission policies of the cluster do not refuse what usher makes of it,
// and whose answers are not known is said.
func TestReviewAsksPolicies(t *testing.T) {
	const unanswered = "not judged: webhook theirs.example.com of theirs: its answer is not known"
	for _, c := range []struct {
		expression, kind, resource string
		code                       int
		says, not                  string
	}{
		{"false", "Validating", "services", 1, "ValidatingAdmissionPolicy  denied", "not judged"},
		{"object.spec.containers.all(c, c.env.exists(e, e.name == 'KUBE'))", "Validating", "services", 0, "1 object: 1 allowed", "not judged"},
		{"object.spec.containers.all(c, !has(c.env))", "Validating", "services", 1, "1 object: 1 denied", "not judged"},
		{"true", "Validating", "pods", 2, unanswered, "mutate-pods.usher.dev and"},
		{"object.metadata.name != 'web'", "Mutating", "pods", 2, "1 object: 1 not judged", "policy-refuses"},
		{"object.metadata.name != 'web' && false", "Validating", "pods", 1, "theirs.example.com            not called: refused: ", "1 allowed"},
	} {
		dir := t.TempDir()
		_, registered, _ := usher(t, "webhooks")
		others := strings.NewReplacer("EXPRESSION", c.expression, "KIND", c.kind, "RESOURCE", c.resource).Replace(aroundUsher)
		pod, in := filepath.Join(dir, "pod.yaml"), filepath.Join(dir, "cluster")
		if err := os.Mkdir(in, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{filepath.Join(in, "all.yaml"): others + registered,
			pod: "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: c, image: 'i:1'}]}}"} {
			putFile(t, file, []byte(text))
		}
		code, out, errors := run(t, "", "review", pod, "--doctor", "--suite=core", "--cluster-dir", in)
		if code != c.code || !strings.Contains(out, c.says) || strings.Contains(out, c.not) {
			t.Errorf("%s: exit code %d, want %d, %q and not %q: %s%s", c.expression, code, c.code, c.says, c.not, out, errors)
		}
	}
}
