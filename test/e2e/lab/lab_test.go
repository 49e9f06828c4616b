// Package lab runs usherctl lab, and the commands that it prints.
package lab

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"usher.dev/usher/e2e/binaries"
)

// TestPrintedCommands: each command that usherctl lab prints works, with kubectl, and usherctl probe, as docs/install.md has it, finds no fault of usher.
func TestPrintedCommands(t *testing.T) {
	kubectl, err := binaries.Find(binaries.Kubectl)
	if err != nil {
		t.Fatal(err)
	}
	script := start(t, filepath.Dir(kubectl))
	script.Env = append(script.Env, "HOME="+t.TempDir())
	out, err := script.CombinedOutput()
	if err != nil || strings.Contains(string(out), "FAIL") {
		t.Errorf("%v: %s", err, out)
	}
	for _, want := range []string{"name: KUBE", "validatingwebhookconfiguration.admissionregistration.k8s.io/usher", "\nno\n", "\ndev", "\n2 objects: ", "half requests are ended"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in what they print: %s", want, out)
		}
	}
}

// start starts a lab that ends with the test, and returns a shell that runs the commands which it prints, with kubectl of a folder.
func start(t *testing.T, kubectl string) *exec.Cmd {
	t.Helper()
	program := filepath.Join(t.TempDir(), "usherctl")
	build := exec.Command("go", "build", "-C", "../../../usherctl", "-trimpath", "-ldflags=-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := exec.Command(program, "lab", "--config=samples/policy.yaml")
	c.Dir, c.Stderr = "../../..", os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGINT)
		_, _ = io.Copy(io.Discard, out)
		if err := c.Wait(); err != nil {
			t.Errorf("usherctl lab ends with %v", err)
		}
	})
	var commands []string
	for lines := bufio.NewScanner(out); lines.Scan() && !strings.HasPrefix(lines.Text(), "Ctrl-C"); {
		if command, is := strings.CutPrefix(lines.Text(), "  "); is {
			commands = append(commands, command)
		}
	}
	if len(commands) != 5 {
		t.Fatalf("it prints %d commands, want 5: %q", len(commands), commands)
	}
	if err := os.Symlink(program, filepath.Join(filepath.Dir(program), "kubectl-usher")); err != nil {
		t.Fatal(err)
	}
	commands[4] = "kubectl usher version\nusherctl probe usher --yes\n" + commands[4]
	script := exec.Command("sh", "-c", strings.Join(commands, "\n")+" || test $? = 1") // kubectl auth can-i says no
	script.Dir, script.Env = c.Dir, append(os.Environ(), "PATH="+filepath.Dir(program)+":"+kubectl+":"+os.Getenv("PATH"))
	return script
}
