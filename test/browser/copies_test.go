package browser

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestCopies: what is copied for a shell runs there, and says what the page says; the case for `usherctl test` passes.
func TestCopies(t *testing.T) {
	p := open(t, "", 1280, 860)
	for _, example := range []string{"mutate-pods/environment", "mutate-pods/label-defaults", "validate-pods/denied-names", "validate-pods/label-rules-immutable",
		"validate-pod/evaluate-quota", "mutate-nodes/overcommit"} {
		p.choose(example)
		verdict, _, _ := strings.Cut(p.text("verdict"), ":")
		if out, _ := p.inShell(t, p.copied("review")); !strings.HasPrefix(out, verdict) {
			t.Errorf("%s: the page says %s, the shell\n%s", example, verdict, out)
		}
		if out, err := p.inShell(t, p.copied("case")); err != nil || !strings.Contains(out, "1 passed") {
			t.Errorf("%s: the case: %v\n%s", example, err, out)
		}
		script, _, _ := strings.Cut(p.copied("curl"), "|\n  curl") // without the server
		if out, err := p.inShell(t, script); err != nil || !strings.Contains(out, `"kind": "AdmissionReview"`) {
			t.Errorf("%s: what curl would send: %v\n%s", example, err, out)
		}
	}
}

// TestCopiesOfATypedInput: a manifest, a user with a quote in the name, and a policy of one's own.
func TestCopiesOfATypedInput(t *testing.T) {
	p := open(t, "", 1280, 860)
	p.change("gates", "")
	p.write("apiVersion: v1\nkind: Pod\nmetadata:\n  name: offensive # it's a pod\nspec:\n  containers:\n  - {name: c, image: i}\n")
	p.change("user", "o'brien; echo no")
	p.change("groups", "a, b")
	p.change("path", "core")
	p.run(chromedp.Click("#tab-policy", chromedp.ByQuery))
	p.write("names: {denied: [offensive]} # it's the policy, $HOME\n")
	if verdict := p.text("verdict"); !strings.HasPrefix(verdict, "denied: ") {
		t.Fatalf("the page says %s", verdict)
	}
	if out, _ := p.inShell(t, p.copied("review")); !strings.HasPrefix(out, "denied") || strings.Contains(out, "\nno") {
		t.Errorf("the shell says\n%s", out)
	}
	if out, err := p.inShell(t, p.copied("case")); err != nil || !strings.Contains(out, "1 passed") {
		t.Errorf("the case: %v\n%s", err, out)
	}
}

// copied returns what a button copies.
func (p *tab) copied(kind string) (text string) {
	p.Helper()
	p.run(chromedp.Evaluate(fmt.Sprintf(`delete document.body.dataset.copied; document.querySelector("[data-copy=%s]").click()`, kind), nil),
		chromedp.Poll(`document.body.dataset.copied`, &text))
	return text
}

// inShell runs lines in a shell, in an empty folder, with the usher that serves the page.
func (p *tab) inShell(t *testing.T, lines string) (string, error) {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "sh", "-c", lines)
	shell.Dir = t.TempDir()
	shell.Env = append(shell.Environ(), "PATH="+filepath.Dir(program)+":/usr/bin:/bin")
	out, err := shell.CombinedOutput()
	return string(out), err
}
