package main

import (
	"context"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
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
	pause(ctx, 5*time.Second)
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil)
}
