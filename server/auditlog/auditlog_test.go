package auditlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/internal/lines"
)

// TestTornFile: the last process was killed while it wrote.
func TestTornFile(t *testing.T) {
	for before, want := range map[string]string{"": "new\n", "old\n": "old\nnew\n", "old\n{\"ti": "old\n{\"ti\nnew\n"} {
		file := filepath.Join(t.TempDir(), "audit.log")
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(Options{File: file, MaxSizeMiB: 1}, nil, func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		_, _ = l.Write([]byte("new\n"))
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%v %q, want %q", err, got, want)
		}
	}
}

// written writes a line, after n others, and waits until it is in the file.
func written(t *testing.T, l *lines.Writer, n uint64, line string) {
	t.Helper()
	_, _ = l.Write([]byte(line))
	for end := time.Now().Add(time.Minute); l.Stats().Written <= n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", l.Stats())
		}
	}
}

// TestMoved: when the file was moved, deleted, emptied or replaced, the next line is in the one at its name, alone or after what
// is there; and no line is lost but those of deleted files.
func TestMoved(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(file string) error
		want string // besides what was moved
	}{
		"nothing": {func(string) error { return nil }, "one\ntwo\nthree\n"},
		"moved":   {func(file string) error { return os.Rename(file, file+".1") }, "two\nthree\n"},
		"deleted": {os.Remove, "two\nthree\n"},
		"emptied": {func(file string) error { return os.Truncate(file, 0) }, "two\nthree\n"},
		"replaced": {func(file string) error {
			return errors.Join(os.Remove(file), os.WriteFile(file, []byte("new\n"), 0o600))
		}, "new\ntwo\nthree\n"},
		"with its directory": {func(file string) error { return os.Rename(filepath.Dir(file), filepath.Dir(file)+"-old") }, "two\nthree\n"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "in", "audit.log")
			if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			l, err := Open(Options{File: file, MaxSizeMiB: 1}, nil, func(err error) { t.Error(err) })
			if err != nil {
				t.Fatal(err)
			}
			written(t, l, 0, "one\n")
			if err := test.do(file); err != nil {
				t.Fatal(err)
			}
			written(t, l, 1, "two\n")
			written(t, l, 2, "three\n")
			if got, err := os.ReadFile(file); err != nil || string(got) != test.want {
				t.Errorf("%v %q, want %q", err, got, test.want)
			}
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRotation: the file stays below its size, and only as many older ones are kept as wanted.
func TestRotation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(file, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(Options{File: file, MaxSizeMiB: 1, Keep: 2}, nil, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 64<<10-1) + "\n")
	for i := range uint64(70) { // 4.4 MiB
		written(t, l, i, string(line)) // a rotated file is named by its time
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if files, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(files) == 3 { // older ones are removed in the background
			break
		}
	}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > 1<<20 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info, err)
		}
	}
	if len(files) != 3 {
		t.Errorf("files: %v", files)
	}
}

// TestOpenFails where no line could be written, with the way out.
func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	for file, want := range map[string]string{
		filepath.Join(dir, "none", "audit.log"): "create the directory " + filepath.Join(dir, "none"),
		dir:                                     "is a directory",
		"/dev/null":                             "is no regular file, and cannot be rotated; - is standard output",
		"/proc/self/comm":                       "cannot be rotated: make the directory /proc/self writable", // even root creates no file there
	} {
		if _, err := os.Stat(filepath.Dir(file)); err != nil && strings.HasPrefix(file, "/proc") {
			continue // not Linux
		}
		if _, err := Open(Options{File: file, MaxSizeMiB: 1}, nil, nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--audit-log") {
			t.Errorf("%s: %v", file, err)
		}
	}
}
