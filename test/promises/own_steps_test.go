package promises

import (
	"context"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/test/harness"
)

// TestGoldenOwnSteps does what docs/webhook-from-scratch.md says: each patch is applied, and what it makes is compiled and started. The page has
// the output of the commands, and the last step is samples/webhook.
func TestGoldenOwnSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("builds ten programs")
	}
	const page = "docs/webhook-from-scratch.md"
	s := newSteps(t)
	var lines []string
	shown := false // the output of the last command follows, as it was
	for line := range strings.SplitSeq(harness.ReadFile(t, page), "\n") {
		command, is := strings.CutPrefix(line, "    $ ")
		if !is && shown && strings.HasPrefix(line, "    ") {
			continue
		}
		lines, shown = append(lines, line), is
		if patch, applies := strings.CutPrefix(command, "git apply ../usher/"); applies {
			patch, _, _ = strings.Cut(patch, " ")
			s.apply(patch)
		} else if is {
			for out := range strings.SplitSeq(s.run(command), "\n") {
				if out != "" {
					lines = append(lines, "    "+out)
				}
			}
		}
	}
	harness.CompareGolden(t, page, strings.Join(lines, "\n"))
	if got, want := goSources(t, s.dir), goSources(t, "samples/webhook"); !maps.Equal(got, want) {
		t.Errorf("the last step is not samples/webhook: change steps/10-end.patch, and those in which the code comes")
	}
	if s.applied != 10 {
		t.Errorf("%d steps", s.applied)
	}
}

// goSources returns the Go files of a folder without tests, by path.
func goSources(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, pattern := range []string{"*.go", "*/*.go"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			if name, _ := filepath.Rel(root, file); !strings.HasSuffix(name, "_test.go") {
				files[name] = harness.ReadFile(t, file)
			}
		}
	}
	return files
}

// steps is a learner's folder, and the service that is started in it.
type steps struct {
	t         *testing.T
	dir, root string
	host      string
	stop      func()
	applied   int
}

func newSteps(t *testing.T) *steps {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	s := &steps{t: t, dir: t.TempDir(), root: root, stop: func() {}}
	t.Cleanup(func() { s.stop() })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.host = listener.Addr().String()
	_ = listener.Close()
	s.must("cp -r " + filepath.Join(root, "samples/webhook") + "/{go.mod,go.sum,.gitignore,samples,try.sh} .")
	return s
}

// took matches the part of curl's output that varies.
var took = regexp.MustCompile(` after \d+ ms`)

// run runs a command of the page, and returns its output.
func (s *steps) run(command string) string {
	out, _ := s.shell(command)
	return strings.ReplaceAll(took.ReplaceAllString(out, ""), s.host, "127.0.0.1:8443")
}

func (s *steps) shell(command string) (string, error) {
	c := exec.CommandContext(s.t.Context(), "bash", "-c", strings.ReplaceAll(command, "127.0.0.1:8443", s.host))
	c.Dir, c.Env = s.dir, append(os.Environ(), "LISTEN="+s.host)
	out, err := c.CombinedOutput()
	return string(out), err
}

func (s *steps) must(command string) {
	s.t.Helper()
	if out, err := s.shell(command); err != nil {
		s.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// apply applies a patch, and starts what it makes.
func (s *steps) apply(patch string) {
	s.t.Helper()
	s.stop()
	s.must("git apply " + filepath.Join(s.root, patch) + " && test -z \"$(gofmt -l .)\" && go build -o webhook .")
	ctx, cancel := context.WithCancel(s.t.Context())
	server := exec.CommandContext(ctx, filepath.Join(s.dir, "webhook"), "-listen", s.host)
	server.Dir = s.dir
	if err := server.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.stop = func() { cancel(); _ = server.Wait() }
	for range 200 {
		if c, err := net.DialTimeout("tcp", s.host, time.Second); err == nil {
			_ = c.Close()
			s.applied++
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.t.Fatalf("%s: the service does not listen", patch)
}
