package registration

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestExamples runs the examples of both programs' help that need a cluster; test/process and usherctl/process run the others. `certs rotate` is left out: it
// needs managed certificates, and ./certificates runs it.
func TestExamples(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	remove(ctx, t)
	const deployments = "/apis/apps/v1/namespaces/default/deployments"
	labels := kubetest.Object{"app": "web"}
	cluster.DeleteAfter(t, deployments+"/web")
	if _, err := cluster.Admin().Create(ctx, deployments, kubetest.Object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": kubetest.Object{"name": "web"},
		"spec": kubetest.Object{"replicas": 0, "selector": kubetest.Object{"matchLabels": labels},
			"template": kubetest.Object{"metadata": kubetest.Object{"labels": labels}, "spec": pod("")["spec"]}}}); err != nil {
		t.Fatal(err)
	}
	status := `{"status": {"observedGeneration": 1}}` // as its controller writes it, without which nothing is known
	if _, err := cluster.Admin().Patch(ctx, deployments+"/web/status", kubetest.MergePatch, status); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/command-line.md")
	if err != nil {
		t.Fatal(err)
	}
	policy := "--config=" + usher.PolicyFile() // no Deployment names it
	more := map[string][]string{"webhooks apply": {"--yes", policy, "--ca-file=" + usher.CAFile}, "explain --cluster=api": {policy}}
	ran := 0
	for _, block := range regexp.MustCompile(`(?s)\nExamples:\n.*?\n\n`).FindAllString(string(page), -1) {
		for _, line := range regexp.MustCompile(`(?m)^  (?:usher|usherctl) (doctor$|webhooks (apply|remove)|.*--cluster=api).*`).FindAllString(block, -1) {
			words, run := strings.Fields(line)[1:], usher.Run
			if strings.HasPrefix(line, "  usherctl ") {
				run = cluster.Usherctl
			}
			out, err := run(ctx, append(append(words, "--kubeconfig="+cluster.AdminKubeconfig()), more[strings.Join(words[:min(2, len(words))], " ")]...)...)
			var ended *exec.ExitError
			if err != nil && (!errors.As(err, &ended) || ended.ExitCode() != 1) || out == "" {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			ran++
		}
	}
	if ran < 5 {
		t.Errorf("%d examples", ran)
	}
}
