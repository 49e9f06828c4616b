//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"usher.dev/usher/certs"
	"usher.dev/usher/config"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

// What may be in place of a file: half of it, a pipe, a directory, a dangling link.

// oddities lists what may be in place of a file by mistake; each creates it. Tests may run as root, who can read any
// file, so dangling and circular links stand for unreadable files.
var oddities = []struct {
	name string
	make func(path string) error
	says string
}{
	{"pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }, "is a named pipe"},
	{"directory", func(path string) error { return os.Mkdir(path, 0o700) }, "is a directory"},
	{"link to nowhere", func(path string) error { return os.Symlink("gone", path) }, "no such file"},
	{"link to itself", func(path string) error { return os.Symlink(filepath.Base(path), path) }, "too many levels of symbolic links"},
}

// replaceBy puts something else in place of a file or a directory.
func replaceBy(t *testing.T, path string, make func(path string) error) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(path), make(path)); err != nil {
		t.Fatal(err)
	}
}

// putFile replaces a file atomically.
func putFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(path), os.WriteFile(path+".new", content, 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// watched is a service with everything that it reloads: a policy, a certificate, a directory of manifests.
type watched struct {
	*process
	volume                *secretVolume
	policy, cert, cluster string // paths
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	dir := t.TempDir()
	w := &watched{volume: newSecretVolume(t), policy: filepath.Join(dir, "policy.yaml"), cluster: filepath.Join(dir, "cluster")}
	w.cert = filepath.Join(w.volume.dir, certs.CertFile)
	w.volume.swap(t, w.volume.issue(t))
	putFile(t, w.policy, routes.Suites().Schema().DefaultYAML())
	w.putCluster(t, 0)
	return w
}

func (w *watched) args() []string {
	return []string{"--config", w.policy, "--cert-dir", w.volume.dir, "--cluster-dir", w.cluster}
}

func (w *watched) launch(t *testing.T) {
	t.Helper()
	w.process = launched(t, launch{args: w.args()})
	w.trust(t, filepath.Join(w.volume.dir, "ca.crt"))
}

// putCluster recreates the directory, with one namespace.
func (w *watched) putCluster(t *testing.T, n int) {
	t.Helper()
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: n%d}\n", n)
	err := errors.Join(os.RemoveAll(w.cluster), os.Mkdir(w.cluster, 0o700), os.WriteFile(filepath.Join(w.cluster, "a.yaml"), []byte(manifest), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// logs counts the lines of the log that contain text.
func (p *process) logs(text string) int { return strings.Count(p.log.String(), text) }

const (
	policyBad, policyGood   = "the policy file is bad", `"msg":"policy in force"`
	certBad, certGood       = "the new certificate is bad", `"msg":"certificate in force"`
	clusterBad, clusterGood = "the new cluster files are bad", "new cluster state from files in force"
)

// want waits until each text has been logged once more, during or after the call of does.
func (w *watched) want(t *testing.T, what string, texts []string, does func()) {
	t.Helper()
	before := map[string]int{}
	for _, text := range texts {
		before[text] = w.logs(text)
	}
	does()
	for _, text := range texts {
		eventually(t, what+": "+text, func() bool { return w.logs(text) > before[text] })
	}
}

// TestProcessHalfWrittenPolicy: a policy file that is being written is not used, although each part of it is valid:
// here the first half turns the overcommit off.
func TestProcessHalfWrittenPolicy(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.launch(t)
	old := string(routes.Suites().Schema().DefaultYAML())
	now := strings.ReplaceAll(old, `cpu: "2"`, `cpu: "3"`)
	half, _, _ := strings.Cut(now, "overcommit:")
	if _, problems := config.Parse([]byte(half), routes.Suites().Schema()); len(problems) > 0 {
		t.Fatalf("half of the policy is no policy: %v", problems)
	}
	answers := func(text string) map[string]string {
		policy, _ := config.Parse([]byte(text), routes.Suites().Schema())
		return rightAnswers(t, policy)
	}
	clients := startLoad(t, loadOptions{address: w.reviews, roots: w.roots, clients: 2, right: oneOf(answers(old), answers(now))})
	writeSlowly(t, w.policy, half, 6*time.Second)
	putFile(t, w.policy, []byte(now))
	eventually(t, "the whole policy is in force", func() bool { return w.logs(policyGood) > 1 })
	clients.more(t, 20)
	clients.wantNoFailure(t)
	if n := w.logs(policyGood); n != 2 {
		t.Errorf("%d policies were in force, want the old one and the new one", n)
	}
}

// writeSlowly writes text and then a comment, character by character.
func writeSlowly(t *testing.T, path, text string, lasting time.Duration) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	text += "#"
	for end := time.Now().Add(lasting); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		text = " "
	}
}

// TestProcessOddFiles: whatever replaces a file while usher runs, the previous content stays in use, the log says why,
// once, and the next valid file is used.
func TestProcessOddFiles(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.launch(t)
	for i, odd := range oddities[:scaled(1, 2, 4)] {
		w.want(t, "a "+odd.name+" is told", []string{policyBad, certBad, clusterBad}, func() {
			for _, path := range []string{w.policy, w.cert, w.cluster} {
				if odd.name == "directory" && path == w.cluster { // it is one
					replaceBy(t, path, func(path string) error { return os.WriteFile(path, nil, 0o600) })
					continue
				}
				replaceBy(t, path, odd.make)
			}
		})
		w.wantAlive(t)
		w.want(t, "after a "+odd.name, []string{policyGood, certGood, clusterGood}, func() {
			replaceBy(t, w.cert, func(path string) error { return os.Symlink("..data/tls.crt", path) })
			w.volume.swap(t, w.volume.issue(t))
			putFile(t, w.policy, routes.Suites().Schema().DefaultYAML())
			w.putCluster(t, i+1)
		})
		for _, bad := range []string{policyBad, certBad, clusterBad} {
			if n := w.logs(bad); n != i+1 {
				t.Errorf("%q was logged %d times for %d bad files", bad, n, i+1)
			}
		}
	}
	w.wantAlive(t)
}

// TestProcessOddFilesAtStart: usher refuses to start with them, and does not hang.
func TestProcessOddFilesAtStart(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, odd := range oddities {
		for _, place := range []string{"policy", "certificate", "key", "cluster", "manifest"} {
			t.Run(odd.name+" as "+place, func(t *testing.T) {
				t.Parallel()
				if odd.name == "directory" && (place == "cluster" || place == "manifest") {
					t.Skip("the cluster's manifests are in a directory, and its sub-directories are not read")
				}
				w := newWatched(t)
				path := map[string]string{"policy": w.policy, "certificate": w.cert, "key": filepath.Join(w.volume.dir, certs.KeyFile),
					"cluster": w.cluster, "manifest": filepath.Join(w.cluster, "b.yaml")}[place]
				replaceBy(t, path, odd.make)
				command := exec.CommandContext(t.Context(), self, append([]string{"serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"}, w.args()...)...)
				command.Env = append(os.Environ(), processMode+"="+asItIs)
				command.WaitDelay = time.Second
				kill := time.AfterFunc(maxWait, func() { _ = command.Process.Kill() })
				defer kill.Stop()
				out, _ := command.CombinedOutput()
				says := odd.says
				if place == "cluster" && odd.name == "pipe" {
					says = "not a directory"
				}
				if code := command.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), path) || !strings.Contains(string(out), says) {
					t.Errorf("exit code %d, want 2, %s and %q:\n%s", code, path, says, out)
				}
			})
		}
	}
}

