package promises

import (
	"bytes"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
	ctl "usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/tool"
)

// TestExplainFindings: each finding of usherctl explain is described on its page, and the page describes no other.
func TestExplainFindings(t *testing.T) {
	page := harness.ReadFile(t, "docs/explain.md")
	in := map[string]bool{}
	finding := regexp.MustCompile(`(?:find\(|finding\(|unknownBecause\()"([a-z]+(?:-[a-z]+)+)"`)
	files, err := filepath.Glob("usherctl/explain/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for _, m := range finding.FindAllStringSubmatch(harness.ReadFile(t, file), -1) {
			in[m[1]] = true
			if !strings.Contains(page, `<a id="`+m[1]+`"></a>`) {
				t.Errorf("%s: docs/explain.md does not describe the finding %s", file, m[1])
			}
		}
	}
	for _, m := range regexp.MustCompile(`<a id="([^"]+)"></a>`).FindAllStringSubmatch(page, -1) {
		if !in[m[1]] {
			t.Errorf("docs/explain.md describes the finding %s, which does not exist", m[1])
		}
	}
}

// TestExplainNamesSections: the section of the policy that usherctl explain names for a step is the one for which
// samples/policy.yaml names the step.
func TestExplainNamesSections(t *testing.T) {
	const file = "samples/policy.yaml"
	steps, _ := routes.Suites().Steps()
	var named []string
	found := 0
	for line := range strings.Lines(harness.ReadFile(t, file)) {
		if _, after, ok := strings.Cut(line, "Step"); ok && strings.HasPrefix(line, "#") {
			named = strings.FieldsFunc(after[:strings.IndexAny(after+";", ".;")], func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') })
		}
		section, _, isSection := strings.Cut(line, ":")
		if !isSection || !regexp.MustCompile(`^[a-z]`).MatchString(section) {
			continue
		}
		for _, step := range named {
			if !slices.Contains(steps, step) || step == "profile" || step == "reservation" {
				continue
			}
			found++
			if out := explained(t, file, step); !strings.Contains(out, "section "+section+"\n") {
				t.Errorf("step %s is of section %s, and usherctl explain says\n%s", step, section, out)
			}
		}
		named = nil
	}
	if found < 15 {
		t.Errorf("%s names %d steps", file, found)
	}
}

// explained returns what usherctl explain says of a refusal by a step.
func explained(t *testing.T, policy, step string) string {
	t.Helper()
	var out bytes.Buffer
	env := tool.Env{Suites: routes.Suites(), Streams: cli.Streams{Out: &out, Err: io.Discard}}
	ctl.Run(t.Context(), env, []string{"explain", "--config", policy, "x: Forbidden: y (usher, step " + step + ", refusal 01234567)"})
	return out.String()
}

// TestExplainQuotesNames: a name in a pasted text cannot be a command of the shell that a fix is pasted into.
func TestExplainQuotesNames(t *testing.T) {
	for _, text := range []string{
		`Error from server: admission webhook "a;id" denied the request: no`,
		`pods "a" is forbidden: exceeded quota: $(id), requested: pods=1, used: pods=1, limited: pods=1`,
	} {
		if _, out, errors := usherctl(t, "explain", text); !strings.Contains(out, " 'a;id'") && !strings.Contains(out, "='$(id)'") {
			t.Errorf("the name is not one word of the fix:\n%s%s", out, errors)
		}
	}
}
