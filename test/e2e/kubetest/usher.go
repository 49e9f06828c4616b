package kubetest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"usher.dev/usher/e2e/binaries"
)

// UsherVariable is the environment variable with the path of an usher binary; without it the harness builds usher from
// the tree.
const UsherVariable = "USHER_E2E_USHER"

// UsherOptions configure usher. The zero value is one replica with the policy of deploy/base.
type UsherOptions struct {
	Name     string // default "usher"; a second usher in the same cluster needs its own
	Replicas int
	Policy   string   // the policy file's text
	Flags    []string // after the default flags, so that they override them
	Env      []string // environment variables of the replicas, such as GOMEMLIMIT=204MiB

	PolicyFile string // instead of Policy: the absolute path of a file of the caller

	// Before is called after usher was built and before it starts, to create what it needs in the cluster, such as its
	// rights.
	Before func(ctx context.Context, u *Usher) error
}

// Usher is the service: replicas that share one certificate and one policy file, behind a balancer.
type Usher struct {
	URL      string // of the balancer, for webhook configurations
	CAFile   string
	Replicas []*Replica
	Balancer *Balancer

	cluster    *Cluster
	options    UsherOptions
	binary     string
	dir        string
	policyFile string
}

// StartUsher builds usher, creates its certificate with `usher certs`, starts the replicas and waits until they are
// ready. The API server does not call them before Register.
func (c *Cluster) StartUsher(ctx context.Context, o UsherOptions) (*Usher, error) {
	if o.Name == "" {
		o.Name = "usher"
	}
	if o.Policy == "" {
		shipped, err := ReadFile("deploy/base/policy.yaml")
		if err != nil {
			return nil, err
		}
		o.Policy = shipped
	}
	u := &Usher{cluster: c, options: o, dir: c.file(o.Name)}
	u.policyFile, u.CAFile = filepath.Join(u.dir, "policy.yaml"), filepath.Join(u.dir, "certs", "ca.crt")
	if o.PolicyFile != "" {
		u.policyFile = o.PolicyFile
	}
	if err := u.prepare(ctx); err != nil {
		return nil, err
	}
	if o.Before != nil {
		if err := o.Before(ctx, u); err != nil {
			return nil, err
		}
	}
	for i := range max(1, o.Replicas) {
		u.Replicas = append(u.Replicas, &Replica{Name: fmt.Sprintf("%s-%d", o.Name, i), usher: u})
	}
	for _, r := range u.Replicas {
		if err := r.Start(ctx); err != nil {
			return nil, err
		}
	}
	var err error
	u.Balancer, err = startBalancer(u.Replicas)
	if err != nil {
		return nil, err
	}
	u.URL = "https://" + u.Balancer.Address
	if err := u.Balancer.wait(ctx, len(u.Replicas)); err != nil || c.services == nil {
		return u, err
	}
	return u, u.Serve(ctx)
}

// Serve connects the Service usher to these replicas.
func (u *Usher) Serve(ctx context.Context) error {
	return u.cluster.ServeService(ctx, "usher", "usher", u.Balancer.next)
}

// prepare creates everything that the replicas share.
func (u *Usher) prepare(ctx context.Context) (err error) {
	if u.binary, err = u.cluster.usherBinary(ctx); err != nil {
		return err
	}
	if err := os.Mkdir(u.dir, 0o700); err != nil {
		return err
	}
	if u.options.PolicyFile == "" {
		if err := u.SetPolicy(u.options.Policy); err != nil {
			return err
		}
	}
	_, err = u.Run(ctx, "certs", "init", "--service", "usher/usher", "--out", filepath.Dir(u.CAFile))
	return err
}

// BuildUsher builds usher and returns the path of the binary, for a test that starts it by itself.
func (c *Cluster) BuildUsher(ctx context.Context) (string, error) { return c.usherBinary(ctx) }

// usherBinary builds usher as `make build` does. It always runs go, which knows whether anything has changed.
func (c *Cluster) usherBinary(ctx context.Context) (string, error) {
	if file := os.Getenv(UsherVariable); file != "" {
		return filepath.Abs(file)
	}
	file := c.file("bin-usher")
	_, err := c.run(ctx, "", "env", append([]string{"HOME=" + os.Getenv("HOME"), "CGO_ENABLED=0", "go"}, buildUsherArgs(file)...)...)
	return file, err
}

// BuildUsherctl builds usherctl as `make build` does, and returns the path of the binary.
func (c *Cluster) BuildUsherctl(ctx context.Context) (string, error) {
	file := c.file("bin-usherctl")
	_, err := c.run(ctx, "", "env", "HOME="+os.Getenv("HOME"), "CGO_ENABLED=0", "go", "build", "-C", "usherctl", "-trimpath", "-ldflags=-s -w", "-o", file, ".")
	return file, err
}

// Usherctl runs a command of usherctl and returns its output.
func (c *Cluster) Usherctl(ctx context.Context, args ...string) (string, error) {
	file, err := c.BuildUsherctl(ctx)
	if err != nil {
		return "", err
	}
	return c.run(ctx, "", file, args...)
}

// buildUsherArgs are the arguments of go that build usher.
func buildUsherArgs(file string) []string {
	return []string{"build", "-trimpath", "-ldflags", "-s -w -X main.version=e2e", "-o", file, "."}
}

// Run runs one of usher's commands and returns its output.
func (u *Usher) Run(ctx context.Context, args ...string) (string, error) {
	return u.cluster.run(ctx, "", u.binary, args...)
}

// Binary returns the path of the running usher.
func (u *Usher) Binary() string { return u.binary }

// PolicyFile returns the path of the policy that it reloads.
func (u *Usher) PolicyFile() string { return u.policyFile }

// SetPolicy replaces the policy file. The replicas reload it within two seconds.
func (u *Usher) SetPolicy(text string) error {
	unfinished := u.policyFile + ".new"
	if err := os.WriteFile(unfinished, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(unfinished, u.policyFile)
}

// Cluster returns the cluster that usher is in.
func (u *Usher) Cluster() *Cluster { return u.cluster }

// SetFlags replaces the flags of UsherOptions, for replicas that are started later.
func (u *Usher) SetFlags(flags ...string) { u.options.Flags = flags }

// SetBinary replaces the program, for replicas that are started later.
func (u *Usher) SetBinary(file string) { u.binary = file }

// Stop kills all replicas and stops the balancer. The webhook configurations remain, so that the API server has no
// webhook to call.
func (u *Usher) Stop() {
	for _, r := range u.Replicas {
		r.Kill()
	}
	u.Balancer.close()
}

var probe = &http.Client{Timeout: time.Second}

// Repository returns the root of usher's tree.
func Repository() (string, error) {
	module, err := binaries.Module()
	return filepath.Dir(filepath.Dir(module)), err
}

// ReadFile reads a file of the repository, such as "deploy/base/policy.yaml".
func ReadFile(name string) (string, error) {
	root, err := Repository()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, name))
	return string(text), err
}

// PolicyOf returns the policy of a sample in samples/policies: the one whose name is the longest beginning of the sample's
// own, up to a hyphen. It returns "" for a sample that the embedded policy is for.
func PolicyOf(sample string) string {
	for sample != "" {
		if _, err := ReadFile("samples/policies/" + sample + ".yaml"); err == nil {
			return sample
		}
		sample = sample[:max(0, strings.LastIndex(sample, "-"))]
	}
	return ""
}
