package saved

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWrite: a file is replaced as a whole and keeps its mode; what cannot be written leaves it, and nothing beside it.
func TestWrite(t *testing.T) {
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
	if err := Write(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	old := make([]byte, 10)
	n, _ := before.Read(old)
	text, err := os.ReadFile(file)
	info, _ := os.Stat(file)
	if string(old[:n]) != "good" || err != nil || string(text) != "new" || info.Mode().Perm() != 0o640 {
		t.Errorf("who reads the old file gets %q; the new one has %q, %v, %v", old[:n], text, err, info.Mode())
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "folder"), []byte("new")); err == nil {
		t.Error("a folder is written")
	}
	if err := Write("/dev/null", []byte("new")); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("beside the file: %v, %v", entries, err)
	}
}
