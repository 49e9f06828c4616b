// Package callers tests how the API server identifies itself to usher, with the files that docs/who-calls.md prints, and
// who may read the pages under /debug.
package callers

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster *kubetest.Cluster
	plane   string // what is /etc/kubernetes/usher on a node of the control plane
)

func TestMain(m *testing.M) {
	options := kubetest.Options{Services: true, Prepare: controlPlane, APIServerFlags: []string{"--admission-control-config-file=callers/admission.yaml"}}
	kubetest.Main(m, options, func(ctx context.Context, c *kubetest.Cluster) error {
		cluster = c
		return c.Apply(ctx, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "calls", "labels": {"admission-webhook": "enabled"}}}`)
	})
}

// controlPlane writes what the page says: the two files as printed, but for the directory, a client certificate made by
// its commands, and a token.
func controlPlane(dir string) error {
	plane = filepath.Join(dir, "callers")
	dir = plane
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	page, err := kubetest.ReadFile("docs/who-calls.md")
	if err != nil {
		return err
	}
	blocks := regexp.MustCompile("(?s)   ```yaml\n(   apiVersion:.*?)   ```").FindAllStringSubmatch(page, -1)
	if len(blocks) != 2 {
		return fmt.Errorf("docs/who-calls.md has %d files, want admission.yaml and kubeconfig.yaml", len(blocks))
	}
	for i, name := range []string{"admission.yaml", "kubeconfig.yaml"} {
		text := regexp.MustCompile("(?m)^   ").ReplaceAllString(blocks[i][1], "")
		if err := write(filepath.Join(dir, name), strings.ReplaceAll(text, "/etc/kubernetes/usher", dir)); err != nil {
			return err
		}
	}
	if err := makeClient(dir); err != nil {
		return err
	}
	return write(filepath.Join(dir, "token"), firstToken)
}

const firstToken, secondToken = "first-0123456789abcdef0123456789abcdef", "second-0123456789abcdef0123456789abcdef"

// makeClient makes callers-ca.crt, client.crt and client.key in a directory with the commands of the page.
func makeClient(dir string) error {
	page, err := kubetest.ReadFile("docs/who-calls.md")
	if err != nil {
		return err
	}
	script := "set -e\n" + strings.Join(regexp.MustCompile(`(?m)^       ((?:openssl|echo) .*)$`).FindAllString(page, -1), "\n")
	command := exec.Command("sh", "-c", script)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil || strings.Count(script, "openssl") != 3 {
		return fmt.Errorf("%w: %s\n%s", err, script, out)
	}
	return nil
}

// write replaces a file at once.
func write(file, text string) error {
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}

// create creates a pod as a dry run, which both webhooks for pods review.
func create(ctx context.Context) error {
	_, err := cluster.Admin().Create(ctx, "/api/v1/namespaces/calls/pods?dryRun=All", kubetest.Object{
		"apiVersion": "v1", "kind": "Pod", "metadata": kubetest.Object{"generateName": "a-"},
		"spec": kubetest.Object{"containers": []any{kubetest.Object{"name": "a", "image": "a"}}},
	})
	return err
}

// counted returns the sum of usher_callers_total of all replicas by result.
func counted(ctx context.Context, t *testing.T, u *kubetest.Usher) map[string]int {
	t.Helper()
	sums := map[string]int{}
	for _, r := range u.Replicas {
		_, text, err := r.Get(ctx, "/metrics")
		must(t, err)
		for _, m := range regexp.MustCompile(`(?m)^usher_callers_total\{result="([a-z-]+)"\} (\d+)`).FindAllStringSubmatch(text, -1) {
			n := 0
			_, _ = fmt.Sscan(m[2], &n)
			sums[m[1]] += n
		}
	}
	return sums
}

// post posts an empty review to a replica as a client that is not the API server.
func post(ctx context.Context, t *testing.T, r *kubetest.Replica, token string, certificates ...tls.Certificate) int {
	t.Helper()
	c := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+r.Reviews()+"/mutate-pods", strings.NewReader("{}"))
	must(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", token)
	answer, err := c.Do(request)
	must(t, err)
	defer answer.Body.Close()
	health, err := c.Get("https://" + r.Reviews() + "/healthz")
	must(t, err)
	defer health.Body.Close()
	if health.StatusCode != http.StatusOK {
		t.Errorf("/healthz: %d", health.StatusCode)
	}
	return answer.StatusCode
}

// awaitLog waits until all replicas have logged a text n times.
func awaitLog(ctx context.Context, t *testing.T, u *kubetest.Usher, text string, n int) {
	t.Helper()
	must(t, kubetest.Eventually(ctx, func(context.Context) error {
		for _, r := range u.Replicas {
			if got := strings.Count(r.Process().Log(), text); got < n {
				return fmt.Errorf("%s has logged %q %d times, want %d", r.Name, text, got, n)
			}
		}
		return nil
	}))
}
