package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// pinning defines the core of the servers and the core of the load, so that they never compete. Without pinning the
// kernel places all of them.
type pinning struct {
	servers, load int
	pinned        bool
}

// pin moves this process to the second core that it may use, if there are two and the kernel permits it.
func pin() pinning {
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) != nil || allowed.Count() < 2 {
		return pinning{}
	}
	p := pinning{servers: nextCore(allowed, 0), pinned: true}
	p.load = nextCore(allowed, p.servers+1)
	for range 2 { // a thread may have been created in between
		if pinThreads(p.load) != nil {
			return pinning{}
		}
	}
	runtime.GOMAXPROCS(1)
	return p
}

// nextCore returns the first core of the set from a number on.
func nextCore(set unix.CPUSet, from int) int {
	for !set.IsSet(from) {
		from++
	}
	return from
}

func only(core int) *unix.CPUSet {
	var set unix.CPUSet
	set.Set(core)
	return &set
}

func pinThreads(core int) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		if err := unix.SchedSetaffinity(id, only(core)); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// onServerCore calls start on the servers' core, so that the process that it starts runs on this core.
func (p pinning) onServerCore(start func() error) error {
	if !p.pinned {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.SchedSetaffinity(0, only(p.servers)); err != nil {
		return fmt.Errorf("pin to core %d: %w", p.servers, err)
	}
	err := start()
	if back := unix.SchedSetaffinity(0, only(p.load)); err == nil {
		err = back
	}
	return err
}

// childAttributes returns attributes with which a Ctrl-C in the terminal reaches only the load, which stops its
// servers. The servers also end if the load is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
