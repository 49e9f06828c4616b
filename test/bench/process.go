package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"usher.dev/usher/test/reviews"
)

// usherBinary is the output of `make build`.
const usherBinary = "bin/usher"

// constantBinary is built with load.
const constantBinary = "bin/constant"

// manifests is the directory, under the one of a run, of what stands for the cluster.
const manifests = "cluster"

// process is a server under measurement.
type process struct {
	name string
	serving
	cmd  *exec.Cmd
	log  string        // its log file
	done chan struct{} // closed when it has ended
	err  error         // the cause, once done is closed
}

// serving is the log line with a server's addresses.
type serving struct {
	Message    string `json:"msg"`
	Reviews    string `json:"reviews"`    // host:port, TLS
	Operations string `json:"operations"` // host:port, HTTP
}

const servingMessage = "serving"

// start starts a server and waits until it serves. Every server has one core and one P, so that ratios are per core.
func (b *bench) start(ctx context.Context, name string, flags ...string) (*process, error) {
	cmd, err := b.serverCommand(name, flags)
	if err != nil {
		return nil, err
	}
	return b.launch(ctx, name, "204MiB", cmd) // as in the Deployment
}

// launch is start with a command and the memory limit of its Go runtime.
func (b *bench) launch(ctx context.Context, name, memory string, cmd *exec.Cmd) (*process, error) {
	s := &process{name: name, cmd: cmd, log: filepath.Join(b.dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOMEMLIMIT="+memory)
	cmd.SysProcAttr = childAttributes()
	if err := b.onServerCore(cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		s.err = cmd.Wait()
		close(s.done)
	}()
	if err := s.waitServing(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (b *bench) serverCommand(name string, flags []string) (*exec.Cmd, error) {
	binary := usherBinary
	switch name {
	case before:
		binary = b.before
	case constant:
		if _, err := os.Stat(constantBinary); err != nil {
			return nil, fmt.Errorf("%w: `make load` builds it; load runs from the root of the source", err)
		}
		return exec.Command(constantBinary, b.dir), nil
	case plain:
		self, err := os.Executable()
		return exec.Command(self, name, b.dir), err
	}
	return exec.Command(binary, append([]string{"serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--state-dir", b.dir,
		"--cluster-dir", filepath.Join(b.dir, manifests), "--log-format", "json", "--shutdown-delay", "0s"}, flags...)...), nil
}

// waitServing reads the log for up to 30 s until it contains the server's addresses.
func (s *process) waitServing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		text, err := os.ReadFile(s.log)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			if json.Unmarshal(line, &s.serving) == nil && s.Message == servingMessage {
				return nil
			}
		}
		select {
		case <-s.done:
			text, _ = os.ReadFile(s.log) // with its last words
			return fmt.Errorf("%s ended: %w\n%s", s.name, s.err, text)
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve: %w\n%s", s.name, ctx.Err(), text)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop kills the server, waits for it, and removes its log, which may be large.
func (s *process) stop() {
	_ = s.cmd.Process.Kill()
	<-s.done
	_ = os.Remove(s.log)
}

// startAll starts the servers of a review anew, so that the memory used for one does not count for the next.
func (b *bench) startAll(ctx context.Context, r reviews.Review) (list []*process, err error) {
	if err := b.writeCluster(r); err != nil {
		return nil, err
	}
	for _, name := range b.serversFor(r) {
		s, err := b.start(ctx, name)
		if err != nil {
			stopAll(list)
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// writeCluster writes the cluster of a review, which usher reads.
func (b *bench) writeCluster(r reviews.Review) error {
	return os.WriteFile(filepath.Join(b.dir, manifests, "cluster.yaml"), []byte(r.Cluster), 0o600)
}

// serversFor returns the names of the servers for a review, in the order of a round. The plain pipeline knows no cluster.
func (b *bench) serversFor(r reviews.Review) []string {
	names := []string{constant, usher}
	if r.Cluster == "" {
		names = append(names, plain)
	}
	if b.before != "" {
		names = append(names, before)
	}
	return names
}

func stopAll(list []*process) {
	for _, s := range list {
		s.stop()
	}
}

// usherVersion returns the version that the binary prints.
func usherVersion(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, usherBinary, "version").Output()
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%w: `make build` makes it; load runs from the root of the source", err)
	}
	return string(bytes.TrimSpace(out)), err
}
