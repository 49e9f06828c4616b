package kubetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"usher.dev/usher/e2e/binaries"
)

// UsherVariable is the environment variable that names a built usher; else the harness builds it from the tree.
const UsherVariable = "USHER_E2E_USHER"

// UsherOptions say how usher runs. The zero value is one replica with the policy that deploy/base ships.
type UsherOptions struct {
	Name     string // default "usher"; a second usher in the same cluster needs its own
	Replicas int
	Policy   string   // the policy file's text
	Flags    []string // after our own, so that they win

	PolicyFile string // in place of Policy: a file of the caller's, with an absolute path

	// Before is called when usher is built and before it starts: for what the cluster must have by then, such as usher's rights.
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

// StartUsher builds usher, makes its certificate with `usher certs`, starts the replicas and waits until they are ready.
// The API server does not know of them before Register.
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
	return u, u.Balancer.wait(ctx, len(u.Replicas))
}

// prepare makes everything that the replicas share.
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

// usherBinary builds usher as `make build` does. Always: go knows what has changed.
func (c *Cluster) usherBinary(ctx context.Context) (string, error) {
	if file := os.Getenv(UsherVariable); file != "" {
		return filepath.Abs(file)
	}
	file := c.file("bin-usher")
	_, err := c.run(ctx, "", "env", "HOME="+os.Getenv("HOME"), "CGO_ENABLED=0",
		"go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=e2e", "-o", file, ".")
	return file, err
}

// Run runs one of usher's commands and returns what it prints.
func (u *Usher) Run(ctx context.Context, args ...string) (string, error) {
	return u.cluster.run(ctx, "", u.binary, args...)
}

// Binary is the usher that runs, PolicyFile the policy that it reads again when it changes.
func (u *Usher) Binary() string     { return u.binary }
func (u *Usher) PolicyFile() string { return u.policyFile }

// SetPolicy replaces the policy file. The replicas see it within two seconds.
func (u *Usher) SetPolicy(text string) error {
	unfinished := u.policyFile + ".new"
	if err := os.WriteFile(unfinished, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(unfinished, u.policyFile)
}

// Stop ends all replicas at once, and the balancer. The webhook configurations stay: an API server without its webhook.
func (u *Usher) Stop() {
	for _, r := range u.Replicas {
		r.Kill()
	}
	u.Balancer.close()
}

// Replica is one usher process, and after a restart the next one.
type Replica struct {
	Name string

	usher *Usher

	mu                  sync.Mutex
	process             *Process
	reviews, operations string
}

// Start starts the process and waits until it serves. It is ready a moment later, and the balancer sees it then.
func (r *Replica) Start(ctx context.Context) error {
	flags := []string{"serve", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--config=" + r.usher.policyFile,
		"--cert-dir=" + filepath.Dir(r.usher.CAFile), "--log-format=json", "--shutdown-delay=1s"}
	before := logSize(r.usher.cluster.file(r.Name + ".log"))
	p, err := r.usher.cluster.sandbox.start(r.Name, r.usher.binary, append(flags, r.usher.options.Flags...)...)
	if err != nil {
		return err
	}
	return eventually(ctx, func(context.Context) error {
		for line := range strings.Lines(p.Log()[before:]) {
			var serving struct{ Msg, Reviews, Operations string }
			if json.Unmarshal([]byte(line), &serving) == nil && serving.Msg == "serving" {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.process, r.reviews, r.operations = p, serving.Reviews, serving.Operations
				return nil
			}
		}
		return fmt.Errorf("%s does not serve", r.Name)
	}, p)
}

func logSize(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Process is the process that runs now, or ran last.
func (r *Replica) Process() *Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// Reviews is the address where this replica alone answers reviews.
func (r *Replica) Reviews() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reviews
}

// Operations is the address of /healthz, /readyz and /metrics.
func (r *Replica) Operations() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.operations
}

// Signal sends a signal and does not wait.
func (r *Replica) Signal(s syscall.Signal) error { return r.Process().Signal(s) }

// Kill is SIGKILL.
func (r *Replica) Kill() { r.Process().Kill() }

// Terminate is SIGTERM: it waits until the replica has drained and ended.
func (r *Replica) Terminate(ctx context.Context) error { return r.Process().Terminate(ctx) }

// Restart is Terminate and Start. The replica gets other ports, as a new pod has another address.
func (r *Replica) Restart(ctx context.Context) error {
	if err := r.Terminate(ctx); err != nil {
		return err
	}
	return r.Start(ctx)
}

var probe = &http.Client{Timeout: time.Second}

// Get reads from the operations listener, such as /metrics.
func (r *Replica) Get(ctx context.Context, path string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Operations()+path, nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := probe.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// Ready asks /readyz.
func (r *Replica) Ready(ctx context.Context) error {
	status, body, err := r.Get(ctx, "/readyz")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s is not ready: %s %s", r.Name, strconv.Itoa(status), body)
	}
	return err
}

// Repository is the root of usher's tree.
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
