//go:build !linux

package main

import (
	"context"
	"errors"
)

// exhaustDescriptors needs Linux.
func exhaustDescriptors(context.Context, *world) error {
	return errLinux
}

// fillDisk needs Linux.
func fillDisk(context.Context, *world) error { return errLinux }

var errLinux = errors.New("this fault needs Linux: leave it out with -only")
