package kubetest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// sandbox is a temporary directory and the processes that run in it. Both are removed when it is closed; if this
// process ends in any other way, a reaper removes them.
type sandbox struct {
	dir    string
	reaper *reaper

	mu        sync.Mutex
	processes []*Process
}

func newSandbox() (*sandbox, error) {
	dir, err := os.MkdirTemp("", "usher-e2e-")
	if err != nil {
		return nil, err
	}
	r, err := startReaper(dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return &sandbox{dir: dir, reaper: r}, nil
}

// adopt starts a command and registers it with the reaper.
func (s *sandbox) adopt(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	return s.reaper.watch(cmd.Process.Pid)
}

func (s *sandbox) remember(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = slices.DeleteFunc(s.processes, func(old *Process) bool { return old.Name == p.Name }) // p appends to its log
	s.processes = append(s.processes, p)
}

func (s *sandbox) all() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.processes)
}

// tails returns the last lines of every log.
func (s *sandbox) tails(lines int) string {
	var text strings.Builder
	for _, p := range s.all() {
		state := "running"
		if !p.Running() {
			state = "ended, exit code " + strconv.Itoa(p.ExitCode())
		}
		fmt.Fprintf(&text, "--- %s (%s), last lines of its log:\n%s\n", p.Name, state, p.Tail(lines))
	}
	return text.String()
}

// close kills the running processes and removes the directory. They need no graceful shutdown because nothing is kept.
func (s *sandbox) close() error {
	for _, p := range s.all() {
		_ = p.Signal(syscall.SIGKILL)
	}
	for _, p := range s.all() {
		<-p.ended
	}
	return s.reaper.close()
}

// reaperVariable is the environment variable that makes a process the reaper of a directory.
const reaperVariable = "USHER_E2E_REAPER"

// reaper is a second process of this program. It reads from a pipe that closes when this process ends for any reason: a
// panic, os.Exit, Ctrl-C, SIGKILL. It then kills the registered process groups and removes the directory. Linux could
// send the children a signal (Pdeathsig), but that would not remove the directory.
type reaper struct {
	mu   sync.Mutex
	pipe io.WriteCloser
	cmd  *exec.Cmd
}

// init runs the reaper in a process that was started as one, before any flag is parsed or test runs.
func init() {
	if dir := os.Getenv(reaperVariable); dir != "" {
		reap(os.Stdin, dir)
		os.Exit(0)
	}
}

func startReaper(dir string) (*reaper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &reaper{cmd: exec.Command(self)}
	// No output, because `go test` waits for all processes that hold the test's output; its own session, so that Ctrl-C
	// does not reach it.
	r.cmd.Env, r.cmd.SysProcAttr = append(os.Environ(), reaperVariable+"="+dir), &syscall.SysProcAttr{Setsid: true}
	if r.pipe, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return r, r.cmd.Start()
}

func (r *reaper) watch(pid int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := fmt.Fprintf(r.pipe, "%d\n", pid)
	return err
}

// forget unregisters a process that has ended, because its ID may be reused.
func (r *reaper) forget(pid int) { _ = r.watch(-pid) }

func (r *reaper) close() error {
	_ = r.pipe.Close()
	return r.cmd.Wait()
}

// reap is the main loop of the reaper: it reads process IDs until the pipe closes, then cleans up.
func reap(from io.Reader, dir string) {
	groups := map[int]bool{}
	for {
		var pid int
		if _, err := fmt.Fscan(from, &pid); err != nil {
			break
		}
		if pid > 0 {
			groups[pid] = true
		} else {
			delete(groups, -pid)
		}
	}
	for pid := range groups {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	// A process that is being killed may still write a file, and a process that does not end must not block the reaper
	// forever.
	for range 100 {
		if err := os.RemoveAll(dir); err == nil && !anyAlive(groups) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	_ = os.RemoveAll(dir)
}

func anyAlive(groups map[int]bool) bool {
	for pid := range groups {
		if syscall.Kill(-pid, 0) == nil {
			return true
		}
	}
	return false
}
