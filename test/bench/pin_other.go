//go:build !linux

package main

import "syscall"

// pinning needs Linux.
type pinning struct {
	servers, load int
	pinned        bool
}

func pin() pinning { return pinning{} }

func (p pinning) onServerCore(start func() error) error { return start() }

func childAttributes() *syscall.SysProcAttr { return nil }
