package doctor_test

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

// brokenInstallation has a Deployment of usher with a policy, a webhook of usher, and one whose Service does not exist.
const brokenInstallation = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: usher, namespace: usher}
spec:
  template:
    spec:
      containers:
      - {name: usher, args: [serve, --config=/etc/usher/policy.yaml], volumeMounts: [{name: policy, mountPath: /etc/usher}]}
      volumes: [{name: policy, %s}]
---
%s
---
apiVersion: v1
kind: Service
metadata: {name: usher, namespace: usher}
spec: {ports: [{port: 443}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: usher}
webhooks:
- {name: validate-quotas.usher.dev, clientConfig: {service: {namespace: usher, name: gone, path: /validate-quotas}}, sideEffects: None,
   admissionReviewVersions: [v1], timeoutSeconds: 3, rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
`

// TestUnusablePolicy: a policy that is missing or not valid is a finding with a way out, and all else is examined.
func TestUnusablePolicy(t *testing.T) {
	const mounted = "configMap: {name: p}"
	policy := func(data string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p, namespace: usher}\ndata: " + data
	}
	for _, c := range []struct{ name, volume, configMap, says, fix string }{
		{"not valid", mounted, policy(`{policy.yaml: "nonsense: {}"}`), "nonsense", "kubectl -n usher edit configmap p"},
		{"no ConfigMap", mounted, "", "ConfigMap usher/p does not exist", "look: kubectl -n usher get configmaps"},
		{"a ConfigMap that is misspelt", "configMap: {name: usher-polcy}", strings.Replace(policy("{}"), "name: p,", "name: usher-policy,", 1), "ConfigMap usher/usher-polcy does not exist; did you mean usher-policy?", "look: kubectl -n usher edit deployment usher"},
		{"another key", mounted, policy(`{policy.yml: ""}`), "ConfigMap usher/p has no key policy.yaml", "kubectl -n usher edit configmap p"},
		{"from a Secret", "secret: {secretName: p}", "", "is from no ConfigMap", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "all.yaml"), fmt.Appendf(nil, brokenInstallation, c.volume, c.configMap), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			code := command.Run(t.Context(), tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{Out: &out, Err: &errs}}, []string{"doctor", "--cluster-dir", dir})
			text := out.String()
			unknown := strings.Contains(text, "not-readable") // else it is said with its cause
			if unknown != (c.fix == "") || code != 2 || !strings.Contains(text, c.says) ||
				!strings.Contains(text, "what usher should be registered for") || !strings.Contains(text, "service-missing") {
				t.Errorf("exit code %d: %s%s", code, text, errs.String())
			}
			if finding := strings.Contains(text, "usher-policy-unusable"); finding != (c.fix != "") || !strings.Contains(text, c.fix) {
				t.Errorf("the way out is not %q: %s", c.fix, text)
			}
		})
	}
}
