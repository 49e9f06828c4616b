package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// TestLooks: in light and dark, on a large screen and on a small one, nothing is wider than the screen, and axe-core
// finds nothing serious. USHER_SCREENSHOTS=DIR keeps the pictures.
func TestLooks(t *testing.T) {
	axe := axeCore(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 400} {
			t.Run(fmt.Sprintf("%s %d", scheme, width), func(t *testing.T) {
				p := open(t, "", width, 860)
				p.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
				for _, example := range []string{"mutate-pods/environment", "validate-pods/image-rules"} {
					p.choose(example)
					p.run(chromedp.Evaluate(`document.querySelectorAll("#chain button")[1]?.click()`, nil))
					if scroll := eval[int64](p, `document.documentElement.scrollWidth`); scroll > width {
						t.Errorf("%s: the page is %d pixels wide", example, scroll)
					}
					p.accessible(axe)
				}
				var picture, lesson []byte
				p.change("lesson", "01-first-webhook")
				p.accessible(axe)
				if scroll := eval[int64](p, `document.documentElement.scrollWidth`); scroll > width {
					t.Errorf("a lesson: the page is %d pixels wide", scroll)
				}
				p.run(chromedp.FullScreenshot(&lesson, 100))
				p.choose("mutate-pods/lifespan-three")
				p.run(chromedp.Evaluate(`document.querySelectorAll("#chain button")[2].click()`, nil), chromedp.FullScreenshot(&picture, 100))
				if _, err := png.Decode(bytes.NewReader(picture)); err != nil {
					t.Error(err)
				}
				if dir := os.Getenv("USHER_SCREENSHOTS"); dir != "" {
					for name, content := range map[string][]byte{"playground": picture, "lesson": lesson} {
						if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, scheme, width)), content, 0o644); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
}

// accessible reports what axe-core finds serious or critical.
func (p *tab) accessible(axe string) {
	p.Helper()
	p.run(chromedp.Evaluate(axe, nil))
	var raw string
	p.run(chromedp.Evaluate(`(async () => JSON.stringify((await axe.run()).violations.filter((v) => ["serious", "critical"].includes(v.impact))
		.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.map((n) => n.html)}))))()`, &raw, chromedp.EvalAsValue, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	var found []any
	if err := json.Unmarshal([]byte(raw), &found); err != nil || len(found) > 0 {
		p.Errorf("axe-core: %v %s", err, raw)
	}
}

// axeVersion is the version of the package axe-core of the npm registry.
const axeVersion = "4.14.1"

// axeCore returns the script of axe-core, which `make browser` fetches from the npm registry once.
func axeCore(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "usher-browser")
	file := filepath.Join(dir, "axe-"+axeVersion+".min.js")
	if text, err := os.ReadFile(file); err == nil {
		return string(text)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fetch := fmt.Sprintf("{ npm pack --silent axe-core@%s || npm pack --silent axe-core@4; } && "+ // registries drop versions
		"tar xzf axe-core-*.tgz package/axe.min.js && mv package/axe.min.js '%s'", axeVersion, file)
	command := exec.Command("sh", "-ec", fetch)
	command.Dir = t.TempDir()
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("axe-core cannot be had from the npm registry: %v\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPictures draws the pictures of the README, if USHER_PICTURES names the folder for them: a pod, at the step that
// changes it most.
func TestPictures(t *testing.T) {
	dir := os.Getenv("USHER_PICTURES")
	if dir == "" {
		t.Skip("`make pictures` draws them")
	}
	for _, scheme := range []string{"light", "dark"} {
		p := open(t, "", 1280, 720)
		p.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
		p.change("text", picturePod)
		p.step("lifespan")
		if seen, all := p.inSight(); seen != all || all == 0 {
			t.Errorf("%s: the picture shows %d of %d changed lines", scheme, seen, all)
		}
		var picture []byte
		p.run(chromedp.Sleep(300*time.Millisecond), chromedp.CaptureScreenshot(&picture))
		if err := os.WriteFile(filepath.Join(dir, "playground-"+scheme+".png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
