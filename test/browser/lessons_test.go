package browser

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestLessons: each lesson that needs no cluster can be done in the page: it opens with its text and files, its check says
// what is missing, and with the solution that it is done.
func TestLessons(t *testing.T) {
	p := open(t, "", 1280, 860)
	names := eval[[]string](p, `[...document.querySelectorAll("#lesson option")].map((o) => o.value).filter((v) => v)`)
	if len(names) < 10 {
		t.Fatalf("only the lessons %v", names)
	}
	for _, name := range names {
		folder := filepath.Join(root, "usherctl/learn/lessons", name)
		if text, err := os.ReadFile(filepath.Join(folder, "lesson.yaml")); err != nil || strings.Contains(string(text), "\nneeds:") {
			continue
		}
		p.change("lesson", name)
		if title := eval[string](p, `document.querySelector("#lesson-box h3").textContent`); title == "" || p.text("tabs") == "" {
			t.Errorf("%s: title %q, files %q", name, title, p.text("tabs"))
		}
		if said := p.check(); !strings.HasPrefix(said, "Not yet: ") {
			t.Errorf("%s: the start state: %s", name, said)
		}
		p.solve(filepath.Join(folder, "solution"))
		if said := p.check(); !strings.HasPrefix(said, "Done.") {
			t.Errorf("%s: the solution: %s", name, said)
		}
	}
}

// check clicks on Check, and returns what the page says.
func (p *tab) check() (said string) {
	p.Helper()
	p.run(chromedp.Evaluate(`document.getElementById("lesson-said").textContent = ""; document.getElementById("check").click()`, nil),
		chromedp.Poll(`document.getElementById("lesson-said").textContent`, &said))
	return said
}

// solve types the files of a folder into the tabs of their names.
func (p *tab) solve(folder string) {
	p.Helper()
	err := filepath.WalkDir(folder, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		p.run(chromedp.Evaluate(fmt.Sprintf(`document.getElementById("tab-" + %q).click()`, filepath.ToSlash(name)), nil))
		p.write(string(text))
		return nil
	})
	if err != nil {
		p.Fatal(err)
	}
}

// write replaces the text of the open tab, and waits for the answer.
func (p *tab) write(text string) {
	p.Helper()
	before := p.answers()
	quoted, err := json.Marshal(text)
	if err != nil {
		p.Fatal(err)
	}
	p.run(chromedp.Evaluate(fmt.Sprintf(`(() => { const e = document.getElementById("text"); e.value = %s; e.dispatchEvent(new Event("input")); })()`, quoted), nil))
	p.answered(before)
}
