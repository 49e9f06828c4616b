//go:build linux

package process

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// TestProcessTerminalCloses: usher ends, and frees its port, when the terminal that it logs to is closed.
func TestProcessTerminalCloses(t *testing.T) {
	t.Parallel()
	terminal, side := openTerminal(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self, "serve", "--plain", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--shutdown-delay", "0s")
	command.Env = append(os.Environ(), processMode+"="+asItIs)
	command.Stdin, command.Stdout, command.Stderr = side, side, side
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(maxWait, func() { _ = command.Process.Kill() })
	defer kill.Stop()
	_ = side.Close()
	for text, part := "", make([]byte, 1000); len(text) < 1<<16; {
		n, err := terminal.Read(part)
		if err != nil {
			t.Fatalf("%v after %s", err, text)
		}
		if text += string(part[:n]); strings.Contains(text, "serving  ") {
			break
		}
	}
	_ = terminal.Close()
	if err := command.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// openTerminal returns a new terminal and the side of it for the program.
func openTerminal(t *testing.T) (terminal, side *os.File) {
	t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	var number, unlock int32
	for request, argument := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &unlock} {
		if _, _, failed := syscall.Syscall(syscall.SYS_IOCTL, terminal.Fd(), request, uintptr(unsafe.Pointer(argument))); failed != 0 {
			t.Skip(failed)
		}
	}
	side, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	return terminal, side
}
