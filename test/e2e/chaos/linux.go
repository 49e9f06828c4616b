//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"usher.dev/usher/e2e/kubetest"
)

// exhaustDescriptors leaves a replica no file descriptor for 5 s.
func exhaustDescriptors(ctx context.Context, w *world) error {
	pid := w.usher.Replicas[1].Process().Pid()
	open, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		return err
	}
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		return err
	}
	now := unix.Rlimit{Cur: uint64(len(open)), Max: before.Max}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &now, nil); err != nil {
		return err
	}
	kubetest.Pause(ctx, 5*time.Second)
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil)
}

// fillDisk lets the audit log of each replica fill its disk, for some seconds.
func fillDisk(ctx context.Context, w *world) error {
	dir := filepath.Join(w.cluster.Dir(), "full")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		return fmt.Errorf("only root can make a small disk, leave this fault out with -only: %w", err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	if err := w.restartWith(ctx, append(w.flags, "--audit-log="+filepath.Join(dir, "audit.log"))...); err != nil {
		return err
	}
	kubetest.Pause(ctx, 5*time.Second)
	return w.restartWith(ctx, w.flags...)
}
