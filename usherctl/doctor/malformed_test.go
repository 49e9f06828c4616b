package doctor_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/colocation"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/tool"
)

// malformed has a policy and a binding with values of wrong types, beside sound ones.
const malformed = `apiVersion: v1
kind: Namespace
metadata: {name: default}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: typo}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}
  validations: [{expression: false}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: typo}
spec: {policyName: typo, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: sound}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: sound}
spec: {policyName: sound, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: text}
spec: {policyName: sound, validationActions: Deny}
`

// TestDoctorOfMalformedFiles: an object with a value of a wrong type is named, with the field and no Go type, and the others are examined.
func TestDoctorOfMalformedFiles(t *testing.T) {
	dir := t.TempDir()
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	doctor := func(cluster string, args ...string) (int, string) {
		for file, text := range map[string]string{filepath.Join(dir, "all.yaml"): cluster, pod: "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}"} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		env := tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{Out: &out, Err: &out}}
		code := command.Run(t.Context(), env, append([]string{"doctor", "--cluster-dir", dir}, args...))
		return code, out.String()
	}
	const policy, binding = "ValidatingAdmissionPolicy typo", "ValidatingAdmissionPolicyBinding text"
	const text, list = "spec.validations.expression: must be a string, but is a boolean", "spec.validationActions: must be a list, but is a string"
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{pod}, 1, []string{"policy-refuses: ValidatingAdmissionPolicy sound", "not judged: what the " + policy + " says: " + text, "not judged: what the " + binding + " says: " + list}},
		{nil, 2, []string{policy + ": " + text + ". Not looked at: what it says. Correct the file.", binding + ": " + list, "2 things that could not be examined"}},
	} {
		code, out := doctor(malformed, c.args...)
		for _, want := range c.says {
			if !strings.Contains(out, want) {
				t.Errorf("it does not say %q: %s", want, out)
			}
		}
		if code != c.code || strings.Contains(out, "Go struct") || strings.Contains(out, "policy-") && len(c.args) == 0 || strings.Contains(out, "readyz") {
			t.Errorf("exit code %d, want %d: %s", code, c.code, out)
		}
	}
	webhooks := "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}, webhooks: [{name: a, clientConfig: {service: {name: true}}}]}"
	if code, out := doctor(webhooks, pod); code != 2 || !strings.Contains(out, "usherctl: ValidatingWebhookConfiguration w: webhooks.clientConfig.service.name: must be a string, but is a boolean") {
		t.Error(code, out)
	}
	if code, out := doctor("{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfigration, metadata: {name: w}}"); code != 2 ||
		!strings.Contains(out, ":1: kind ValidatingWebhookConfigration: apiVersion admissionregistration.k8s.io/v1 has no such kind; did you mean ValidatingWebhookConfiguration?") {
		t.Error(code, out)
	}
	const old = "{apiVersion: admissionregistration.k8s.io/v1beta1, kind: ValidatingWebhookConfiguration, metadata: {name: w}, webhooks: [{name: a, clientConfig: {url: 'https://a/'}}]}"
	for _, args := range [][]string{nil, {pod}} {
		if code, out := doctor(old, args...); code != 2 || strings.Contains(out, "fix:") || !strings.Contains(out, "no API server since Kubernetes 1.22 knows admissionregistration.k8s.io/v1beta1") {
			t.Error(code, out)
		}
	}
	for _, c := range []struct {
		beside string
		code   int
	}{
		{"", 0},
		{"\n---\n{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {paramKind: {apiVersion: kyverno.io/v1, kind: ClusterPolicy}}}", 2},
		{"\n---\n{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}, webhooks: [{name: a, rules: [{apiGroups: [kyverno.io], apiVersions: [v1], operations: [CREATE], resources: [clusterpolicies]}]}]}", 2},
	} {
		code, out := doctor("{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: c}}" + c.beside)
		if unknown := strings.Contains(out, "unknown: not-readable"); code != c.code && (c.code == 0 || !unknown) || unknown != (c.code == 2) || !strings.Contains(out, "1 ClusterPolicy of kyverno.io/v1") {
			t.Error(c.beside, code, out)
		}
	}
}
