package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a program that the harness started. Its output goes to a file.
type Process struct {
	Name string

	cmd     *exec.Cmd
	logFile string
	ended   chan struct{}
}

// start runs a program in its own process group, so that a Ctrl-C in the terminal reaches only the test, which then
// decides in which order the processes end.
func (s *sandbox) start(name, program string, args ...string) (*Process, error) {
	return s.startWith(nil, name, program, args...)
}

// startWith is like start, with environment variables.
func (s *sandbox) startWith(env []string, name, program string, args ...string) (*Process, error) {
	logFile := filepath.Join(s.dir, name+".log")
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &Process{Name: name, logFile: logFile, ended: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = s.dir, out, out
	p.cmd.Env = append(append(os.Environ(), "TMPDIR="+s.dir), env...) // temporary files are removed with the directory
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.adopt(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	s.remember(p)
	go func() {
		_ = p.cmd.Wait()
		s.reaper.forget(p.cmd.Process.Pid)
		close(p.ended)
	}()
	return p, nil
}

// StartProgram starts a program of the caller, which ends with the cluster.
func (c *Cluster) StartProgram(name, program string, args ...string) (*Process, error) {
	return c.sandbox.start(name, program, args...)
}

// RunProgram runs a program to its end, in the root of the repository, and returns its standard output. The error contains
// its standard error.
func (c *Cluster) RunProgram(ctx context.Context, program string, args ...string) (string, error) {
	return c.run(ctx, "", program, args...)
}

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// CPUTime returns the CPU time that a process has used, user and system, in µs: the sum over its threads. Threads of a Go
// server hardly ever end.
func CPUTime(pid int) (float64, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("no CPU time of process %d: it has ended, or this is not Linux", pid)
	}
	sum := 0.0
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // it has just ended
		}
		onCPU, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseFloat(onCPU, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", thread, err)
		}
		sum += ns / 1000
	}
	return sum, nil
}

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// ExitCode returns the exit code of a process that has ended; -1 if a signal ended it.
func (p *Process) ExitCode() int {
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}

// Signal sends a signal to the process and its children.
func (p *Process) Signal(s syscall.Signal) error {
	if !p.Running() {
		return os.ErrProcessDone
	}
	return syscall.Kill(-p.Pid(), s)
}

// Kill kills the process and waits until it has ended.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL)
	<-p.ended
}

// Terminate sends SIGTERM and waits until the process has ended. If ctx ends first, the process is killed.
func (p *Process) Terminate(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("%s did not end after SIGTERM and was killed: %w", p.Name, ctx.Err())
	}
}

// Log returns the whole output of the process and of earlier processes with the same name.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Tail returns the last lines of the log.
func (p *Process) Tail(lines int) string {
	all := strings.Split(strings.TrimRight(p.Log(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Eventually calls try repeatedly until it succeeds, and returns its last error if ctx ends first.
func Eventually(ctx context.Context, try func(context.Context) error) error {
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // the error of a canceled call is less useful than the one before
			last = err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", ctx.Err(), last)
		}
	}
}

// Pause waits, or until ctx ends.
func Pause(ctx context.Context, long time.Duration) {
	select {
	case <-time.After(long):
	case <-ctx.Done():
	}
}

// eventually is like Eventually, but also returns when one of the processes has ended, because it cannot succeed then.
func eventually(ctx context.Context, try func(context.Context) error, need ...*Process) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := Eventually(ctx, func(ctx context.Context) error {
		for _, p := range need {
			if !p.Running() {
				cancel(fmt.Errorf("%s has ended, exit code %d", p.Name, p.ExitCode()))
			}
		}
		return try(ctx)
	})
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ctx.Err()) {
		err = cause
	}
	for _, p := range need {
		err = fmt.Errorf("%w\n--- %s, last lines of its log:\n%s", err, p.Name, p.Tail(15))
	}
	return err
}
