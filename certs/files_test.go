package certs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var local = []string{"localhost", "127.0.0.1", "::1"}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantModes(t *testing.T, dir string) {
	t.Helper()
	for name, want := range map[string]fs.FileMode{
		"": 0o700 | fs.ModeDir, CACertFile: 0o644, CertFile: 0o644, CAKeyFile: 0o600, KeyFile: 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if info.Mode() != want {
			t.Errorf("%s: mode %v, want %v", info.Name(), info.Mode(), want)
		}
	}
}

func TestWriteFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "certs")
	at := time.Now()
	ca := newAuthority(t, at)
	leaf := issue(t, ca, at, local...)
	if err := WriteFiles(dir, ca, leaf, false); err != nil {
		t.Fatal(err)
	}
	wantModes(t, dir)
	if _, err := Open(dir); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 4 {
		t.Errorf("left something behind: %v", entries)
	}

	other := newAuthority(t, at)
	err := WriteFiles(dir, other, issue(t, other, at, local...), false)
	if !errors.Is(err, fs.ErrExist) || read(t, dir, CAKeyFile) != string(ca.Key) || read(t, dir, CertFile) != string(leaf.Cert) {
		t.Errorf("error %v, want fs.ErrExist and nothing written", err)
	}
	if err := WriteFiles(dir, other, issue(t, other, at, local...), true); err != nil || read(t, dir, CAKeyFile) != string(other.Key) {
		t.Errorf("overwrite: error %v, want the new files", err)
	}
}

