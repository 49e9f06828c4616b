package promises

import (
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/test/harness"
)

// TestDocsTellTheTruth: every make target, metric and file named in the docs exists. usherctl/promises looks up commands and their flags.
func TestDocsTellTheTruth(t *testing.T) {
	source, makefile := harness.Source(t, "usherctl"), harness.ReadFile(t, "Makefile")
	for file, text := range harness.Pages(t) {
		for _, m := range regexp.MustCompile(`\b(usher_[a-z_]+)\b`).FindAllStringSubmatch(text, -1) {
			if !strings.Contains(source, `"`+m[1]+`"`) {
				t.Errorf("%s names the metric %s, which does not exist", file, m[1])
			}
		}
		for _, m := range regexp.MustCompile("(?m)(?:`|^    |^)make ([a-z0-9]+)").FindAllStringSubmatch(text, -1) {
			if !regexp.MustCompile(`(?m)^` + m[1] + `:.*## `).MatchString(makefile) {
				t.Errorf("%s names the make target %s, which does not exist", file, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(harness.WithoutCode(text), -1) { // Go's T[K](v) is no link
			if !harness.Exists(filepath.Join(filepath.Dir(file), m[1])) {
				t.Errorf("%s links %s, which does not exist", file, m[1])
			}
		}
	}
}

// TestLinksNameHeadings: a link to a part of a page names one of its headings, or an anchor in it.
func TestLinksNameHeadings(t *testing.T) {
	pages := harness.Pages(t)
	anchor := regexp.MustCompile(`<a id="([^"]+)">`)
	for file, text := range pages {
		for _, m := range regexp.MustCompile(`\]\(([^)#:]*)#([^)]+)\)`).FindAllStringSubmatch(harness.WithoutCode(text), -1) {
			target := file
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(file), m[1])
			}
			names := harness.Anchors(pages[target])
			for _, a := range anchor.FindAllStringSubmatch(pages[target], -1) {
				names = append(names, a[1])
			}
			if !slices.Contains(names, m[2]) {
				t.Errorf("%s: %s has no heading for #%s", file, target, m[2])
			}
		}
	}
}

// The words, by wc -w, that the README and the pages in docs may have. A page that needs more says less elsewhere.
const mostWords, mostWordsOfReadme = 44070, 800

// generated are the pages in docs that `make golden` writes.
var generated = []string{"docs/command-line.md", "docs/policy.md"}

// TestDocsAreShort: the pages in docs can be read, and those for operators in haste.
func TestDocsAreShort(t *testing.T) {
	total := 0
	for file, text := range harness.Pages(t) {
		words := len(strings.Fields(text))
		if strings.HasPrefix(file, "docs/") && !slices.Contains(generated, file) {
			total += words
		}
		if slices.Contains([]string{"docs/certificates.md", "docs/limits.md", "docs/monitoring.md", "docs/who-calls.md"}, file) && words > 1200 {
			t.Errorf("%s has %d words, more than 1200", file, words)
		}
	}
	if most := mostWords - room(70); total > most {
		t.Errorf("docs/ has %d words, more than %d", total, most)
	}
}

// TestReadmeIsShort: the first page can be read at once.
func TestReadmeIsShort(t *testing.T) {
	if words := len(strings.Fields(harness.ReadFile(t, "README.md"))); words > mostWordsOfReadme {
		t.Errorf("README.md has %d words, more than %d: move details to a page in docs/ and link it", words, mostWordsOfReadme)
	}
}

// TestDocsNameRealViews: the methods of views that docs/writing-a-step.md names exist.
func TestDocsNameRealViews(t *testing.T) {
	views := map[string]reflect.Type{"pod": reflect.TypeFor[*admit.Pod](), "c": reflect.TypeFor[*admit.Container]()}
	text := harness.ReadFile(t, "docs/writing-a-step.md")
	for _, m := range regexp.MustCompile("`(pod|c)\\.([A-Z][A-Za-z]*)").FindAllStringSubmatch(text, -1) {
		if _, ok := views[m[1]].MethodByName(m[2]); !ok {
			t.Errorf("docs/writing-a-step.md names %s.%s, which does not exist", m[1], m[2])
		}
	}
}

// TestLifeOfAReviewNamesFiles: every file that the page sends its readers to exists.
func TestLifeOfAReviewNamesFiles(t *testing.T) {
	found := regexp.MustCompile("(?:`|@| )([a-z_]+/[a-z_/-]+\\.(?:go|json))").FindAllStringSubmatch(harness.ReadFile(t, "docs/life-of-a-review.md"), -1)
	if len(found) < 10 {
		t.Fatalf("only %d files were found", len(found))
	}
	for _, m := range found {
		if !harness.Exists(m[1]) {
			t.Errorf("docs/life-of-a-review.md names %s, which does not exist", m[1])
		}
	}
}

// TestLeastKubernetes: the docs say which Kubernetes has matchConditions, which both suites need and an API server of 1.27 drops.
func TestLeastKubernetes(t *testing.T) {
	page := harness.ReadFile(t, "deploy/README.md")
	for golden, row := range map[string]string{
		"test/testdata/webhooks.golden": "| core | 1.28 or newer |", "test/testdata/webhooks-colocation.golden": "| colocation | 1.28 or newer |",
	} {
		if got := strings.Contains(harness.ReadFile(t, golden), "matchConditions:"); !got || !strings.Contains(page, row) {
			t.Errorf("%s has matchConditions: %v; deploy/README.md must have the row %s", golden, got, row)
		}
	}
}

// TestTestedKubernetes: the docs and the Makefile name the versions of Kubernetes and etcd that the end-to-end tests build, and .ci/run
// builds only those of go.mod.
func TestTestedKubernetes(t *testing.T) {
	page, makefile := harness.ReadFile(t, "docs/policy.md"), harness.ReadFile(t, "Makefile")
	page = strings.Join(strings.Fields(page), " ")
	current, older := builtVersions(t, "go.mod"), builtVersions(t, "go-1.36.mod")
	for what, sentence := range map[string]string{
		"go.mod":      "against Kubernetes " + current[0] + " with etcd " + current[1] + ",",
		"go-1.36.mod": "`make e2e-older` against " + older[0] + " with etcd " + older[1] + ".",
	} {
		if !strings.Contains(page, sentence) {
			t.Errorf("docs/policy.md does not say %q, as test/e2e/%s has it", sentence, what)
		}
	}
	minor := func(version string) string { return version[:strings.LastIndex(version, ".")] }
	for _, line := range []string{"e2e: ## test against a real API server, of Kubernetes " + minor(current[0]) + ",",
		"e2e-older: ## the same with the programs of Kubernetes " + minor(older[0]) + " instead of " + minor(current[0]),
		"\nKUBERNETES ?= " + minor(older[0]) + "\n", "USHER_E2E_KUBERNETES=$(KUBERNETES) $(MAKE)"} {
		if !strings.Contains(makefile, line) {
			t.Errorf("the Makefile does not have %q", line)
		}
	}
	if text := harness.ReadFile(t, ".ci/run"); strings.Contains(text, "e2e-older") || strings.Contains(text, "USHER_E2E_KUBERNETES") {
		t.Error(".ci/run builds an older Kubernetes, too: the workflow does, in a job of its own")
	}
}

// builtVersions returns the versions of Kubernetes and etcd in a file of test/e2e.
func builtVersions(t *testing.T, file string) (all [2]string) {
	t.Helper()
	text := harness.ReadFile(t, "test/e2e/"+file)
	for i, module := range []string{"k8s.io/kubernetes", "go.etcd.io/etcd/server/v3"} {
		_, after, _ := strings.Cut(text, "\n\t"+module+" v")
		if all[i] = strings.Fields(after + " ?")[0]; strings.Count(all[i], ".") != 2 {
			t.Fatalf("test/e2e/%s: %s has the version %q", file, module, all[i])
		}
	}
	return all
}

// TestToleratedErrorsAreDocumented: docs/operations.md lists the reasons of usher_troubles_total, all of them and no others.
func TestToleratedErrorsAreDocumented(t *testing.T) {
	var used []string
	source := harness.Source(t)
	for _, m := range regexp.MustCompile(`(?:\.Tolerate\(|\breason :?= )"([^"]*)"`).FindAllStringSubmatch(source, -1) {
		used = append(used, m[1])
	}
	for _, m := range regexp.MustCompile(`\.Tolerate\(([^",]+),`).FindAllStringSubmatch(source, -1) {
		if m[1] != "reason" {
			t.Errorf("Tolerate(%s, ...): a reason is a literal, or a variable named reason, so that this test finds it", m[1])
		}
	}
	_, page, _ := strings.Cut(harness.ReadFile(t, "docs/operations.md"), "The reasons of `usher_troubles_total`")
	table, _, _ := strings.Cut(page, "Alert on these metrics")
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]*)` \\|").FindAllStringSubmatch(table, -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(used)
	slices.Sort(listed)
	if used = slices.Compact(used); len(used) < 5 || !slices.Equal(used, listed) {
		t.Errorf("docs/operations.md lists the reasons %q, the code uses %q", listed, used)
	}
}

// TestArchitectureNamesPackages: docs/architecture.md says what each package is for.
func TestArchitectureNamesPackages(t *testing.T) {
	page := harness.ReadFile(t, "docs/architecture.md") + harness.ReadFile(t, "README.md")
	for _, file := range harness.GoFiles(t, "usherctl") {
		room, _, _ := strings.Cut(filepath.ToSlash(file), "/")
		if !strings.HasSuffix(room, ".go") && !strings.Contains(page, "`"+room+"/`") && !strings.Contains(page, "    "+room+"/") {
			t.Errorf("%s: neither README.md nor docs/architecture.md says what `%s/` is for", file, room)
		}
	}
}

// TestCodeSpansAreClosed: in every page, the backticks of a paragraph come in pairs, and a heading follows an empty line: a
// paragraph that was broken by mistake has neither.
func TestCodeSpansAreClosed(t *testing.T) {
	fence := regexp.MustCompile("(?ms)^ *```.*?^ *```")
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "*/README.md", "usherctl/learn/lessons/*/lesson.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: no pages: %v", pattern, err)
		}
		for _, page := range pages {
			for paragraph := range strings.SplitSeq(fence.ReplaceAllString(harness.ReadFile(t, page), ""), "\n\n") {
				if strings.HasPrefix(paragraph, "    ") {
					continue
				}
				if strings.Count(paragraph, "`")%2 != 0 || strings.Contains(paragraph, " \n#") || strings.Contains(paragraph, ".\n## ") {
					t.Errorf("%s: broken paragraph:\n%s", page, paragraph)
				}
			}
		}
	}
}
