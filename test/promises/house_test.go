// Package promises tests what the program promises as a whole: the goldens of all samples, and that its routes, steps,
// manifests and pages tell the same.
package promises

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"usher.dev/usher/command"
	"usher.dev/usher/routes"
	"usher.dev/usher/server"
)

// TestMain runs the tests in the root: samples, manifests and pages are the repository's.
func TestMain(m *testing.M) {
	if _, err := os.Stat("test/promises"); err != nil { // a worker of a fuzz test begins there
		if err := os.Chdir("../.."); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// core returns the name of the core suite.
func core() string { return routes.Suites()[0].Name }

// usher runs a command and returns its exit code and what it printed.
func usher(t *testing.T, args ...string) (code int, out, errors string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = command.Program{Suites: routes.Suites(), Version: "dev", In: strings.NewReader(""), Out: &stdout, Err: &stderr, Serve: server.Run}.Run(t.Context(), args)
	return code, stdout.String(), stderr.String()
}
