//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package certs

import (
	"os"
	"path/filepath"
	"syscall"
)

// lock waits until no other process works on dir, and returns how to let go. The system lets go by itself when the
// process ends, so that no stale lock can be left. A file system without locks is no reason to refuse a start: then
// the last writer wins.
func lock(dir string) (unlock func()) {
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return func() {}
	}
	for syscall.Flock(int(f.Fd()), syscall.LOCK_EX) == syscall.EINTR {
	}
	return func() { f.Close() }
}
