package scaffold

import (
	"archive/zip"
	"bytes"
	"flag"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "pack samples/webhook again")

// TestGoldenWebhook: the archive has what samples/webhook has. `make golden` packs it.
func TestGoldenWebhook(t *testing.T) {
	want := webhookFiles(t)
	if *update && !maps.Equal(unpacked(t, webhook), want) {
		webhook = packed(t, want)
		if err := os.WriteFile("webhook.zip", webhook, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !maps.Equal(unpacked(t, webhook), want) {
		t.Error("webhook.zip is not what samples/webhook is: run make golden")
	}
}

// file is a packed file.
type file struct {
	text string
	mode fs.FileMode
}

// webhookFiles returns the files of samples/webhook, without what `make run` and tests leave there, and without the steps to it.
func webhookFiles(t *testing.T) map[string]file {
	t.Helper()
	root, files := os.DirFS(filepath.Join(checkout(t), "samples", "webhook")), map[string]file{}
	if err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || slices.Contains([]string{".certs", "steps", "webhook", "testdata"}, path) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return err
		}
		if d.IsDir() {
			return nil
		}
		text, err := fs.ReadFile(root, path)
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(path, ".sh") {
			mode = 0o755
		}
		files[path] = file{string(text), mode}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

func packed(t *testing.T, files map[string]file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate}
		header.SetMode(files[name].mode)
		f, err := w.CreateHeader(header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(files[name].text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpacked(t *testing.T, archive []byte) map[string]file {
	t.Helper()
	files := map[string]file{}
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return files // to be packed
	}
	for _, f := range r.File {
		text, err := fs.ReadFile(r, f.Name)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = file{string(text), f.Mode()}
	}
	return files
}

// TestWriteWebhook: what is written has the name that was asked for, is vetted, and passes its tests.
func TestWriteWebhook(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	if err := WriteWebhook(dir, "example.org/my/own-webhook"); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"! grep -rn example.com/webhook --include=*.go --include=go.mod .",
		"gofmt -l . | (! grep .)", "go vet ./...", "go test ./...", "go mod tidy -diff", "test -x try.sh", "make -n run try test image deploy undeploy",
	} {
		run := exec.CommandContext(t.Context(), "sh", "-c", line)
		run.Dir = dir
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	if err := WriteWebhook(dir, "example.org/my/own-webhook"); err == nil || !strings.Contains(err.Error(), "not an empty folder") {
		t.Errorf("written over: %v", err)
	}
}

func TestWriteWebhookRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, module := range []string{"", "with space", "/rooted", "a//b", "../up", "a\nb", `a"b`} {
		if err := WriteWebhook(filepath.Join(dir, "x"), module); err == nil {
			t.Errorf("module %q is accepted", module)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteWebhook(filepath.Join(dir, "file"), "example.com/a"); err == nil {
		t.Error("a file is taken for a folder")
	}
}
