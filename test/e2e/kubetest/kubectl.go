package kubetest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"usher.dev/usher/e2e/binaries"
)

// Kubectl runs kubectl as the admin and returns what it prints. The error holds what it prints as errors. Paths in args
// count from the root of the repository: Kubectl(ctx, "apply", "-f", "deploy/demo/namespace.yaml").
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlInput(ctx, "", args...)
}

// KubectlInput is Kubectl with an input, for `-f -`.
func (c *Cluster) KubectlInput(ctx context.Context, input string, args ...string) (string, error) {
	kubectl, err := binaries.Find(binaries.Kubectl)
	if err != nil {
		return "", err
	}
	own := []string{"--kubeconfig=" + c.adminCfg, "--cache-dir=" + c.file("kubectl-cache")}
	return c.run(ctx, input, kubectl, append(own, args...)...)
}

// run runs a program that ends by itself, in the root of the repository.
func (c *Cluster) run(ctx context.Context, input, program string, args ...string) (string, error) {
	root, err := Repository()
	if err != nil {
		return "", err
	}
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = root, strings.NewReader(input), &out, &complaints
	cmd.Env = append(os.Environ(), "HOME="+c.dir, "KUBECONFIG=/dev/null") // nobody's settings, nobody's real cluster
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return out.String(), nil
}

// Apply applies a manifest as a text.
func (c *Cluster) Apply(ctx context.Context, manifest string) error {
	_, err := c.KubectlInput(ctx, manifest, "apply", "-f", "-")
	return err
}
