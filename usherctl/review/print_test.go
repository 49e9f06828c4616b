package review_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/colocation"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/tool"
)

// TestVerdictsInOutputs: each verdict, and unknown fields, are in all outputs, also with -q, and in the exit code.
func TestVerdictsInOutputs(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: apps%s}\nspec: {containers: [%s]%s}\n"
	of := func(metadata, container, spec string) string {
		return strings.NewReplacer("apps%s", "apps"+metadata, "[%s]%s", "["+container+"]"+spec).Replace(pod)
	}
	const container = "{name: app, image: nginx}"
	const profile = "apiVersion: config.koordinator.sh/v1alpha1\nkind: ClusterColocationProfile\nmetadata: {name: p}\nspec: {namespaceSelector: {matchLabels: {a: b}}, labels: {c: d}}\n"
	for _, c := range []struct {
		name, files, verdict, junit string
		code, strict                int  // strict is with --strict, and of an unknown field another verdict
		quiet                       bool // with -q it is shown
	}{
		{"allowed", of("", container, ""), "allowed", `errors="0" skipped="0"`, 0, 0, false},
		{"an unknown field", of("", container, ", mine: 1"), "allowed", `warning: unknown field &#34;spec.mine&#34;: kubectl refuses it`, 0, 1, true},
		{"skipped", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n", "skipped", `skipped="1"`, 0, 1, false},
		{"denied", of(", labels: {koordinator.sh/qosClass: LSR, koordinator.sh/priority: x}", container, ""), "denied", `failures="1" errors="0"`, 1, 1, true},
		{"invalid", of("", "", ""), "invalid", `message="spec.containers: Required value" type="invalid"`, 1, 1, true},
		{"not judged", of("", container, "") + "---\n" + profile, "not judged", `type="not judged"`, 2, 2, true},
		{"an error", "apiVersion: [", "error", `failures="0" errors="1"`, 2, 2, true},
		{"not judged, and denied", of("", container, "") + "---\n" + profile + "---\n" + of("", "", ""), "not judged", `failures="1" errors="1"`, 1, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file.yaml")
			if err := os.WriteFile(file, []byte(c.files), 0o600); err != nil {
				t.Fatal(err)
			}
			run := func(want int, flags ...string) string {
				var out, errs bytes.Buffer
				if code := command.Run(t.Context(), tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{Out: &out, Err: &errs}}, append([]string{"review", file}, flags...)); code != want {
					t.Errorf("%s: exit code %d, want %d: %s%s", flags, code, want, out.String(), errs.String())
				}
				return out.String()
			}
			if text := run(c.code); !strings.HasPrefix(text, c.verdict+"  ") {
				t.Errorf("text: %s", text)
			}
			if text := run(c.code, "-q"); strings.HasPrefix(text, c.verdict+"  ") != c.quiet {
				t.Errorf("-q: %s", text)
			}
			var reports []struct{ Verdict string }
			if err := json.Unmarshal([]byte(run(c.code, "-o", "json")), &reports); err != nil || reports[0].Verdict != c.verdict {
				t.Errorf("json: %v, %v", reports, err)
			}
			if text := run(c.code, "-o", "junit"); !strings.Contains(text, c.junit) {
				t.Errorf("junit: %s", text)
			}
			run(c.strict, "--strict")
			if text := run(c.strict, "--strict", "-q"); !strings.HasPrefix(text, c.verdict+"  ") && !strings.Contains(text, `strict decoding error: unknown field "spec.mine"`) && c.strict != 0 {
				t.Errorf("--strict -q: %s", text)
			}
			if text := run(c.strict, "--strict", "-o", "junit"); strings.Contains(text, `failures="0" errors="0"`) != (c.strict == 0) {
				t.Errorf("--strict -o junit: %s", text)
			}
		})
	}
}
