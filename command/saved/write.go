package saved

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Write writes a file that only its owner may read. A file that exists must be writable and keeps its mode; it is replaced at once and as
// a whole: if that fails, it stays as it is. Where no file can be created beside it or take its place, as in a folder that is not writable or
// where the file is a mount, it is written in place, so a failure may cut it off. Devices and pipes are written to. Symbolic links are
// followed, also to a file that does not exist.
func Write(name string, text []byte) error { return write(name, text, os.Rename) }

func write(name string, text []byte, rename func(from, to string) error) error {
	mode := os.FileMode(0o600)
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
