package kubetest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// networkVariable is set in a process that runs in a network of its own.
const networkVariable = "USHER_E2E_NETWORK"

// ownAddress is the address in a network of its own. It is one of those for documentation.
var ownAddress = [4]byte{192, 0, 2, 1}

// InOwnNetwork runs the whole program again in a network namespace that has loopback, one more address, see OutsideAddress,
// a name server that knows no name, and nothing else; it returns only in there. It must be the first call of main. Where
// namespaces are not allowed, it returns at once, and the address is the machine's.
func InOwnNetwork() error {
	if os.Getenv(networkVariable) != "" {
		return errors.Join(setUpNetwork(), serveNames())
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
	if err := addAddress(socket, "lo:1", ownAddress[:]); err != nil {
		return err
	}
	for i, server := range nameServers() {
		if err := addAddress(socket, fmt.Sprintf("lo:%d", i+2), server); err != nil {
			return err
		}
	}
	return nil
}

// addAddress gives an interface an IPv4 address.
func addAddress(socket int, name string, ip net.IP) error {
	address, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := address.SetInet4Addr(ip); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, address); err != nil {
		return fmt.Errorf("add the address %s in the network namespace: %w", ip, err)
	}
	return nil
}

// nameServers returns the IPv4 addresses, other than loopback, that programs of this machine ask for names.
func nameServers() (all []net.IP) {
	text, _ := os.ReadFile("/etc/resolv.conf") // without, they ask loopback
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if ip := net.ParseIP(words[1]).To4(); ip != nil && !ip.IsLoopback() {
			all = append(all, ip)
		}
	}
	return all
}

// serveNames answers at all addresses that no name exists.
func serveNames() error {
	server, err := net.ListenPacket("udp", ":53")
	if err != nil {
		return err
	}
	go func() {
		message := make([]byte, 4096)
		for {
			n, from, err := server.ReadFrom(message)
			if err != nil {
				return
			}
			if n >= 12 { // the length of a header: RFC 1035, section 4.1.1
				message[2] |= 0x80                  // a response
				message[3] = message[3]&0xf0 | 0x83 // recursion is available, and there is no such name
				_, _ = server.WriteTo(message[:n], from)
			}
		}
	}()
	return nil
}
