package policytest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestWriteFile: a file is replaced as a whole and keeps its mode, and nothing is left beside it.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "link.yaml")
	if err := os.WriteFile(file, []byte("good"), 0o640); err != nil {
		t.Fatal(err)
	}
	before, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = before.Close() }()
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := make([]byte, 10)
	n, _ := before.Read(old)
	text, err := os.ReadFile(file)
	info, _ := os.Stat(file)
	if string(old[:n]) != "good" || err != nil || string(text) != "new" || info.Mode().Perm() != 0o640 {
		t.Errorf("who reads the old file gets %q; the new one has %q, %v, %v", old[:n], text, err, info.Mode())
	}
	if err := writeFile("/dev/null", []byte("new"), 0o600); err != nil {
		t.Error(err)
	}
	if err := writeFile(dir, []byte("new"), 0o600); err == nil {
		t.Error("a folder is written")
	}
	wantFiles(t, dir, "good.yaml", "link.yaml")
}

// TestWriteFileWhenReplacingFails: what cannot be written leaves the file, and nothing beside it; what cannot be replaced is written in place.
func TestWriteFileWhenReplacingFails(t *testing.T) {
	for reason, want := range map[syscall.Errno]string{syscall.EIO: "good", syscall.EBUSY: "new", syscall.EXDEV: "new", syscall.EPERM: "new"} {
		dir := t.TempDir()
		file := filepath.Join(dir, "good.yaml")
		if err := os.WriteFile(file, []byte("good"), 0o640); err != nil {
			t.Fatal(err)
		}
		err := writeBy(func(name string, _ []byte, _ os.FileMode) error {
			return &os.LinkError{Op: "rename", Old: ".usher-1", New: name, Err: reason}
		}, file, []byte("new"), 0o600)
		text, unread := os.ReadFile(file)
		if info, _ := os.Stat(file); (err != nil) != (want == "good") || unread != nil || string(text) != want || info.Mode().Perm() != 0o640 {
			t.Errorf("%v: %v; the file has %q, %v", reason, err, text, unread)
		}
		wantFiles(t, dir, "good.yaml")
	}
}

// TestWriteFileNew: a file is made where a link leads, only for its owner, and its name may be as long as names can be.
func TestWriteFileNew(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	long := strings.Repeat("n", 255)
	if err := errors.Join(os.Mkdir("there", 0o700), os.Symlink("there/second", "first"), os.Symlink("../"+long, "there/second")); err != nil {
		t.Fatal(err)
	}
	if err := writeFile("first", []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(long)
	if info, _ := os.Stat(long); err != nil || string(text) != "new" || info.Mode().Perm() != 0o600 {
		t.Errorf("%q, %v, %v", text, err, info)
	}
	wantFiles(t, dir, "first", long, "there")
	if err := os.Symlink("loop", "loop"); err != nil {
		t.Fatal(err)
	}
	if err := writeFile("loop", []byte("new"), 0o600); err == nil {
		t.Error("a link to itself is written")
	}
}

// TestWriteFileWithFewRights: a writable file in a folder that is not is written, and a file that may only be read is not.
func TestWriteFileWithFewRights(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	closed, locked, open := filepath.Join(dir, "closed"), filepath.Join(dir, "locked.yaml"), filepath.Join(dir, "closed", "open.yaml")
	if err := errors.Join(os.WriteFile(locked, []byte("good"), 0o400), os.Mkdir(closed, 0o700), os.WriteFile(open, []byte("good"), 0o600),
		os.Chmod(closed, 0o500)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(closed, 0o700) }() //nolint:gosec // a folder
	if err := writeFile(open, []byte("new"), 0o600); err != nil {
		t.Error(err)
	}
	if err := writeFile(locked, []byte("new"), 0o600); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a file that may only be read: %v", err)
	}
	if err := writeFile(filepath.Join(closed, "other.yaml"), []byte("new"), 0o600); !errors.Is(err, os.ErrPermission) || strings.Contains(err.Error(), ".usher-") {
		t.Errorf("no file can be made: %v", err)
	}
	for file, want := range map[string]string{open: "new", locked: "good"} {
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
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