// TestEnsureLocal starts from a good set of files each time, and checks which of them are written again after a change.
func TestEnsureLocal(t *testing.T) {
	alter := func(names ...string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			for _, name := range names {
				write(t, dir, name, read(t, dir, name)[:60])
			}
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	nothing := func(*testing.T, string) {}
	day := 24 * time.Hour
	for _, test := range []struct {
		name   string
		change func(*testing.T, string)
		names  []string
		later  time.Duration
		want   string // the files written again
	}{
		{"same again", nothing, local, 0, ""},
		{"other order", nothing, []string{"::1", "127.0.0.1", "localhost"}, 0, ""},
		{"name more", nothing, append([]string{"usher"}, local...), 0, "tls.crt tls.key"},
		{"name less", nothing, local[:2], 0, "tls.crt tls.key"},
		{"later", nothing, local, 300 * day, ""},
		{"CA near its end", nothing, local, 340 * day, "ca.crt"}, // same key, so the leaf stays good
		{"both near their end", nothing, local, 360 * day, "ca.crt tls.crt tls.key"},
		{"all expired", nothing, local, 400 * day, "ca.crt tls.crt tls.key"},
		{"clock set back", nothing, local, -day, "ca.crt tls.crt tls.key"},
		{"ca.crt damaged", alter(CACertFile), local, 0, "ca.crt"},
		{"ca.crt missing", remove(CACertFile), local, 0, "ca.crt"},
		{"ca.key damaged", alter(CAKeyFile), local, 0, "ca.crt ca.key tls.crt tls.key"},
		{"ca.key missing", remove(CAKeyFile), local, 0, "ca.crt ca.key tls.crt tls.key"},
		{"tls.crt damaged", alter(CertFile), local, 0, "tls.crt tls.key"},
		{"tls.key missing", remove(KeyFile), local, 0, "tls.crt tls.key"},
		{"all damaged", alter(CACertFile, CAKeyFile, CertFile, KeyFile), local, 0, "ca.crt ca.key tls.crt tls.key"},
		{"leaf near its end", func(t *testing.T, dir string) {
			// The year began 360 days ago: the leaf has 5 days left, its CA enough.
			ca, err := readPair(dir, CACertFile, CAKeyFile, false)
			if err != nil {
				t.Fatal(err)
			}
			key, err := parseKey(ca.Key)
			if err != nil {
				t.Fatal(err)
			}
			old, err := selfSign(key, now.Add(-360*day), now.Add(5*day))
			if err != nil {
				t.Fatal(err)
			}
			put(t, dir, issue(t, Pair{old, ca.Key}, now.Add(-360*day), local...))
		}, local, 0, "tls.crt tls.key"},
		{"leaf of another CA", func(t *testing.T, dir string) {
			put(t, dir, newPair(t, now))
		}, local, 0, "tls.crt tls.key"},
		{"CA is a leaf", func(t *testing.T, dir string) {
			write(t, dir, CACertFile, read(t, dir, CertFile))
			write(t, dir, CAKeyFile, read(t, dir, KeyFile))
		}, local, 0, "ca.crt tls.crt tls.key"},
	} {
		t.Run(test.name, func(t *testing.T) { ensureAgain(t, test.change, test.names, now.Add(test.later), test.want) })
	}
}

func ensureAgain(t *testing.T, change func(*testing.T, string), names []string, at time.Time, want string) {
	dir := filepath.Join(t.TempDir(), "usher")
	if _, err := EnsureLocal(dir, local, now, func(string) {}); err != nil {
		t.Fatal(err)
	}
	wantModes(t, dir)
	change(t, dir)
	before := make(map[string]string)
	files := []string{CACertFile, CAKeyFile, CertFile, KeyFile}
	for _, name := range files {
		data, _ := os.ReadFile(filepath.Join(dir, name))
		before[name] = string(data)
	}
	said := 0
	bundle, err := EnsureLocal(dir, names, at, func(string) { said++ })
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, name := range files {
		if read(t, dir, name) != before[name] {
			written = append(written, name)
		}
	}
	if got := strings.Join(written, " "); got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
	if (said > 0) != (want != "") {
		t.Errorf("said %d sentences about writing %q", said, want)
	}
	if string(bundle) != read(t, dir, CACertFile) {
		t.Error("returned another CA than ca.crt")
	}
	leaf, err := readPair(dir, CertFile, KeyFile, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := verify(parsed(t, leaf), bundle, name, at); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A browser that imported ca.crt keeps trusting the served certificate after ca.crt was renewed.
func TestRenewedAuthorityKeepsTrust(t *testing.T) {
	dir := t.TempDir()
	older, err := EnsureLocal(dir, local, now, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	later := now.AddDate(0, 0, 360)
	newer, err := EnsureLocal(dir, local, later, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if string(older) == string(newer) {
		t.Fatal("ca.crt was not renewed")
	}
	leaf, err := readPair(dir, CertFile, KeyFile, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, bundle := range [][]byte{older, newer} {
		if err := verify(parsed(t, leaf), bundle, "localhost", later); err != nil {
			t.Error(err)
		}
	}
}

// A file that cannot be read is not treated as damaged, and nothing is written for invalid names.
func TestEnsureLocalFails(t *testing.T) {
	dir := t.TempDir()
	if _, err := EnsureLocal(dir, []string{"no name"}, now, func(string) {}); err == nil {
		t.Error("issued for a name with a blank")
	}
	for _, name := range []string{CAKeyFile, CertFile} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil { // reading it fails, also for root
			t.Fatal(err)
		}
		_, err := EnsureLocal(dir, local, now, func(string) {})
		if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
			t.Errorf("%s cannot be read: error %v, want one that names it", name, err)
		}
	}
}

func TestEnsureLocalAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	const starts = 8
	var all sync.WaitGroup
	bundles := make([]string, starts)
	for i := range starts {
		all.Go(func() {
			bundle, err := EnsureLocal(dir, local, now, func(string) {})
			if err != nil {
				t.Error(err)
			}
			bundles[i] = string(bundle)
		})
	}
	all.Wait()
	for _, bundle := range bundles {
		if bundle != read(t, dir, CACertFile) {
			t.Fatal("two starts trust different CAs")
		}
	}
}
