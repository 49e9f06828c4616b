package review_test

import (
	"bytes"
	"fmt"
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

// installedUsher has a Deployment with a policy, and a webhook that calls usher.
const installedUsher = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: usher}
spec:
  template:
    spec:
      containers:
      - {name: usher, args: [serve%s], volumeMounts: [{name: policy, mountPath: /etc/usher}]}
      volumes: [{name: policy, configMap: {name: p}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: p, namespace: usher}
data: {policy.yaml: %q}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: usher}
webhooks:
- {name: validate-pod.usher.dev, clientConfig: {service: {namespace: usher, name: usher, path: /validate-pod}}, sideEffects: None,
   admissionReviewVersions: [v1], timeoutSeconds: 3, rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]}
`

// TestPolicyOfReview: with --doctor, a review is by the policy that usher in the cluster has, unless --config names one; which one it
// is, is said.
func TestPolicyOfReview(t *testing.T) {
	const configured = ", --config=/etc/usher/policy.yaml"
	for _, c := range []struct{ name, deployment, args, policy, flags, says, mode string }{
		{"installed", "usher", configured, `modes: {reserve-pod: warn}`, "", "policy: ConfigMap usher/p, policy.yaml, as the Deployment usher/usher has it", "mode warn"},
		{"named on the command line", "usher", configured, `modes: {reserve-pod: warn}`, "--config=EMPTY", "", ""},
		{"none is configured", "usher", "", `modes: {reserve-pod: warn}`, "", "policy: embedded default, as the Deployment usher/usher has it", ""},
		{"another name", "other", configured, `modes: {reserve-pod: warn}`, "", "policy: embedded default: the cluster has no Deployment usher/usher", ""},
		{"another name, which is given", "other", configured, `modes: {reserve-pod: warn}`, "--service=usher/other", "policy: ConfigMap usher/p", "mode warn"},
		{"not valid", "usher", configured, `nonsense: {}`, "", "warning: the policy of usher in the cluster is not known: ConfigMap usher/p, policy.yaml: nonsense", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			object, empty := filepath.Join(t.TempDir(), "object.yaml"), filepath.Join(t.TempDir(), "empty.yaml")
			for file, text := range map[string]string{object: "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: app, image: nginx}]}}", empty: "{}",
				filepath.Join(dir, "all.yaml"): fmt.Sprintf(installedUsher, c.deployment, c.args, c.policy)} {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args := append([]string{"review", object, "--doctor", "--cluster-dir", dir}, strings.Fields(strings.ReplaceAll(c.flags, "EMPTY", empty))...)
			var out, errs bytes.Buffer
			code := command.Run(t.Context(), tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{Out: &out, Err: &errs}}, args)
			if !strings.HasPrefix(errs.String(), c.says) || (c.says == "") != (errs.String() == "") {
				t.Errorf("it says %q, want %q", errs.String(), c.says)
			}
			if text := out.String(); code != 0 || !strings.Contains(text, "/validate-pod") || strings.Contains(text, "mode warn") != (c.mode != "") {
				t.Errorf("exit code %d, want %q: %s", code, c.mode, text)
			}
		})
	}
}
