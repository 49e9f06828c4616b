// Package junit tests that the JUnit reports of usher keep a schema that is not usher's own, by a validator that is not
// usher's own.
package junit

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/binaries"
)

// cases lists the possible results of a case, with texts that XML must escape or cannot hold.
const cases = `name: "passes, with <&> and \"quotes\" \u0007"
manifest: {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: app, image: nginx}]}}
expect: {verdict: allowed}
---
name: fails ]]> over several lines
manifest: {apiVersion: v1, kind: Pod, metadata: {name: offensive}, spec: {containers: [{name: app, image: nginx}]}}
expect:
  verdict: allowed
  code: 200
  message: "]]> <!-- \u0001 -->\n\n& more"
  causes: []
  after: {metadata: {name: "<web>"}}
---
name: cannot be judged
manifest: nowhere.yaml
expect: {verdict: denied}
---
name: has an unknown key
expects: {}
`

// TestSchema validates reports of `usherctl test` and `usherctl review` with xmllint. A report that breaks the schema is found.
func TestSchema(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	xmllint, err := binaries.Xmllint(ctx)
	if err != nil {
		t.Skip(err)
	}
	schema, err := binaries.JUnitSchema(ctx, t.TempDir())
	if err != nil {
		t.Skip(err)
	}
	usherctl, dir := build(ctx, t), t.TempDir()
	write(t, filepath.Join(dir, "case.yaml"), cases)
	write(t, filepath.Join(dir, "unused.txt"), "")
	for _, c := range []struct {
		name string
		args []string
		code int
		want string // how often what is reported
	}{
		{"the samples", []string{"test", "samples", "-o", "junit"}, 0, `failures="0" errors="0"`},
		{"every end of a case", []string{"test", dir, "-o", "junit"}, 2, `tests="5" failures="1" errors="3"`},
		{"no cases", []string{"test", t.TempDir(), "-o", "junit"}, 2, `tests="1" failures="0" errors="1"`},
		{"reviews", []string{"review", "samples/manifests", "-o", "junit"}, 1, `errors="0"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := run(ctx, t, usherctl, c.args, c.code)
			if !strings.Contains(report, c.want) {
				t.Errorf("%s is not in the report:\n%.1000s", c.want, report)
			}
			file := filepath.Join(t.TempDir(), "report.xml")
			write(t, file, report)
			if out, err := exec.CommandContext(ctx, xmllint, "--noout", "--schema", schema, file).CombinedOutput(); err != nil {
				t.Errorf("%v: %s\n%s", err, out, report)
			}
			for old, bad := range map[string]string{"<testcase ": "<testcases ", ` tests="`: ` test="`, ` name="`: ` title="`} {
				write(t, file, strings.Replace(report, old, bad, 1))
				if out, err := exec.CommandContext(ctx, xmllint, "--noout", "--schema", schema, file).CombinedOutput(); err == nil {
					t.Errorf("with %s in the place of %s, the schema still holds: %s", bad, old, out)
				}
			}
		})
	}
}

// build builds usherctl, whose sources are three directories up.
func build(ctx context.Context, t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "usherctl")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", file, ".")
	cmd.Dir = "../../../usherctl"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// run runs usherctl in the root of the repository, and returns what it prints.
func run(ctx context.Context, t *testing.T, usherctl string, args []string, code int) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, usherctl, args...)
	cmd.Dir = "../../.."
	out, err := cmd.Output()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("usher %s: %v, want exit code %d", strings.Join(args, " "), err, code)
	}
	return string(out)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
