package promises

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/routes"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/test/harness"
)

// TestGoldens replays every sample through the real mux, under the policy that the sample is for, and compares the outcome with its golden. Then it posts the
// result again: a chain that runs on its own result must not return a patch.
func TestGoldens(t *testing.T) {
	worlds := harness.NewInstances(routes.Suites())
	for _, name := range harness.Samples(t) {
		t.Run(name, func(t *testing.T) {
			mux, body := harness.DefaultServer().Serve(worlds.Of(t, name).Routes()), harness.ReadSample(t, name)
			w := harness.Post(mux, name, body)
			got, after := harness.Describe(t, body, w)
			harness.CompareGolden(t, harness.SampleFile(name)+".golden", got)
			if after == nil {
				return
			}
			again := harness.Post(mux, name, harness.WithObject(t, body, after))
			var review admissionv1.AdmissionReview
			if err := json.Unmarshal(again.Body.Bytes(), &review); err != nil || review.Response == nil || !review.Response.Allowed {
				t.Fatalf("posted again: %d %s", again.Code, again.Body)
			}
			if len(review.Response.Patch) > 0 {
				t.Errorf("posted again, it is patched again: %s", review.Response.Patch)
			}
		})
	}
}

// TestGoldenShelf: the shelf has at most 45 samples in reading order, the core suite's first, and samples/README.md has
// a line for each.
func TestGoldenShelf(t *testing.T) {
	const file = "samples/README.md"
	text := harness.ReadFile(t, file)
	row := regexp.MustCompile(`(?m)^\| \[(\S+)\]\(\S+\) \| (.+?) \|.*$`)
	var listed []string
	text = row.ReplaceAllStringFunc(text, func(line string) string {
		name, shows := row.FindStringSubmatch(line)[1], row.FindStringSubmatch(line)[2]
		listed = append(listed, name)
		return fmt.Sprintf("| [%s](reviews/%[1]s.json) | %s | %s |", name, shows, answerInShort(harness.ReadFile(t, filepath.Join(harness.SampleDirs[0], name+".golden"))))
	})
	harness.CompareGolden(t, file, text)
	files, _ := filepath.Glob(filepath.Join(harness.SampleDirs[0], "*", "*.json"))
	for _, f := range files {
		if name, _ := filepath.Rel(harness.SampleDirs[0], strings.TrimSuffix(f, ".json")); !slices.Contains(listed, filepath.ToSlash(name)) {
			t.Errorf("%s has no line in %s; put what few people will read into %s", f, file, harness.SampleDirs[1])
		}
	}
	if len(listed) > 45 || len(listed) < 20 {
		t.Errorf("%s lists %d samples, want 20 to 45", file, len(listed))
	}
	if !slices.IsSortedFunc(listed, func(a, b string) int { return cmp.Compare(routeOrder(t, a), routeOrder(t, b)) }) {
		t.Errorf("%s is not in the order of the suites", file)
	}
}

// routeOrder returns 0 for samples of the first suite, 1 for others.
func routeOrder(t *testing.T, sample string) int {
	t.Helper()
	for _, r := range defaultWorld(t).Routes() {
		if r.Path == "/"+harness.Route(sample) && r.Suite == core() {
			return 0
		}
	}
	return 1
}

// answerInShort returns the answer in a golden in a few words.
func answerInShort(golden string) string {
	lines := strings.Split(golden, "\n")
	say := func(prefix string) string {
		for _, line := range lines {
			if text, ok := strings.CutPrefix(line, prefix); ok {
				return strings.ReplaceAll(text, ",", ", ")
			}
		}
		return ""
	}
	switch changed, denied := say("audit: changed: "), say("audit: denied-by: "); {
	case lines[0] != "HTTP 200":
		return lines[0]
	case denied != "":
		return "denied by " + denied
	case changed != "":
		return "changed by " + changed
	}
	return "allowed"
}

