package explain

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/binaries"
	"usher.dev/usher/e2e/kubetest"
)

// lost registers a webhook for the creation of a resource in a namespace. Its server answers everything with 404.
func lost(ctx context.Context, t *testing.T, namespace, group, resource string) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	const path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	cluster.DeleteAfter(t, path+"/"+namespace)
	_, err := cluster.Admin().Create(ctx, path, fmt.Sprintf(`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
		"metadata": {"name": %q}, "webhooks": [{"name": "%[1]s.example.com", "clientConfig": {"url": "%[2]s/404", "caBundle": %[3]q}, "failurePolicy": "Fail",
		"rules": [{"apiGroups": [%[4]q], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [%[5]q]}], "sideEffects": "None",
		"matchConditions": [{"name": "always", "expression": "'always' != 'never'"}],
		"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": %[1]q}}, "admissionReviewVersions": ["v1"]}]}`, namespace, server.URL, ca, group, resource))
	must(t, err)
	time.Sleep(2 * time.Second) // until the API server has the configuration: nothing shows it before the request that it is for
}

// TestRefusedLater: what is refused is not the creation of the pod, but of its ReplicaSet or its binding, or the Deployment is paused.
func TestRefusedLater(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	const node = "/api/v1/nodes/roomy"
	cluster.DeleteAfter(t, node)
	_, err := cluster.Admin().Create(ctx, "/api/v1/nodes", `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "roomy"},
		"status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "50"}, "capacity": {"cpu": "8", "memory": "8Gi", "pods": "50"}}}`)
	must(t, err)
	kubeconfig := reader(ctx, t)
	for _, c := range []struct {
		namespace, group, resource, change string
		code                               int
		want                               []string // in this order
		never                              []string
	}{
		{"unbound", "", "pods/binding", "", 1, []string{"failed  Deployment unbound/web, its pods", "of Pod web-", "webhook-not-called: unbound.example.com", "/404) was reached"}, []string{"passed"}},
		{"unmade", "apps", "replicasets", "", 1, []string{"failed  Deployment unmade/web, its pods", "of Deployment web", "webhook-not-called: unmade.example.com", "/404) was reached"}, []string{"as of now", "no-failure-found"}},
		{"paused", "", "", `"paused": true, `, 1, []string{"workload-paused: Deployment paused/web", "kubectl rollout resume deployment/web -n paused", "as of now the pod is allowed"}, []string{"tries again", "no-failure-found"}},
	} {
		t.Run(c.namespace, func(t *testing.T) {
			cluster.MustApply(ctx, t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q}}`, c.namespace))
			awaitAccount(ctx, t, c.namespace)
			if c.resource != "" {
				lost(ctx, t, c.namespace, c.group, c.resource)
			}
			web := strings.NewReplacer(`"selector"`, c.change+`"selector"`, `"containers"`, `"tolerations": [{"operator": "Exists"}], "containers"`).Replace(deployment("web", "", "1"))
			_, err := cluster.Admin().Create(ctx, "/apis/apps/v1/namespaces/"+c.namespace+"/deployments", web)
			must(t, err)
			var out string
			must(t, kubetest.Eventually(ctx, func(ctx context.Context) error {
				code := 0
				if out, code = explain(ctx, t, "--cluster=api", "--kubeconfig="+kubeconfig, "-n", c.namespace, "deployment/web"); code != c.code {
					return fmt.Errorf("exit code %d\n%s", code, out)
				}
				return nil
			}))
			follows(t, out, c.want)
			for _, part := range c.never {
				if strings.Contains(out, part) {
					t.Errorf("has %s\n%s", part, out)
				}
			}
			pasted(ctx, t, out)
			if c.resource != "" {
				condition := `pods "p1" is forbidden: expression ''always' != 'never'' resulted in error: no such key: always`
				out, _ = explain(ctx, t, condition) // without a cluster: the command finds the webhook
				pasted(ctx, t, out)
				out, _ = explain(ctx, t, "--cluster=api", "--kubeconfig="+kubeconfig, condition)
				follows(t, out, []string{"match-condition-failed: ValidatingWebhookConfiguration " + c.namespace + ", webhook " + c.namespace + ".example.com"})
				pasted(ctx, t, out)
			}
		})
	}
}

// pasted checks that a command of kubectl that is printed can be pasted into a shell, and prints something.
func pasted(ctx context.Context, t *testing.T, out string) {
	t.Helper()
	kubectl, err := binaries.Find(binaries.Kubectl)
	must(t, err)
	if !strings.Contains(out, "look: kubectl ") && !strings.Contains(out, "fix:  kubectl ") {
		t.Errorf("no command of kubectl\n%s", out)
	}
	for line := range strings.Lines(out) {
		_, command, found := strings.Cut(line, "look: kubectl ")
		if !found {
			continue
		}
		shell := exec.CommandContext(ctx, "sh", "-c", strings.TrimSpace(kubectl+" --kubeconfig="+cluster.AdminKubeconfig()+" "+command))
		if raw, err := shell.CombinedOutput(); err != nil || len(raw) == 0 || strings.Contains(string(raw), "no value") {
			t.Errorf("%v: %s\n%s", err, line, raw)
		}
	}
}
