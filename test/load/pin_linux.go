package main

import (
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// cpuSet has a bit for each core, up to 1,024 as in the kernel.
type cpuSet [16]uint64

func only(core int) (set cpuSet) {
	set[core/64] = 1 << (core % 64)
	return set
}

// pinning defines the core of the servers and the core of the load, so that they never compete. Without pinning the
// kernel places all of them.
type pinning struct {
	servers, load int
	pinned        bool
}

// pin moves this process to the second core that it may use, if there are two and the kernel permits it.
func pin() pinning {
	var allowed cpuSet
	if affinity(syscall.SYS_SCHED_GETAFFINITY, 0, &allowed) != nil {
		return pinning{}
	}
	cores := allowed.cores()
	if len(cores) < 2 {
		return pinning{}
	}
	p := pinning{servers: cores[0], load: cores[1], pinned: true}
	for range 2 { // a thread may have been created in between
		if pinThreads(p.load) != nil {
			return pinning{}
		}
	}
	runtime.GOMAXPROCS(1)
	return p
}

func (s cpuSet) cores() (list []int) {
	for word, w := range s {
		for ; w != 0; w &= w - 1 {
			list = append(list, word*64+bits.TrailingZeros64(w))
		}
	}
	return list
}

func pinThreads(core int) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	set := only(core)
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		if err := affinity(syscall.SYS_SCHED_SETAFFINITY, id, &set); err != nil && err != syscall.ESRCH {
			return err
		}
	}
	return nil
}

// affinity gets or sets the cores of a thread; 0 is the calling one.
func affinity(call uintptr, thread int, set *cpuSet) error {
	if _, _, errno := syscall.RawSyscall(call, uintptr(thread), unsafe.Sizeof(*set), uintptr(unsafe.Pointer(set))); errno != 0 {
		return errno
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
	servers, load := only(p.servers), only(p.load)
	if err := affinity(syscall.SYS_SCHED_SETAFFINITY, 0, &servers); err != nil {
		return fmt.Errorf("pin to core %d: %w", p.servers, err)
	}
	err := start()
	if back := affinity(syscall.SYS_SCHED_SETAFFINITY, 0, &load); err == nil {
		err = back
	}
	return err
}

// childAttributes returns attributes with which a Ctrl-C in the terminal reaches only the load, which stops its
// servers. The servers also end if the load is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
