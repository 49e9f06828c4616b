// Package process tests usherctl as a whole: its commands, and what they say of a service that runs.
package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/command"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/routes"
	"usher.dev/usher/server"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/test/harness"
	ctl "usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/tool"
)

// processMode is the environment variable that makes the test binary the program whose name it has, so that tests need no build.
const processMode = "USHER_TEST_PROCESS"

// maxWait bounds what a test waits for.
const maxWait = 5 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(processMode) != "" {
		os.Exit(runAs(filepath.Base(os.Args[0]), os.Stdin, os.Stdout, os.Stderr, os.Args[1:]...))
	}
	if err := os.Chdir("../.."); err != nil { // samples and testdata are the repository's
		panic(err)
	}
	os.Exit(m.Run())
}

// runAs runs a command of a program.
func runAs(program string, in io.Reader, out, err io.Writer, args ...string) (code int) {
	if program == "usher" {
		return command.Program{Suites: routes.Suites(), Version: "dev", In: in, Out: out, Err: err, Serve: server.Run}.Run(context.Background(), args)
	}
	return ctl.Run(context.Background(), tool.Env{Suites: routes.Suites(), Version: "dev", Streams: cli.Streams{In: in, Out: out, Err: err}}, args)
}

// run runs a command of usherctl and returns its exit code and output.
func run(t *testing.T, in string, args ...string) (code int, out, errors string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = runAs("usherctl", strings.NewReader(in), &stdout, &stderr, args...)
	return code, stdout.String(), stderr.String()
}

// usher runs a command of usher and returns its exit code and output.
func usher(t *testing.T, args ...string) (code int, out, errors string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = runAs("usher", strings.NewReader(""), &stdout, &stderr, args...)
	return code, stdout.String(), stderr.String()
}

// sampleInstance returns the instance of `make run`.
func sampleInstance(t testing.TB) suite.Instance {
	return harness.OpenInstance(t, routes.Suites(), harness.DemoGates(t, routes.Suites()), harness.DefaultPolicy(t, routes.Suites()))
}

func putFile(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// programsOnPath returns an environment in which the commands usher and usherctl are this test binary.
func programsOnPath(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	bin := t.TempDir()
	for _, name := range []string{"usher", "usherctl"} {
		if err == nil {
			err = os.Symlink(self, filepath.Join(bin, name))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), processMode+"=1", "PATH="+bin+":"+os.Getenv("PATH"))
}

// served is a usher that serves until the test ends.
type served struct {
	reviews string // its address
	log     *log   // what it has logged so far
}

// serve starts usher with a state directory and arguments.
func serve(t *testing.T, state string, args ...string) served {
	t.Helper()
	c := exec.Command("sh", "-c", `exec usher serve --listen 127.0.0.1:0 --ops-listen 127.0.0.1:0 --shutdown-delay 0s --state-dir "$0" "$@"`, state)
	c.Args = append(c.Args, args...)
	c.Env = programsOnPath(t)
	logged := &log{}
	c.Stderr = logged
	said, err := untilServing(t, c)
	if err != nil {
		t.Fatalf("%v: %s%s", err, said, logged)
	}
	return served{addressSaid.FindStringSubmatch(said)[1], logged}
}

// log is a text that is written while others read it.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// addressSaid matches the address that a server prints.
var addressSaid = regexp.MustCompile(`https?://((?:127\.0\.0\.1|localhost):\d+)`)

// untilServing starts a command, and returns what it has printed when it prints an address. It is killed when the test ends.
func untilServing(t *testing.T, c *exec.Cmd) (said string, err error) {
	t.Helper()
	out, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := c.Start(); err != nil {
		return "", err
	}
	tooLong := time.AfterFunc(maxWait, func() { _ = c.Process.Kill() })
	t.Cleanup(func() {
		tooLong.Stop()
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	for lines := bufio.NewScanner(out); !addressSaid.MatchString(said); {
		if !lines.Scan() {
			return said, errors.New("it has ended")
		}
		said += lines.Text() + "\n"
	}
	return said, nil
}
