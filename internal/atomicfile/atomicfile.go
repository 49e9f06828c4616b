// Package atomicfile writes files as a whole: who reads one meanwhile finds what was there before, or all that is new.
package atomicfile

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Write writes a file. One that exists must be writable and keeps its mode; it is replaced as by Replace. Where no file can be created beside it
// or take its place, as in a folder that is not writable or where the file is a mount, it is written in place, so a failure may cut it off.
// Devices and pipes are written to. Symbolic links are followed, also to a file that does not exist.
func Write(name string, text []byte, mode os.FileMode) error {
	return write(name, text, mode, os.Rename)
}

func write(name string, text []byte, mode os.FileMode, rename func(from, to string) error) error {
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
	if err := replace(name, text, mode, rename); !inPlaceOnly(err) {
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

// Replace writes a file with a mode, which does not depend on the umask, at once and as a whole in the place of one with that name, even of a link
// or one that may only be read. If that fails, the old one stays as it is.
func Replace(name string, text []byte, mode os.FileMode) error {
	return replace(name, text, mode, os.Rename)
}

// replace writes a file beside another and renames it to that.
func replace(name string, text []byte, mode os.FileMode, rename func(from, to string) error) error {
	dir, _ := filepath.Split(name)
	temporary, err := os.CreateTemp(cmp.Or(dir, "."), ".usher-*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Chmod(mode), temporary.Sync(), temporary.Close()); err == nil {
		err = rename(temporary.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// inPlaceOnly reports whether an error means that a file can at most be written in place.
func inPlaceOnly(err error) bool {
	return slices.ContainsFunc([]error{syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.EBUSY, syscall.EXDEV},
		func(reason error) bool { return errors.Is(err, reason) })
}
