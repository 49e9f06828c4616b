//go:build unix

package poll

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadFile: regular files are read, also through links; anything else is an immediate error.
func TestReadFile(t *testing.T) {
	const limit = 1 << 20
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("file"), []byte("text"), 0o600), os.WriteFile(at("empty"), nil, 0o600),
		os.WriteFile(at("full"), bytes.Repeat([]byte("x"), limit), 0o600), os.WriteFile(at("large"), bytes.Repeat([]byte("x"), limit+1), 0o600),
		os.Symlink("file", at("link")), os.Mkdir(at("directory"), 0o700), syscall.Mkfifo(at("pipe"), 0o600), os.Symlink("pipe", at("link-to-pipe")),
		os.Symlink("gone", at("dangling")), os.Symlink("loop", at("loop")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	for _, test := range []struct {
		name   string
		length int
		cause  error  // if not nil
		says   string // of an error
	}{
		{"file", 4, nil, ""},
		{"empty", 0, nil, ""},
		{"full", limit, nil, ""},
		{"link", 4, nil, ""},
		{"large", 0, nil, "larger than 1 MiB"},
		{"directory", 0, ErrNotRegular, "is a directory, not a regular file"},
		{"pipe", 0, ErrNotRegular, "is a named pipe, not a regular file"},
		{"link-to-pipe", 0, ErrNotRegular, "is a named pipe, not a regular file"},
		{"socket", 0, syscall.ENXIO, "socket"},
		{"dangling", 0, fs.ErrNotExist, "no such file"},
		{"loop", 0, syscall.ELOOP, "symbolic links"},
		{"../../../../../../../dev/null", 0, ErrNotRegular, "is a device, not a regular file"},
	} {
		t.Run(filepath.Base(test.name), func(t *testing.T) {
			content, err := ReadFile(at(test.name), limit)
			if len(content) != test.length || (err == nil) != (test.says == "") {
				t.Fatalf("%d bytes, %v; want %d", len(content), err, test.length)
			}
			if err != nil && (!strings.Contains(err.Error(), at(test.name)) || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("error %q, want the path and %q", err, test.says)
			}
			if test.cause != nil && !errors.Is(err, test.cause) {
				t.Errorf("error %q, want the cause %q", err, test.cause)
			}
		})
	}
}
