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

// cpuSet has a bit for each core, up to 1,024 as the kernel's own.
type cpuSet [16]uint64

func only(core int) (set cpuSet) {
	set[core/64] = 1 << (core % 64)
	return set
}

// pinning says which core the servers run on and which one the load: they never compete. Not pinned: all wherever the
// kernel puts them.
type pinning struct {
	servers, load int
	pinned        bool
}

// pin puts this process on the second core that it may use, if there are two and the kernel allows.
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
	for range 2 { // a thread may be born meanwhile
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

// onServerCore runs start, which starts a process, so that this is born on the servers' core.
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

// childAttributes: a Ctrl-C in the terminal is for the load alone, which ends its servers; they end with it even if it is
// killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
