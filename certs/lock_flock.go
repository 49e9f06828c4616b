//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package certs

import (
	"os"
	"path/filepath"
	"syscall"
)

// lock waits until no other process holds the lock on dir, and returns a function that releases it. The system releases
// it when the process ends, so it cannot become stale. If the file system does not support locks, lock proceeds
// without: then the last writer wins.
func lock(dir string) (unlock func()) {
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return func() {}
	}
	for syscall.Flock(int(f.Fd()), syscall.LOCK_EX) == syscall.EINTR {
	}
	return func() { _ = f.Close() }
}
