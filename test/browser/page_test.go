package browser

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"sigs.k8s.io/yaml"
)

// TestEverySample: each sample loads, and the page shows what its golden says: the verdict, the object that is stored,
// and of a refusal the message.
func TestEverySample(t *testing.T) {
	p := open(t, "", 1280, 860)
	names := eval[[]string](p, `[...document.querySelectorAll("#example option")].map((o) => o.value).filter((v) => v)`)
	if len(names) < 20 {
		t.Fatalf("only the examples %v", names)
	}
	for _, name := range names {
		golden, err := os.ReadFile(filepath.Join(root, "samples/reviews", name+".golden"))
		if err != nil {
			t.Fatal(err)
		}
		p.choose(name)
		want := want(string(golden))
		if verdict := p.text("verdict"); !strings.HasPrefix(verdict, want.verdict+":") || !strings.Contains(verdict, want.message) {
			t.Errorf("%s: shows %q, want %s and %q", name, verdict, want.verdict, want.message)
		}
		if want.verdict != "allowed" {
			continue
		}
		p.run(chromedp.Evaluate(`document.querySelector("#chain li:last-child button").click()`, nil))
		object := eval[string](p, `[...document.querySelectorAll("#document .after")].map((s) => s.textContent).join("\n")`)
		if want.object != "" && asJSON(t, object) != asJSON(t, want.object) {
			t.Errorf("%s: shows the object\n%s\nwant\n%s", name, object, want.object)
		}
	}
}

// asJSON returns an object as Kubernetes reads its YAML: goldens sort keys, and the page does not.
func asJSON(t *testing.T, text string) string {
	t.Helper()
	object, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return string(object)
}

// expected holds the content of a golden.
type expected struct{ verdict, message, object string }

var refusal = regexp.MustCompile(`\(refusal [0-9a-f]{8}\)`)

func want(golden string) (e expected) {
	e.verdict = "error"
	if strings.Contains(golden, "allowed: true") {
		e.verdict = "allowed"
	}
	if strings.Contains(golden, "allowed: false") {
		e.verdict, e.message = "denied", refusal.FindString(golden)
	}
	if _, object, found := strings.Cut(golden, "\nobject:\n"); found {
		e.object = strings.TrimSpace(strings.ReplaceAll("\n"+object, "\n  ", "\n"))
	}
	return e
}

// TestRecording: the reviews that a server has recorded can be chosen, and are decided again at the route that received
// them.
func TestRecording(t *testing.T) {
	p := open(t, "", 1280, 860)
	titles := eval[[]string](p, `[...document.querySelectorAll("#record option")].map((o) => o.textContent)`)
	if len(titles) != 3 || !strings.Contains(titles[2], "/validate-pods CREATE pods apps/offensive-pod, by") {
		t.Fatalf("the list is %q", titles)
	}
	p.change("record", "1")
	if verdict := p.text("verdict"); !strings.HasPrefix(verdict, "denied: CREATE Pod apps/offensive-pod") {
		t.Errorf("the second shows %q", verdict)
	}
}

// TestWalk: the arrow keys walk from the user to what is stored, and what a step has changed is marked.
func TestWalk(t *testing.T) {
	p := open(t, "", 1280, 860)
	p.choose("mutate-pods/environment")
	p.run(chromedp.Focus("#slider", chromedp.ByQuery), chromedp.KeyEvent(kb.Home))
	for _, want := range []struct{ stage, marked string }{{"environment", "KUBE"}, {"lifespan", "acme.com/lifespan-remaining"}} {
		p.run(chromedp.KeyEvent(kb.ArrowRight))
		stage := eval[string](p, `document.querySelector("#chain [aria-current=step]").textContent`)
		marked := eval[string](p, `[...document.querySelectorAll("#document .added")].map((s) => s.textContent).join("\n")`)
		if stage != want.stage || !strings.Contains(marked, want.marked) || !strings.Contains(p.text("patch"), want.marked) {
			t.Errorf("at %s, marked %q, patch %q; want %+v", stage, marked, p.text("patch"), want)
		}
	}
	p.run(chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.ArrowLeft))
	if stage := p.text("stage"); !strings.Contains(stage, "as it is sent") {
		t.Errorf("back at %q", stage)
	}
	p.run(chromedp.Focus("#document", chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowRight))
	if stage := p.text("stage"); !strings.Contains(stage, "environment") {
		t.Errorf("an arrow key in the object leads to %q", stage)
	}
}

