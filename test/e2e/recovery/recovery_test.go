package recovery

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// away is a part of what the API server says of a request that it refuses because usher does not answer.
const away = "failed calling webhook"

// inNamespace are requests in a namespace that usher's webhooks are for.
var inNamespace = []string{
	"run recovered --image=i",
	"create deployment recovered --image=i",
	"create configmap recovered",
	"create role recovered --verb=get --resource=pods",
	"label pod stored a=b --overwrite",
	"annotate elasticquota stored a=b --overwrite",
}

// TestOnlyAdministratorsExempt: who may delete usher's configurations may exempt a namespace while usher is away, and in
// that request nothing else. Nobody else may.
func TestOnlyAdministratorsExempt(t *testing.T) {
	ctx := cluster.Within(t, 3*time.Minute)
	for _, c := range []struct {
		name, line string
		refused    bool
	}{
		{"system:masters", "kubectl label namespace shop usher.dev/exempt=true", false},
		{"who may do everything", "kubectl label namespace shop usher.dev/exempt=true --as root", false},
		{"another value", "kubectl label namespace shop usher.dev/exempt=false", false},
		{"a service account of the control plane", "kubectl label namespace shop usher.dev/exempt=true --as system:serviceaccount:kube-system:x", true},
		{"a tenant", "kubectl label namespace shop usher.dev/exempt=true --as jane", true},
		{"a tenant, by server-side apply", `echo '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"usher.dev/exempt": "true"}}}' | ` +
			"kubectl apply --server-side --as jane -f -", true},
		{"a tenant, by the status", `kubectl patch namespace shop --subresource=status --as jane -p '{"metadata": {"labels": {"usher.dev/exempt": "true"}}}'`, true},
		{"by the status", `kubectl patch namespace shop --subresource=status -p '{"metadata": {"labels": {"usher.dev/exempt": "true"}}}'`, true},
		{"another label", "kubectl label namespace shop usher.dev/exempted=true", true},
		{"another label, too", "kubectl label namespace shop usher.dev/exempt=true seen=yes", true},
		{"another label changed", "kubectl label --overwrite namespace shop usher.dev/exempt=true env=staging", true},
		{"another label removed", "kubectl label namespace shop usher.dev/exempt=true env-", true},
		{"only another label removed", "kubectl label namespace shop admission-webhook-", true},
		{"an annotation, too", `kubectl patch namespace shop -p '{"metadata": {"labels": {"usher.dev/exempt": "true"}, "annotations": {"a": "b"}}}'`, true},
		{"a finalizer, too", `kubectl patch namespace shop -p '{"metadata": {"labels": {"usher.dev/exempt": "true"}, "finalizers": ["a/b"]}}'`, true},
		{"an annotation", "kubectl annotate namespace shop a=b", true},
		{"deleted", "kubectl delete namespace shop", true},
		{"a new namespace", "kubectl create namespace new", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			line := c.line + " --dry-run=server"
			if strings.HasSuffix(line, "-f - --dry-run=server") {
				line = strings.Replace(c.line, "apply ", "apply --dry-run=server ", 1)
			}
			out, err := paste(ctx, line)
			if (err != nil) != c.refused || c.refused && !strings.Contains(out, away) && !strings.Contains(out, "is forbidden") {
				t.Errorf("refused %v, want %v: %s", err, c.refused, out)
			}
		})
	}
}

// TestRecovery pastes the commands by which the pages end a lock-out: first those that exempt a namespace, then the one
// that removes usher's configurations, and with it what no label can free.
func TestRecovery(t *testing.T) {
	ctx := cluster.Within(t, 5*time.Minute)
	exempting, removing := commands(t)
	for _, line := range exempting {
		t.Run(line, func(t *testing.T) {
			namespace := strings.Fields(line)[3]
			expectAll(ctx, t, namespace, away)
			mustPaste(ctx, t, line)
			expectAll(ctx, t, namespace, "")
			mustPaste(ctx, t, strings.TrimSuffix(line, "=true")+"-")
			expectAll(ctx, t, namespace, away)
		})
	}
	const ofTheCluster = "kubectl create clusterrole recovered --verb=get --resource=pods --dry-run=server"
	for _, line := range removing {
		t.Run(line, func(t *testing.T) {
			if out, err := paste(ctx, ofTheCluster); err == nil || !strings.Contains(out, away) {
				t.Errorf("%v: %s", err, out)
			}
			mustPaste(ctx, t, line)
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if _, err := register(ctx, failClosedToo); err != nil {
					t.Error(err)
				}
			})
			if err := kubetest.Eventually(ctx, func(ctx context.Context) error { _, err := paste(ctx, ofTheCluster); return err }); err != nil {
				t.Error(err)
			}
			expectAll(ctx, t, "shop", "")
		})
	}
}

// commands returns the commands of the pages that exempt a namespace, each once, and those that remove usher.
func commands(t *testing.T) (exempting, removing []string) {
	t.Helper()
	root, err := kubetest.Repository()
	if err != nil {
		t.Fatal(err)
	}
	label := regexp.MustCompile(`kubectl label namespace \S+ usher\.dev/exempt=true`)
	remove := regexp.MustCompile(`kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration -l \S*usher\b`)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "deploy/*.md", "deploy/chart/*.md", "deploy/monitoring/*.yaml"} {
		files, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range label.FindAllString(string(text), -1) {
				if !strings.Contains(line, " namespace usher ") { // its own, before usher is installed
					exempting = append(exempting, strings.Replace(line, " NAME ", " shop ", 1))
				}
			}
			removing = append(removing, remove.FindAllString(string(text), -1)...)
		}
	}
	slices.Sort(exempting)
	slices.Sort(removing)
	if exempting, removing = slices.Compact(exempting), slices.Compact(removing); len(exempting) < 3 || len(removing) == 0 {
		t.Fatalf("found only %v, %v", exempting, removing)
	}
	return exempting, removing
}

// expectAll sends the requests for a namespace. Each must pass, or be refused with a text. The API server takes a moment
// to know that the labels of a namespace have changed.
func expectAll(ctx context.Context, t *testing.T, namespace, refusal string) {
	t.Helper()
	for _, request := range inNamespace {
		if namespace != "shop" && strings.Contains(request, " stored ") {
			continue
		}
		line := "kubectl -n " + namespace + " " + request + " --dry-run=server"
		soon, cancel := context.WithTimeout(ctx, 10*time.Second)
		if err := kubetest.Eventually(soon, func(ctx context.Context) error {
			out, err := paste(ctx, line)
			return unlike(out, err, refusal)
		}); err != nil {
			t.Errorf("%s: want %q: %v", line, refusal, err)
		}
		cancel()
	}
}

func mustPaste(ctx context.Context, t *testing.T, line string) {
	t.Helper()
	if out, err := paste(ctx, line); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}
