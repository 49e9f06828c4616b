package process

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"usher.dev/usher/command"
	"usher.dev/usher/routes"
	ctl "usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/tool"
)

// inCluster matches examples that need a cluster: test/e2e runs them.
var inCluster = regexp.MustCompile(`^usherctl doctor( --canary.*)?$|^usher (webhooks (apply|remove)|certs rotate)|--cluster=api`)

// TestExamples runs the examples of every command's help in a copy of the checkout. They end with exit code 0, or with 1
// where the verdict is no.
func TestExamples(t *testing.T) {
	environment, dir := programsOnPath(t), copyOfCheckout(t)
	state := t.TempDir()
	served := serve(t, state)
	for _, c := range allCommands() {
		lines := examples(c)
		if len(lines) == 0 || len(lines) > 3 {
			t.Errorf("%s has %d examples, want 1 to 3", c.CommandPath(), len(lines))
		}
		for _, line := range lines {
			if inCluster.MatchString(line) {
				continue
			}
			t.Run(line, func(t *testing.T) {
				line = strings.NewReplacer("127.0.0.1:9443", served.reviews, ".state/ca.crt", filepath.Join(state, "ca.crt")).Replace(line)
				run := exec.Command("sh", "-c", line)
				run.Dir, run.Env = dir, environment
				if words := strings.Fields(line); slices.Contains([]string{"serve", "playground", "lab"}, append(words, "")[1]) {
					runServer(t, run)
					return
				}
				var out, errors bytes.Buffer
				run.Stdout, run.Stderr = &out, &errors
				_ = run.Run()
				if code := run.ProcessState.ExitCode(); code != 0 && code != 1 || out.Len()+errors.Len() == 0 || regexp.MustCompile(`(?m)^usher(ctl)?: `).Match(errors.Bytes()) {
					t.Errorf("exit code %d: %s%s", code, &out, &errors)
				}
			})
		}
	}
}

// allCommands returns the commands of both programs.
func allCommands() []*cobra.Command {
	return append(commands(command.Program{Suites: routes.Suites()}.Root()), commands(ctl.Root(tool.Env{Suites: routes.Suites()}))...)
}

// commands returns a command and all below it that are usher's own, without hidden ones.
func commands(c *cobra.Command) (all []*cobra.Command) {
	all = append(all, c)
	for _, below := range c.Commands() {
		if !below.Hidden {
			all = append(all, commands(below)...)
		}
	}
	return all
}

// examples returns the lines of a command's examples, without the comments.
func examples(c *cobra.Command) (lines []string) {
	for line := range strings.Lines(c.Example) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// copyOfCheckout returns a new folder with a copy of the checkout, for what writes into it.
func copyOfCheckout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch to := filepath.Join(dir, e.Name()); {
		case e.Name() == ".git" || e.Name() == "bin":
		case e.IsDir():
			err = os.CopyFS(to, os.DirFS(e.Name()))
		default:
			err = os.Symlink(filepath.Join(root(t), e.Name()), to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// root returns the root of the checkout.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// runServer runs a command that serves on free ports, until it prints an address.
func runServer(t *testing.T, c *exec.Cmd) {
	t.Helper()
	c.Args[2] = "exec " + c.Args[2]
	if strings.Contains(c.Args[2], "usherctl lab") {
		c.Env = append(c.Env, "TMPDIR="+shortDir(t))
	} else {
		c.Args[2] += " --listen 127.0.0.1:0"
	}
	if strings.Contains(c.Args[2], "usher serve") {
		c.Args[2] += " --ops-listen 127.0.0.1:0 --shutdown-delay 0s --state-dir " + t.TempDir()
	}
	var errors bytes.Buffer
	c.Stderr = &errors
	if said, err := untilServing(t, c); err != nil {
		t.Errorf("it serves nothing: %v: %s%s", err, said, &errors)
	}
}

// TestHelpOfSuites: flags of other suites than the first are in the help of those who ask for them.
func TestHelpOfSuites(t *testing.T) {
	for line, shown := range map[string]bool{
		"usher serve --help":                               false,
		"usher serve --help-all":                           true,
		"usherctl review --help":                           false,
		"usherctl review --suite core --help":              false,
		"usherctl review --suite core,colocation --help":   true,
		"usher webhooks apply --suite=colocation --help":   true,
		"usher webhooks apply --suite=colocation -y -h":    true,
		"usher webhooks --help-all --compare no-such-file": true,
	} {
		t.Run(line, func(t *testing.T) {
			var printed bytes.Buffer
			words := strings.Fields(line)
			code := runAs(words[0], strings.NewReader(""), &printed, io.Discard, words[1:]...)
			out := printed.String()
			if code != 0 || strings.Contains(out, "--slo-config-name") != shown || strings.Contains(out, "--help-all also lists") == shown {
				t.Errorf("exit code %d, want the flags of the suite colocation: %v\n%s", code, shown, out)
			}
		})
	}
}
