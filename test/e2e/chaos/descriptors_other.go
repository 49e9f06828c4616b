//go:build !linux

package main

import (
	"context"
	"errors"
)

// exhaustDescriptors needs Linux.
func exhaustDescriptors(context.Context, *world) error {
	return errors.New("only Linux can limit a running process: leave this fault out with -only")
}
