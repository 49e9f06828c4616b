// Package promises tests what usherctl promises, and its pages.
package promises

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"usher.dev/usher/command"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/routes"
	"usher.dev/usher/server"
	"usher.dev/usher/test/harness"
	ctl "usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/tool"
)

// TestMain runs the tests in the root directory of the repository, which has the samples and the pages.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// usherctl runs a command and returns its exit code and what it printed.
func usherctl(t *testing.T, args ...string) (code int, out, errors string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = ctl.Run(t.Context(), tool.Env{Suites: routes.Suites(), Version: "dev", Streams: cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}}, args)
	return code, stdout.String(), stderr.String()
}

// usher runs a command of usher and returns its exit code and what it printed.
func usher(t *testing.T, args ...string) (code int, out, errors string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = command.Program{Suites: routes.Suites(), Version: "dev", In: strings.NewReader(""), Out: &stdout, Err: &stderr, Serve: server.Run}.Run(t.Context(), args)
	return code, stdout.String(), stderr.String()
}

// programs returns the commands of both programs, by name.
func programs() map[string]*cobra.Command {
	all := map[string]*cobra.Command{}
	for _, root := range []*cobra.Command{command.Program{Suites: routes.Suites()}.Root(), ctl.Root(tool.Env{Suites: routes.Suites()})} {
		root.InitDefaultHelpCmd()
		root.InitDefaultCompletionCmd("completion")
		all[root.Name()] = root
	}
	return all
}

// defaultMux serves the routes of the embedded policy.
func defaultMux(t testing.TB) http.Handler {
	t.Helper()
	suites := routes.Suites()
	return harness.DefaultServer().Serve(harness.OpenInstance(t, suites, harness.DemoGates(t, suites), harness.DefaultPolicy(t, suites)).Routes())
}