// TestKeyboard: tabs answer the arrow keys, and everything can be reached with the Tab key.
func TestKeyboard(t *testing.T) {
	p := open(t, "", 1280, 860)
	p.run(chromedp.Focus("#tab-object", chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	if at := eval[string](p, `document.activeElement.id`); at != "tab-policy" {
		t.Errorf("two arrows to the right of the first tab is %s", at)
	}
	p.run(chromedp.KeyEvent(kb.Tab))
	if at := eval[string](p, `document.activeElement.id`); at != "text" {
		t.Errorf("after the tabs comes %s", at)
	}
	p.run(chromedp.Evaluate(`document.getElementById("more").open = true`, nil))
	reached := map[string]bool{}
	for range 60 {
		p.run(chromedp.KeyEvent(kb.Tab))
		reached[eval[string](p, `document.activeElement.id`)] = true
	}
	for _, id := range []string{"operation", "namespace", "user", "gates", "dryRun", "slider", "document", "example", "share"} {
		if !reached[id] {
			t.Errorf("the Tab key does not reach %s", id)
		}
	}
}

// TestErrorsAtTheirLine: what is wrong with a manifest and a policy is said at its line, and a click goes there.
func TestErrorsAtTheirLine(t *testing.T) {
	p := open(t, "", 1280, 860)
	for _, c := range []struct{ tab, text, line, problem string }{
		{"policy", "names:\n  denied: [a]\nmodes:\n  denied-names: perhaps\n", "4", "modes[denied-names]"},
		{"policy", "names:\n\tdenied: [\n", "2", "YAML"},
		{"cluster", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\nkind: Namespace\n\tmetadata: {}\n", "6", "tab character"},
		{"object", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: offensive\nspec:\n  containers: [{name: c, image: i}]\n", "4", "metadata.name"},
	} {
		p.choose("validate-pods/denied-names") // all is well again
		p.run(chromedp.Click("#tab-"+c.tab, chromedp.ByQuery))
		p.change("text", c.text)
		if marked := eval[string](p, `[...document.querySelectorAll("#numbers .marked")].map((s) => s.textContent).join()`); marked != c.line {
			t.Errorf("%s: line %q is marked, want %s: %s", c.tab, marked, c.line, p.text("problems"))
		}
		if problem := p.text("problems"); !strings.Contains(problem, c.problem) {
			t.Errorf("%s: %q does not name %s", c.tab, problem, c.problem)
		}
		p.run(chromedp.Click("#problems button", chromedp.ByQuery))
		if at := eval[string](p, `String(document.getElementById("text").value.slice(0, document.getElementById("text").selectionStart).split("\n").length)`); at != c.line {
			t.Errorf("%s: a click goes to line %s, want %s", c.tab, at, c.line)
		}
	}
}

// TestUnknownFields: a field that the kind does not know is a warning at its line, and not marked as refused.
func TestUnknownFields(t *testing.T) {
	p := open(t, "", 1280, 860)
	p.choose("mutate-pods/unknown-fields")
	shown := eval[[]string](p, `[...document.querySelectorAll("#problems .warn")].map((b) => b.textContent)`)
	if len(shown) != 8 || !strings.HasPrefix(shown[0], `line `) || !strings.Contains(strings.Join(shown, "\n"), `unknown field "spec.containers[0].futureInContainer": kubectl refuses it`) {
		t.Errorf("shows %q", shown)
	}
	if marked := eval[int](p, `document.querySelectorAll("#numbers .marked").length`); marked != 0 {
		t.Errorf("%d lines are marked as refused", marked)
	}
}

// TestAnswers: the complete patch and the response are one click away.
func TestAnswers(t *testing.T) {
	p := open(t, "", 1280, 860)
	for id, want := range map[string]string{"patches": `{"op":"add","path":"/spec/containers/0/env"`, "responses": `"patchType": "JSONPatch"`} {
		p.run(chromedp.Click("#"+id+"-box summary", chromedp.ByQuery))
		if text := eval[string](p, `document.getElementById("`+id+`").checkVisibility() ? document.getElementById("`+id+`").textContent : ""`); !strings.Contains(text, want) {
			t.Errorf("%s: %q", id, text)
		}
	}
	p.run(chromedp.Click("#tab-policy", chromedp.ByQuery))
	if text := eval[string](p, `document.getElementById("text").value`); !strings.Contains(text, "denied:") {
		t.Errorf("the tab of the policy has %q", text)
	}
}

// TestShareIsShort: the address of each example has at most 2,000 characters, and brings it back.
func TestShareIsShort(t *testing.T) {
	p := open(t, "", 1280, 860)
	for _, name := range eval[[]string](p, `[...document.querySelectorAll("#example option")].map((o) => o.value)`) {
		if name != "" {
			p.choose(name)
		}
		object := eval[string](p, `document.getElementById("text").value`)
		var copied string
		p.run(chromedp.Evaluate(`delete document.body.dataset.copied; document.getElementById("share").click()`, nil),
			chromedp.Poll(`document.body.dataset.copied`, &copied, chromedp.WithPollingInterval(10*time.Millisecond))) // the tab may be behind another
		if len(copied) > 2000 {
			t.Errorf("%q: %d characters", name, len(copied))
		}
		_, fragment, _ := strings.Cut(copied, "#")
		if !slices.Contains([]string{"", "mutate-pods/environment", "mutate-node-status/amplify"}, name) {
			continue
		}
		again := open(t, "#"+fragment, 1280, 860)
		if got := eval[string](again, `document.getElementById("text").value`); got != object || again.text("verdict") != p.text("verdict") {
			t.Errorf("%q: the address brings %.100q, want %.100q", name, got, object)
		}
	}
}

// TestShare: the address of the page has everything that was typed, and only in its fragment, which is never sent.
func TestShare(t *testing.T) {
	p := open(t, "", 1280, 860)
	p.choose("mutate-pods/lifespan-too-long")
	p.run(chromedp.Click("#tab-policy", chromedp.ByQuery))
	p.change("text", "env: [{name: GRÜẞE, value: \"<&>\"}]\n")
	p.change("user", "jane")
	p.run(chromedp.Click("#share", chromedp.ByQuery))
	var copied string
	p.run(chromedp.Poll(`document.body.dataset.copied`, &copied))
	_, fragment, found := strings.Cut(copied, "#")
	if !found || len(fragment) < 50 {
		t.Fatalf("copied %q", copied)
	}
	again := open(t, "#"+fragment, 1280, 860)
	again.run(chromedp.Click("#tab-policy", chromedp.ByQuery))
	text, user := eval[string](again, `document.getElementById("text").value`), eval[string](again, `document.getElementById("user").value`)
	if !strings.Contains(text, "GRÜẞE") || user != "jane" || again.text("verdict") != p.text("verdict") {
		t.Errorf("the address brings %q, user %q, %q instead of %q", text, user, again.text("verdict"), p.text("verdict"))
	}
}