// TestGoldenStepTables: every step has a row in a table, of docs/README.md or, for the colocation suite, of
// colocation/README.md. `make golden` adds missing rows, from the step's doc, after the rows of its suite. A row that says what the doc
// said before, by the golden of `usherctl steps`, follows it; others are left alone.
func TestGoldenStepTables(t *testing.T) {
	for _, s := range routes.Suites() {
		file, before := stepTable(s.Name), docsBefore(t, s.Name)
		lines := strings.Split(harness.ReadFile(t, file), "\n")
		last := slices.Index(lines, "| path | step | what it does |") + 1
		for _, r := range defaultWorld(t).Routes() {
			if r.Suite == s.Name {
				lines, last = addRows(lines, last, r, before)
			}
		}
		harness.CompareGolden(t, file, strings.Join(lines, "\n"))
	}
}

// docsBefore returns the docs of a suite's steps by their names, as the golden of `usherctl steps` has them.
func docsBefore(t *testing.T, suite string) map[string]string {
	file, docs := "test/testdata/steps.golden", map[string]string{}
	if suite != core() {
		file = "test/testdata/steps-" + suite + ".golden"
	}
	for _, step := range regexp.MustCompile(`(?m)^  \d+\. (\S+) +(.*)$`).FindAllStringSubmatch(harness.ReadFile(t, file), -1) {
		docs[step[1]] = step[2]
	}
	return docs
}

// stepTable returns the page with the table of a suite's steps.
func stepTable(suite string) string {
	if suite == core() {
		return "docs/README.md"
	}
	return suite + "/README.md"
}

// addRows adds the rows of a route's steps that lines lack, puts the rows into the order of the steps, and rewrites those that say what the
// step's doc said before. last is the line of the row before the first; the line of the last row is returned.
func addRows(lines []string, last int, r admit.Route, before map[string]string) ([]string, int) {
	for _, s := range r.Chain.Steps() {
		row := fmt.Sprintf("| `%s` | `%s` |", r.Path, s.Name)
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, row) })
		if at < 0 {
			at = last + 1
			lines = slices.Insert(lines, at, row+" "+s.Doc+" |")
		}
		if lines[at] == row+" "+before[s.Name]+" |" {
			lines[at] = row + " " + s.Doc + " |"
		}
		last = max(last, at)
	}
	var places []int // of the rows, and the rows in the order of the steps
	var rows []string
	for _, s := range r.Chain.Steps() {
		row := fmt.Sprintf("| `%s` | `%s` |", r.Path, s.Name)
		places = append(places, slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, row) }))
		rows = append(rows, lines[places[len(places)-1]])
	}
	slices.Sort(places)
	for i, at := range places {
		lines[at] = rows[i]
	}
	return lines, last
}

// TestGoldenTable: the table of contents equals the copy in test/process, which cannot import this package.
func TestGoldenTable(t *testing.T) {
	for file, args := range map[string][]string{"webhooks": {"webhooks", "--ca-file", "test/testdata/ca.crt"},
		"webhooks-policy": {"webhooks", "--config", "samples/policy.yaml"}} {
		code, out, errors := usher(t, args...)
		if code != 0 {
			t.Fatal(errors)
		}
		harness.CompareGolden(t, filepath.Join("test", "testdata", file+".golden"), out)
	}
}

// defaultWorld returns what `make run` serves.
func defaultWorld(t testing.TB) suite.Instance {
	return harness.OpenInstance(t, routes.Suites(), harness.DemoGates(t, routes.Suites()), harness.DefaultPolicy(t, routes.Suites()))
}

// TestRowsOfSteps: a step without a row gets one, a row with the doc of before follows the doc, one that people wrote stays, and rows have
// the order of the steps.
func TestRowsOfSteps(t *testing.T) {
	var steps []admit.Mutator[admit.Pod]
	for _, name := range []string{"new", "follows", "written"} {
		steps = append(steps, admit.Mutator[admit.Pod]{Name: name, Doc: "doc of " + name, Run: func(context.Context, *admit.Request, *admit.Pod) error { return nil }})
	}
	r := admit.Route{Path: "/p", Chain: admit.Mutate(admit.AsPod, steps)}
	before := map[string]string{"follows": "what it did", "written": "what it did"}
	got, last := addRows([]string{"|---|", "| `/p` | `written` | by people |", "| `/p` | `follows` | what it did |", "end"}, 0, r, before)
	want := []string{"|---|", "| `/p` | `new` | doc of new |", "| `/p` | `follows` | doc of follows |", "| `/p` | `written` | by people |", "end"}
	if !slices.Equal(got, want) || last != 3 {
		t.Errorf("%q, last %d", got, last)
	}
}
