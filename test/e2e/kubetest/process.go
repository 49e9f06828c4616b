package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// start runs a program in a process group of its own, so that a Ctrl-C in the terminal reaches the test alone, which then
// decides in which order things end.
func (s *sandbox) start(name, program string, args ...string) (*Process, error) {
	logFile := filepath.Join(s.dir, name+".log")
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &Process{Name: name, logFile: logFile, ended: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = s.dir, out, out
	p.cmd.Env = append(os.Environ(), "TMPDIR="+s.dir) // what a program leaves behind goes with the directory
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

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended.
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

// Signal sends a signal to the process, and to all that it started.
func (p *Process) Signal(s syscall.Signal) error {
	if !p.Running() {
		return os.ErrProcessDone
	}
	return syscall.Kill(-p.Pid(), s)
}

// Kill ends the process at once and waits until it is gone.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL)
	<-p.ended
}

// Terminate sends SIGTERM and waits until the process is gone. When ctx ends first, the process is killed.
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

// Log returns all that the process has written, and those of the same name before it.
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

// Eventually calls try again and again until it succeeds, and returns its last error if ctx ends before.
func Eventually(ctx context.Context, try func(context.Context) error) error {
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // the error of a call that was cut off tells less than the one before
			last = err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", ctx.Err(), last)
		}
	}
}

// eventually is Eventually that gives up when one of the processes has ended: what is waited for cannot come any more.
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
