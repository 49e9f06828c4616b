package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSoakWalkThrough runs the printed walk-through line by line, as a user would paste it, and compares each output
// with the printed one. At the end, nothing may remain after SIGTERM.
func TestSoakWalkThrough(t *testing.T) {
	if os.Getenv("USHER_SOAK") == "" {
		t.Skip("takes a minute and all programs of the demo; `make soak` runs it")
	}
	cluster := startCommand(t)
	setup, tries := readGuide(t, cluster.out)
	if len(setup) != 3 || len(tries) < 15 {
		t.Fatalf("the guide has %d lines to set up and %d to try", len(setup), len(tries))
	}
	for _, try := range tries {
		if !attempt(t, setup, try) {
			break // later steps depend on it
		}
	}
	dir := filepath.Dir(strings.TrimPrefix(setup[1], "export KUBECONFIG="))
	cluster.terminate(t)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", dir, err)
	}
	if left, _ := exec.Command("pgrep", "-f", dir).Output(); len(left) > 0 {
		t.Errorf("processes are left: %s", left)
	}
}

// running is the command under test.
type running struct {
	cmd *exec.Cmd
	out io.Reader
}

func startCommand(t *testing.T) *running {
	binary := filepath.Join(t.TempDir(), "cluster")
	if text, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	cmd := exec.Command(binary)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &running{cmd, out}
}

func (r *running) terminate(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, r.out) }()
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// readGuide reads the whole printed text, and returns the lines to paste and their expected output.
func readGuide(t *testing.T, out io.Reader) (setup []string, tries []try) {
	t.Helper()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		switch command, answer := strings.TrimPrefix(line, "    "), strings.TrimPrefix(line, "  -> "); {
		case strings.Contains(line, "\x1b"):
			t.Errorf("a terminal's code in a pipe: %q", line)
		case strings.HasPrefix(command, "cd ") || strings.HasPrefix(command, "export "):
			setup = append(setup, command)
		case command != line:
			tries = append(tries, try{command: command})
		case answer != line:
			last := &tries[len(tries)-1]
			last.answers = append(last.answers, answer)
		case strings.HasPrefix(line, "Nothing runs in the pods"):
			return setup, tries
		}
	}
	t.Fatal("the cluster has ended before it was up")
	return nil, nil
}

// attempt pastes a line. A line that only reads is repeated for half a minute, as a user would do.
func attempt(t *testing.T, setup []string, what try) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	until := time.Now().Add(30 * time.Second)
	for {
		text, missing := paste(ctx, setup, what)
		if missing == "" {
			t.Logf("%s\n%s", what.command, text)
			return true
		}
		if !strings.Contains(what.command, " get ") || time.Now().After(until) {
			t.Errorf("%s\nmust answer %q, answered\n%s", what.command, missing, text)
			return false
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// paste runs a line in its own shell. missing is the first expected output that did not appear.
func paste(ctx context.Context, setup []string, what try) (text, missing string) {
	shell := exec.CommandContext(ctx, "sh", "-c", strings.Join(append(setup[:len(setup):len(setup)], what.command), "\n"))
	out, err := shell.CombinedOutput()
	if len(what.answers) == 0 && err != nil {
		return string(out) + err.Error(), "no error"
	}
	for _, answer := range what.answers {
		if !says(string(out), answer) {
			return string(out), answer
		}
	}
	return string(out), ""
}

// says reports whether a text contains the parts of an answer in order. Consecutive white space counts as one space.
func says(text, answer string) bool {
	text = strings.Join(strings.Fields(text), " ")
	for part := range strings.SplitSeq(answer, "…") {
		_, after, ok := strings.Cut(text, strings.Join(strings.Fields(part), " "))
		if !ok {
			return false
		}
		text = after
	}
	return true
}
