// Package promises tests what usherctl promises, and its pages.
package promises

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// program is one of the two programs.
type program struct {
	name     string
	commands []string // that are listed
	help     string   // of all of them
}

// programs returns both programs.
func programs(t *testing.T) (all []program) {
	t.Helper()
	for _, root := range []*cobra.Command{command.Program{Suites: routes.Suites()}.Root(), ctl.Root(tool.Env{Suites: routes.Suites()})} {
		p := program{name: root.Name()}
		for _, c := range root.Commands() {
			if c.Hidden {
				continue
			}
			p.commands = append(p.commands, c.Name())
			for _, listed := range append(c.Commands(), c) {
				p.help += listed.UsageString()
				listed.Flags().VisitAll(func(f *pflag.Flag) { p.help += "--" + f.Name + " " })
			}
		}
		all = append(all, p)
	}
	return all
}

// defaultMux serves the routes of the embedded policy.
func defaultMux(t testing.TB) http.Handler {
	t.Helper()
	suites := routes.Suites()
	return harness.DefaultServer().Serve(harness.OpenInstance(t, suites, harness.DemoGates(t, suites), harness.DefaultPolicy(t, suites)).Routes())
}
