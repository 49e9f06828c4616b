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

// UsherVariable is the environment variable with the path of an usher binary; without it the harness builds usher from
// the tree.
const UsherVariable = "USHER_E2E_USHER"

// UsherOptions configure usher. The zero value is one replica with the policy of deploy/base.
type UsherOptions struct {
	Name     string // default "usher"; a second usher in the same cluster needs its own
	Replicas int
	Policy   string   // the policy file's text
	Flags    []string // after the default flags, so that they override them

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
	return u, u.Balancer.wait(ctx, len(u.Replicas))
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

// usherBinary builds usher as `make build` does. It always runs go, which knows whether anything has changed.
func (c *Cluster) usherBinary(ctx context.Context) (string, error) {
	if file := os.Getenv(UsherVariable); file != "" {
		return filepath.Abs(file)
	}
	file := c.file("bin-usher")
	_, err := c.run(ctx, "", "env", "HOME="+os.Getenv("HOME"), "CGO_ENABLED=0",
		"go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=e2e", "-o", file, ".")
	return file, err
}

// Run runs one of usher's commands and returns its output.
func (u *Usher) Run(ctx context.Context, args ...string) (string, error) {
	return u.cluster.run(ctx, "", u.binary, args...)
}

// Binary returns the path of the running usher, PolicyFile the path of the policy that it reloads.
func (u *Usher) Binary() string     { return u.binary }
func (u *Usher) PolicyFile() string { return u.policyFile }

// SetPolicy replaces the policy file. The replicas reload it within two seconds.
func (u *Usher) SetPolicy(text string) error {
	unfinished := u.policyFile + ".new"
	if err := os.WriteFile(unfinished, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(unfinished, u.policyFile)
}

// Stop kills all replicas and stops the balancer. The webhook configurations remain, so that the API server has no
// webhook to call.
func (u *Usher) Stop() {
	for _, r := range u.Replicas {
		r.Kill()
	}
	u.Balancer.close()
}

// Replica is one usher process; after a restart it is the new process.
type Replica struct {
	Name string

	usher *Usher

	mu                  sync.Mutex
	process             *Process
	reviews, operations string
}

// Start starts the process and waits until it serves. It becomes ready a moment later, which the balancer then detects.
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

// Process returns the current or last process.
func (r *Replica) Process() *Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// Reviews returns the address at which this replica serves reviews, without the balancer.
func (r *Replica) Reviews() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reviews
}

// Operations returns the address of /healthz, /readyz and /metrics.
func (r *Replica) Operations() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.operations
}

// Signal sends a signal and does not wait.
func (r *Replica) Signal(s syscall.Signal) error { return r.Process().Signal(s) }

// Kill sends SIGKILL.
func (r *Replica) Kill() { r.Process().Kill() }

// Terminate sends SIGTERM and waits until the replica has drained and ended.
func (r *Replica) Terminate(ctx context.Context) error { return r.Process().Terminate(ctx) }

// Restart calls Terminate and Start. The replica gets other ports, as a new pod gets another address.
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

// Ready reads /readyz.
func (r *Replica) Ready(ctx context.Context) error {
	status, body, err := r.Get(ctx, "/readyz")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s is not ready: %s %s", r.Name, strconv.Itoa(status), body)
	}
	return err
}

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
