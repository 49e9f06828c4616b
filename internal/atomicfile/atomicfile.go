// Package atomicfile writes files as a whole: who reads one meanwhile finds what was there before, or all that is new.
package atomicfile

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
)

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
