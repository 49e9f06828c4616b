package kubetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// networkVariable is set in a process that runs in a network of its own.
const networkVariable = "USHER_E2E_NETWORK"

// ownAddress is the address in a network of its own. It is one of those for documentation.
var ownAddress = [4]byte{192, 0, 2, 1}

// InOwnNetwork runs the whole program again in a network namespace that has loopback and one more address, see
// OutsideAddress, and nothing else; it returns only in there. It must be the first call of main. Where namespaces are not
// allowed, it returns at once, and the address is the machine's.
func InOwnNetwork() error {
	if os.Getenv(networkVariable) != "" {
		return setUpNetwork()
	}
	binary, remove, err := builtOutside()
	if err != nil {
		return err
	}
	code, err := runAgain(binary)
	remove()
	if errors.Is(err, os.ErrPermission) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("run in a network namespace: %w", err)
	}
	os.Exit(code)
	return nil
}

// runAgain runs this program in a new namespace, and returns its exit code.
func runAgain(usher string) (code int, err error) {
	runtime.LockOSThread() // Pdeathsig is sent when the thread ends
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), networkVariable+"=1", UsherVariable+"="+usher)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: gid, Size: 1}}
	}
	var ended *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &ended) {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// builtOutside builds usher where modules can be downloaded, unless the caller of the tests has one.
func builtOutside() (file string, remove func(), err error) {
	if file := os.Getenv(UsherVariable); file != "" {
		file, err = filepath.Abs(file)
		return file, func() {}, err
	}
	root, err := Repository()
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "usher-e2e-binary-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	cmd := exec.Command("go", buildUsherArgs(filepath.Join(dir, "usher"))...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build usher: %w: %s", err, out)
	}
	return filepath.Join(dir, "usher"), remove, nil
}

// setUpNetwork switches loopback on, and gives it one more address.
func setUpNetwork() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("switch loopback on in the network namespace: %w", err)
	}
	address, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := address.SetInet4Addr(ownAddress[:]); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, address); err != nil {
		return fmt.Errorf("add an address in the network namespace: %w", err)
	}
	return nil
}
