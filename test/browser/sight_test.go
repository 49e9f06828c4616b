package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// picturePod is the pod of the README's pictures.
const picturePod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: apps\n  labels:\n    acme.com/lifespan-requested: \"13\"\nspec:\n  containers:\n" +
	"  - name: web\n    image: registry.example/web:1.4\n    env:\n    - name: PORT\n      value: \"8080\"\n"

// inSight returns how many lines are marked as changed, and how many of them can be seen: inside the box of the object
// and inside the window.
func (p *tab) inSight() (seen, all int) {
	p.Helper()
	counts := eval[[]int](p, `(() => {
		const box = document.getElementById("document").getBoundingClientRect(), marked = [...document.querySelectorAll("#document .added, #document .removed")];
		const seen = marked.map((e) => e.getBoundingClientRect()).filter((r) => r.height > 0 && r.top >= box.top - 1 && r.bottom <= Math.min(box.bottom, innerHeight) + 1);
		return [seen.length, marked.length]; })()`)
	return counts[0], counts[1]
}

// TestChangedLinesAreInSight: at each step the changed lines can be seen, also while the patch is shown; in a large
// object the first of them.
func TestChangedLinesAreInSight(t *testing.T) {
	p := open(t, "", 1280, 720)
	p.change("path", "core")
	p.change("text", picturePod)
	for _, step := range []string{"environment", "lifespan"} {
		p.step(step)
		if seen, all := p.inSight(); seen != all || all == 0 {
			t.Errorf("%s: %d of %d changed lines are in sight", step, seen, all)
		}
		p.run(chromedp.Evaluate(`document.getElementById("patch-box").open = true`, nil))
		p.settle()
		if seen, _ := p.inSight(); seen == 0 {
			t.Errorf("%s: no changed line is in sight beside the patch", step)
		}
		p.run(chromedp.Evaluate(`document.getElementById("patch-box").open = false`, nil))
	}
	p.choose("mutate-pods/production-pod")
	for _, step := range eval[[]string](p, `[...document.querySelectorAll("#chain .changed button")].map((b) => b.textContent)`) {
		p.step(step)
		if seen, _ := p.inSight(); seen == 0 {
			t.Errorf("%s of a large pod: no changed line is in sight", step)
		}
	}
}

// step clicks on the chip of a step.
func (p *tab) step(name string) {
	p.Helper()
	p.run(chromedp.Evaluate(`[...document.querySelectorAll("#chain button")].find((b) => b.textContent === "`+name+`").click()`, nil))
	p.settle()
}

// settle waits until the page is drawn.
func (p *tab) settle() {
	p.Helper()
	p.run(chromedp.Evaluate(`delete document.body.dataset.drawn; requestAnimationFrame(() => requestAnimationFrame(() => { document.body.dataset.drawn = "true"; }))`, nil),
		chromedp.Poll(`document.body.dataset.drawn`, nil))
}

// TestFirstScreen: a pod that is changed, with its keys in the order in which they were typed; only the steps that act are shown, and no gates.
func TestFirstScreen(t *testing.T) {
	p := open(t, "", 1280, 720)
	if verdict := p.text("verdict"); !strings.HasPrefix(verdict, "allowed: CREATE Pod apps/web") {
		t.Errorf("shows %q", verdict)
	}
	if chips := eval[[]string](p, `[...document.querySelectorAll("#chain button")].map((b) => b.textContent)`); strings.Join(chips, " ") != "sent environment lifespan stored" {
		t.Errorf("shows the steps %q", chips)
	}
	if removed := eval[int](p, `document.querySelectorAll("#document .removed").length`); removed != 0 || eval[int](p, `document.querySelectorAll("#document .added").length`) == 0 {
		t.Errorf("%d lines seem to be removed", removed)
	}
	if eval[bool](p, `document.getElementById("gates").checkVisibility()`) {
		t.Error("the feature gates are on the first screen")
	}
	if cut := eval[string](p, `(() => { const t = document.getElementById("text"); return t.scrollWidth + " of " + t.clientWidth + ", " + t.scrollHeight + " of " + t.clientHeight; })()`); !eval[bool](p,
		`(() => { const t = document.getElementById("text"); return t.scrollWidth <= t.clientWidth && t.scrollHeight <= t.clientHeight; })()`) {
		t.Errorf("the editor cuts the pod: %s", cut)
	}
	p.choose("validate-pods/denied-names")
	if !eval[bool](p, `(() => { const mark = document.querySelector("#numbers .marked")?.getBoundingClientRect(), box = document.getElementById("numbers").getBoundingClientRect();
		return !!mark && mark.top >= box.top && mark.bottom <= box.bottom; })()`) {
		t.Error("the marked line is not in sight")
	}
}

// TestReload: a reload keeps the text, the step and the lesson with its files.
func TestReload(t *testing.T) {
	p := open(t, "", 1280, 720)
	p.change("path", "core")
	p.change("text", picturePod)
	p.step("lifespan")
	p.reload()
	text, step := eval[string](p, `document.getElementById("text").value`), eval[string](p, `document.querySelector("#chain [aria-current=step]")?.textContent || ""`)
	if text != picturePod || step != "lifespan" {
		t.Errorf("after a reload the step is %q, and the text\n%s", step, text)
	}
	p.change("lesson", "01-first-webhook")
	p.write("# mine\n")
	p.reload()
	lesson, text := eval[string](p, `document.getElementById("lesson").value`), eval[string](p, `document.getElementById("text").value`)
	if lesson != "01-first-webhook" || text != "# mine\n" {
		t.Errorf("after a reload the lesson is %q, and the text %q", lesson, text)
	}
}

func (p *tab) reload() {
	p.Helper()
	p.run(chromedp.Reload(), chromedp.WaitVisible(`body[data-ready=true]`, chromedp.ByQuery))
	p.answered(0)
}