// TestProcessHangup: SIGHUP makes usher read all files again at once, without other effects.
func TestProcessHangup(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.launch(t)
	for i := range 3 {
		w.want(t, "after SIGHUP", []string{"SIGHUP", policyGood, certGood, clusterGood}, func() {
			putFile(t, w.policy, fmt.Appendf(routes.Suites().Schema().DefaultYAML(), "# %d\n", i))
			w.volume.swap(t, w.volume.issue(t))
			w.putCluster(t, i+1)
			w.signal(t, syscall.SIGHUP)
		})
	}
	w.wantAlive(t)
	w.signal(t, syscall.SIGTERM)
	w.wantExit(t)
}

// TestProcessHalfAPolicy: a part of a policy file that is a valid policy is reported; with --require-sections it does not come into force.
func TestProcessHalfAPolicy(t *testing.T) {
	whole := harness.ReadFile(t, "samples/policy.yaml")
	at := regexp.MustCompile(`(?m)^[a-zA-Z]+:`).FindAllStringIndex(whole, -1)
	last := at[len(at)-1]
	half, missing := whole[:last[0]], strings.TrimSuffix(whole[last[0]:last[1]], ":")
	if missing != "overrides" {
		t.Fatalf("samples/policy.yaml ends with the section %s: move it above modes, so that overrides, which is of no step, is the last", missing)
	}
	for _, c := range []struct {
		args             []string
		dropped, current float64
	}{
		{nil, 1, 1},
		{[]string{"--require-sections", missing}, 0, 0},
	} {
		file := filepath.Join(t.TempDir(), "policy.yaml")
		putFile(t, file, []byte(whole))
		p := launched(t, launch{args: append([]string{"--config", file, "--cluster-dir", "samples/cluster"}, c.args...)})
		putFile(t, file, []byte(half))
		eventually(t, "the half policy was read", func() bool {
			return p.metric(t, "usher_policy_dropped_sections ") == c.dropped && p.metric(t, "usher_policy_current ") == c.current && p.logs(missing) > 0
		})
		if n := p.logs(missing); n != 1 {
			t.Errorf("%v: %d lines of the log name the section %s\n%s", c.args, n, missing, p.log)
		}
		putFile(t, file, []byte(whole))
		eventually(t, "the whole one is in force", func() bool {
			return p.metric(t, "usher_policy_dropped_sections ") == 0 && p.metric(t, "usher_policy_current ") == 1
		})
	}
}
