package kubetest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"usher.dev/usher/e2e/binaries"
)

// Kubectl runs kubectl as the admin and returns its standard output. The error contains its standard error. Paths in
// args are relative to the root of the repository: Kubectl(ctx, "apply", "-f", "deploy/demo/namespace.yaml").
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlInput(ctx, "", args...)
}

// KubectlInput is like Kubectl with standard input, for `-f -`.
func (c *Cluster) KubectlInput(ctx context.Context, input string, args ...string) (string, error) {
	kubectl, err := binaries.Find(binaries.Kubectl)
	if err != nil {
		return "", err
	}
	own := []string{"--kubeconfig=" + c.adminCfg, "--cache-dir=" + c.file("kubectl-cache")}
	return c.run(ctx, input, kubectl, append(own, args...)...)
}

// run runs a program to its end, in the root of the repository.
func (c *Cluster) run(ctx context.Context, input, program string, args ...string) (string, error) {
	root, err := Repository()
	if err != nil {
		return "", err
	}
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = root, strings.NewReader(input), &out, &complaints
	cmd.Env = append(os.Environ(), "HOME="+c.dir, "KUBECONFIG=/dev/null") // ignore the user's settings and clusters
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return out.String(), nil
}

// Paste runs lines in a shell whose kubectl is the admin's, and returns their output.
func (c *Cluster) Paste(ctx context.Context, lines string) (string, error) {
	kubectl, err := binaries.Find(binaries.Kubectl)
	if err != nil {
		return "", err
	}
	shell := exec.CommandContext(ctx, "sh", "-c", lines)
	shell.Env = append(os.Environ(), "KUBECONFIG="+c.adminCfg, "HOME="+c.dir, "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
	shell.WaitDelay = time.Second
	out, err := shell.CombinedOutput()
	return string(out), err
}

// Apply applies the text of a manifest.
func (c *Cluster) Apply(ctx context.Context, manifest string) error {
	_, err := c.KubectlInput(ctx, manifest, "apply", "-f", "-")
	return err
}
