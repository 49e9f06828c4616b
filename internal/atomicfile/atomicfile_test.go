package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestReplace: a file that may only be read, and a link, make place for a file with the mode, and nothing is left beside it.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	locked, link := filepath.Join(dir, "locked"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(locked, []byte("good"), 0o400), os.Symlink("locked", link)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{link, locked} {
		err := Replace(file, []byte("new of "+file), 0o640)
		text, unread := os.ReadFile(file)
		if info, _ := os.Lstat(file); err != nil || unread != nil || string(text) != "new of "+file || info.Mode() != 0o640 {
			t.Errorf("%s: %v, %v; it has %q, %v", file, err, unread, text, info.Mode())
		}
	}
	wantFiles(t, dir, "link", "locked")
}

// TestReplaceFails: what cannot be replaced stays, and nothing is left beside it.
func TestReplaceFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "good.yaml")
	if err := os.WriteFile(file, []byte("good"), 0o640); err != nil {
		t.Fatal(err)
	}
	err := replace(file, []byte("new"), 0o600, func(from, to string) error {
		wantFiles(t, dir, filepath.Base(from), "good.yaml")
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EIO}
	})
	text, unread := os.ReadFile(file)
	if info, _ := os.Stat(file); !errors.Is(err, syscall.EIO) || unread != nil || string(text) != "good" || info.Mode().Perm() != 0o640 {
		t.Errorf("%v; the file has %q, %v", err, text, unread)
	}
	wantFiles(t, dir, "good.yaml")
}

// wantFiles checks the names in a folder, which are sorted.
func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("the files are %q, %v; want %q", names, err, want)
	}
}
