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
)

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
	p, err := r.usher.cluster.sandbox.startWith(r.usher.options.Env, r.Name, r.usher.binary, append(flags, r.usher.options.Flags...)...)
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
