package policytest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"usher.dev/usher/internal/atomicfile"
)

// writeFile writes a file. One that exists must be writable and keeps its mode; it is replaced as by atomicfile.Replace. Where no file can
// be created beside it or take its place, as in a folder that is not writable or where the file is a mount, it is written in place, so a
// failure may cut it off.
// Devices and pipes are written to. Symbolic links are followed, also to a file that does not exist.
func writeFile(name string, text []byte, mode os.FileMode) error {
	return writeBy(atomicfile.Replace, name, text, mode)
}

// writeBy is writeFile with a function that replaces a file.
func writeBy(replace func(name string, text []byte, mode os.FileMode) error, name string, text []byte, mode os.FileMode) error {
	if info, err := os.Stat(name); err == nil {
		if !info.Mode().IsRegular() {
			return os.WriteFile(name, text, mode)
		}
		if err := writable(name); err != nil {
			return err
		}
		mode = info.Mode().Perm()
	}
	name, err := target(name)
	if err != nil {
		return err
	}
	if err := replace(name, text, mode); !inPlaceOnly(err) {
		return err
	}
	return os.WriteFile(name, text, mode)
}

// writable returns an error if a file may not be written to.
func writable(name string) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return file.Close()
}

// target returns the name to which symbolic links lead, whether there is a file or not.
func target(name string) (string, error) {
	for range 40 {
		to, err := os.Readlink(name)
		if err != nil {
			return name, nil // no link
		}
		if dir, _ := filepath.Split(name); !filepath.IsAbs(to) {
			to = dir + to
		}
		name = to
	}
	return "", fmt.Errorf("%s: too many symbolic links", name)
}

// inPlaceOnly reports whether an error means that a file can at most be written in place.
func inPlaceOnly(err error) bool {
	return slices.ContainsFunc([]error{syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.EBUSY, syscall.EXDEV},
		func(reason error) bool { return errors.Is(err, reason) })
}
