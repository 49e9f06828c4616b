package promises

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/colocation"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/command"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
	"usher.dev/usher/mutators"
	"usher.dev/usher/mutators/amplify"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/validators"
)

// docs returns all pages for human readers, by file name.
func docs(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "deploy/*.md", "deploy/*/*.md", "samples/*.md", "colocation/*.md", "test/e2e/*.md", ".github/*.md"} {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			pages[f] = harness.ReadFile(t, f)
		}
	}
	if len(pages) < 5 {
		t.Fatalf("only %d pages were found", len(pages))
	}
	return pages
}

// code matches code in a page: a fenced block, or a span.
var code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")

var kebab = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

// TestStepPromises: each step has a file and a name of one word, a line of doc, and a sample.
func (h House) TestStepPromises(t *testing.T) {
	seen := map[string]string{}
	for _, r := range h.defaultWorld(t).Routes() {
		dir, parent := "validators", ""
		if r.Suite == colocation.Name {
			parent = "colocation"
		}
		if r.Chain.Mutates() {
			dir = "mutators"
		}
		for _, s := range r.Chain.Steps() {
			file := filepath.Join(parent, dir, strings.ReplaceAll(s.Name, "-", "_")+".go")
			if below, _ := filepath.Glob(filepath.Join(parent, dir, "*", filepath.Base(file))); len(below) == 1 {
				file = below[0]
			}
			if source, err := os.ReadFile(file); err != nil || !strings.Contains(string(source), `"`+s.Name+`"`) {
				t.Errorf("step %s: %s does not hold it: one step, one file, one word", s.Name, file)
			}
			if doc, again := seen[s.Name]; !kebab.MatchString(s.Name) || again && doc != s.Doc {
				t.Errorf("step %q: names are in kebab-case, and each is that of one step", s.Name)
			}
			seen[s.Name] = s.Doc
			if s.Doc == "" || strings.Contains(s.Doc, "\n") || strings.HasSuffix(s.Doc, ".") {
				t.Errorf("step %s: Doc is one line without a full stop, not %q", s.Name, s.Doc)
			}
			if !hasSample(r.Path, s.Name) {
				t.Errorf("step %s has no sample %s%s/%s*.json whose golden names it as what changed or denied", s.Name, harness.SampleDirs[0], r.Path, s.Name)
			}
		}
	}
}

// TestStepRooms: the folders of steps contain steps, one per file, the list, and what the steps on pods or nodes share.
// A long step may have more files, named after it.
func (h House) TestStepRooms(t *testing.T) {
	var steps []string
	names, _ := h.Suites().Steps()
	for _, s := range names {
		steps = append(steps, strings.ReplaceAll(s, "-", "_"))
	}
	for _, dir := range []string{"mutators", "validators", "colocation/mutators", "colocation/validators"} {
		files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		if len(files) < 2 {
			t.Fatalf("%s has %v", dir, files)
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".go")
			isStep := slices.ContainsFunc(steps, func(step string) bool { return name == step || strings.HasPrefix(name, step+"_") })
			if !isStep && !slices.Contains([]string{filepath.Base(dir), "pods", "nodes"}, name) && !strings.HasSuffix(name, "_test") {
				t.Errorf("%s: is no step, nor the list, nor pods.go or nodes.go: put it into the package of what it knows", file)
			}
		}
	}
}

// hasSample reports whether a sample with a step's name shows the step at work.
func hasSample(path, step string) bool {
	var goldens []string
	for _, dir := range harness.SampleDirs {
		found, _ := filepath.Glob(filepath.Join(dir, path, step+"*.golden"))
		goldens = append(goldens, found...)
	}
	atWork := regexp.MustCompile(`(?m)^audit: (changed|denied-by): (.*,)?` + step + `(,|$)`)
	return slices.ContainsFunc(goldens, func(file string) bool {
		text, _ := os.ReadFile(file)
		return atWork.Match(text)
	})
}

// TestRoutePromises: every route meets the requirements of an API server, and is documented.
func (h House) TestRoutePromises(t *testing.T) {
	var folders []string
	for _, r := range h.defaultWorld(t).Routes() {
		folders = append(folders, strings.TrimPrefix(r.Path, "/"))
		prefix := "/validate-"
		if r.Chain.Mutates() {
			prefix = "/mutate-"
		}
		if !strings.HasPrefix(r.Path, prefix) || !strings.Contains(harness.ReadFile(t, h.stepTable(r.Suite)), "`"+r.Path+"`") {
			t.Errorf("%s: the path begins with %s and is in %s", r.Path, prefix, h.stepTable(r.Suite))
		}
		if r.Suite == "" || r.FailurePolicy == "" || r.Reinvocation == "" || r.TimeoutSeconds < 2 || r.TimeoutSeconds > 5 {
			t.Errorf("%s: it is of a suite, and how it is called is complete (admit.OfSuite), with 2 to 5 s: suite %q, %+v", r.Path, r.Suite, r.Call)
		}
		for _, m := range r.For {
			if len(m.Resources) == 0 || len(m.Operations) == 0 || m.Scope == "" {
				t.Errorf("%s: it is for some resources, operations and a scope: %+v", r.Path, m)
			}
			if r.Heartbeat() && len(m.Resources)+len(r.For) > 2 {
				t.Errorf("%s: it never refuses heartbeats, and so no %v either; give these a path of their own", r.Path, r.For)
			}
		}
	}
	for _, dir := range harness.SampleDirs {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if !slices.Contains(folders, e.Name()) {
				t.Errorf("%s/%s is the folder of no route", dir, e.Name())
			}
		}
		orphans, _ := filepath.Glob(filepath.Join(dir, "*", "*.golden"))
		for _, golden := range orphans {
			if !harness.Exists(strings.TrimSuffix(golden, ".golden") + ".json") {
				t.Errorf("%s has no sample", golden)
			}
		}
	}
}

// TestDocsTellTheTruth: every command, flag, make target, metric and file named in the docs exists.
func (h House) TestDocsTellTheTruth(t *testing.T) {
	source := allSource(t)
	makefile := harness.ReadFile(t, "Makefile")
	help := ""
	var commands []string
	for _, c := range (command.Program{Suites: h.Suites()}).Root().Commands() {
		commands = append(commands, c.Name())
		_, out, _ := h.usher(t, c.Name(), "--help")
		help += out
		for _, below := range c.Commands() {
			_, out, _ := h.usher(t, c.Name(), below.Name(), "--help")
			help += out
		}
	}
	checks := []struct {
		what   string
		find   *regexp.Regexp
		exists func(string) bool
	}{
		{"metric", regexp.MustCompile(`\b(usher_[a-z_]+)\b`), func(name string) bool {
			return strings.Contains(source, `"`+name+`"`)
		}},
		{"command", regexp.MustCompile("`(?:bin/)?usher ([a-z]+)"), func(name string) bool {
			return name == "help" || name == "completion" || slices.Contains(commands, name)
		}},
		{"make target", regexp.MustCompile("(?m)(?:`|^    |^)make ([a-z0-9]+)"), func(name string) bool {
			return regexp.MustCompile(`(?m)^` + name + `:.*## `).MatchString(makefile)
		}},
		{"link", regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`), nil}, // relative to its page
	}
	for file, text := range docs(t) {
		for _, c := range checks {
			exists, in := c.exists, text
			if exists == nil {
				in = code.ReplaceAllString(text, "") // Go's T[K](v) is no link
			}
			for _, m := range c.find.FindAllStringSubmatch(in, -1) {
				if exists == nil {
					exists = func(name string) bool { _, err := os.Stat(filepath.Join(filepath.Dir(file), name)); return err == nil }
				}
				if !exists(m[1]) {
					t.Errorf("%s names the %s %s, which does not exist", file, c.what, m[1])
				}
			}
		}
		for _, line := range regexp.MustCompile("`(?:bin/)?usher [^`]*`|(?m)^ *(?:bin/)?usher .*$").FindAllString(text, -1) {
			for _, f := range regexp.MustCompile(`--[a-z-]+`).FindAllString(line, -1) {
				if !strings.Contains(help, f+" ") && f != "--help" {
					t.Errorf("%s: %s: there is no flag %s", file, line, f)
				}
			}
		}
	}
}

// TestDocsNameRealViews: the methods of views that docs/writing-a-step.md names exist.
func (h House) TestDocsNameRealViews(t *testing.T) {
	views := map[string]reflect.Type{"pod": reflect.TypeFor[*admit.Pod](), "c": reflect.TypeFor[*admit.Container]()}
	text := harness.ReadFile(t, "docs/writing-a-step.md")
	for _, m := range regexp.MustCompile("`(pod|c)\\.([A-Z][A-Za-z]*)").FindAllStringSubmatch(text, -1) {
		if _, ok := views[m[1]].MethodByName(m[2]); !ok {
			t.Errorf("docs/writing-a-step.md names %s.%s, which does not exist", m[1], m[2])
		}
	}
}

// TestReadmeIsShort: the first page can be read at once.
func (h House) TestReadmeIsShort(t *testing.T) {
	if lines := strings.Count(harness.ReadFile(t, "README.md"), "\n"); lines > 150 {
		t.Errorf("README.md has %d lines, more than 150: move details to a page in docs/ and link it", lines)
	}
}

// TestLifeOfAReviewNamesFiles: every file that the page sends its readers to exists.
func (h House) TestLifeOfAReviewNamesFiles(t *testing.T) {
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

// TestLeastKubernetes: the docs say which suite needs matchConditions, which an API server of 1.27 drops.
func (h House) TestLeastKubernetes(t *testing.T) {
	page := harness.ReadFile(t, "deploy/README.md")
	for _, c := range []struct {
		golden, row string
		conditions  bool
	}{
		{"test/testdata/webhooks.golden", "| core | 1.27 or newer |", false},
		{"test/testdata/webhooks-colocation.golden", "| colocation | 1.28 or newer |", true},
	} {
		if got := strings.Contains(harness.ReadFile(t, c.golden), "matchConditions:"); got != c.conditions || !strings.Contains(page, c.row) {
			t.Errorf("%s has matchConditions: %v; deploy/README.md must have the row %s", c.golden, got, c.row)
		}
	}
}

// TestToleratedErrorsAreDocumented: docs/operations.md lists the reasons of usher_troubles_total, all of them and no others.
func (h House) TestToleratedErrorsAreDocumented(t *testing.T) {
	var used []string
	source := allSource(t)
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

// allSource returns the Go source without tests.
func allSource(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, f := range goFiles(t) {
		if !strings.HasSuffix(f, "_test.go") && !strings.HasPrefix(f, "test/") {
			b.WriteString(harness.ReadFile(t, f))
		}
	}
	return b.String()
}

func goFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || isModule(path)) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 20 {
		t.Fatalf("%d Go files: %v", len(files), err)
	}
	return files
}

// isModule reports whether a folder is a Go module of its own.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// floors are the rules of the house: what a folder of the product may import of usher, with everything below it. Its own
// folders are always allowed. The first row that matches a package counts.
var floors = []struct {
	room string
	may  []string
}{
	{"internal", nil},
	{"samples", nil},
	{"admit", []string{"internal"}},
	{"config", []string{"admit", "internal"}},
	{"mutators", []string{"config", "admit", "internal"}},
	{"validators", []string{"mutators", "config", "admit", "internal"}},
	{"handlers", []string{"admit", "internal"}},
	{"cluster", []string{"admit", "internal"}},
	{"certs", []string{"internal"}},
	{"server", []string{"handlers", "cluster", "certs", "config", "admit", "internal"}},
	{"command", []string{"server", "handlers", "cluster", "certs", "config", "admit", "samples", "internal"}},
	{"colocation", []string{"server/suite", "mutators", "handlers", "cluster", "config", "admit", "internal"}},
	{".", []string{"colocation", "command", "server", "validators", "mutators", "handlers", "cluster", "config", "admit"}},
}

// foreign are the packages of others that steps, and what they stand on, must not import.
var foreign = []string{"net/http", "k8s.io/client-go"}

// TestImportsRunOneWay: only routes.go imports the colocation suite, and the folders import each other in one direction
// only. Steps know neither HTTP nor a client.
func (h House) TestImportsRunOneWay(t *testing.T) {
	below := func(dir string, rooms ...string) bool {
		return slices.ContainsFunc(rooms, func(room string) bool { return dir == room || strings.HasPrefix(dir, room+"/") })
	}
	for _, file := range goFiles(t) {
		dir := filepath.ToSlash(filepath.Dir(file))
		if strings.HasSuffix(file, "_test.go") || below(dir, "test") || strings.HasSuffix(dir, "test") {
			continue
		}
		floor := slices.IndexFunc(floors, func(f struct {
			room string
			may  []string
		}) bool {
			return below(dir, f.room)
		})
		if floor < 0 {
			t.Errorf("%s: its folder has no row in this test: say what it may import", file)
			continue
		}
		for _, path := range importsOf(t, file) {
			ours, isOurs := strings.CutPrefix(path, "usher.dev/usher/")
			if isOurs && !below(ours, append(floors[floor].may, floors[floor].room)...) || below(ours, "colocation") && dir == "." && file != "routes.go" {
				t.Errorf("%s imports %s: imports run one way, see docs/architecture.md", file, path)
			}
			if below(dir, "mutators", "validators", "colocation/mutators", "colocation/validators", "admit") && below(path, foreign...) ||
				below(dir, "handlers") && below(path, "k8s.io/client-go") {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}

// TestArchitectureNamesPackages: docs/architecture.md says what each package is for.
func (h House) TestArchitectureNamesPackages(t *testing.T) {
	page := harness.ReadFile(t, "docs/architecture.md") + harness.ReadFile(t, "README.md")
	for _, file := range goFiles(t) {
		room, _, _ := strings.Cut(filepath.ToSlash(file), "/")
		if !strings.HasSuffix(room, ".go") && !strings.Contains(page, "`"+room+"/`") && !strings.Contains(page, "    "+room+"/") {
			t.Errorf("%s: neither README.md nor docs/architecture.md says what `%s/` is for", file, room)
		}
	}
}

// importsOf returns the import paths of a Go file.
func importsOf(t *testing.T, file string) (paths []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range parsed.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

// TestSamplePolicyIsComplete: the documented example has every field of the schema, and is accepted.
func (h House) TestSamplePolicyIsComplete(t *testing.T) {
	text := harness.ReadFile(t, "samples/policy.yaml")
	if _, problems := config.Parse([]byte(text), h.Suites().Schema()); len(problems) > 0 {
		t.Error(problems)
	}
	var fields []string
	for _, name := range h.Suites().Schema().Names() {
		fields = append(append(fields, name), jsonFields(h.Suites().Schema().Type(name))...)
	}
	for _, field := range fields {
		if !regexp.MustCompile(`(?m)^[\s{-]*[^#\n]*\b` + field + `:`).MatchString(text) {
			t.Errorf("samples/policy.yaml does not show the field %s", field)
		}
	}
}

// jsonFields lists the JSON names of a type's fields, through all types of ours.
func jsonFields(t reflect.Type) (names []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return jsonFields(t.Elem())
	case reflect.Struct:
		if strings.HasPrefix(t.PkgPath(), "k8s.io/") {
			return nil
		}
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if name == "" {
				continue
			}
			names = append(names, name)
			names = append(names, jsonFields(t.Field(i).Type)...)
		}
	}
	return names
}

// TestDeployedPolicy: the base's policy is accepted, has every section, and leaves capacity alone.
func (h House) TestDeployedPolicy(t *testing.T) {
	policy, problems := config.Parse([]byte(harness.ReadFile(t, "deploy/base/policy.yaml")), h.Suites().Schema())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if config.SectionOf[*validators.Names](policy) == nil || config.SectionOf[*mutators.Lifespan](policy) == nil ||
		len(config.SectionOf[mutators.Env](policy)) == 0 || config.SectionOf[*amplify.Overcommit](policy).Pools[0].Capacity != amplify.Keep {
		t.Errorf("%+v", policy)
	}
}

// TestDeployedArgs: the binary knows every flag of the Deployment.
func (h House) TestDeployedArgs(t *testing.T) {
	var args []string
	for _, m := range regexp.MustCompile(`(?m)^\s+- (--[a-z-]+=\S+)`).FindAllStringSubmatch(harness.ReadFile(t, "deploy/base/deployment.yaml"), -1) {
		args = append(args, m[1])
	}
	if len(args) < 4 {
		t.Fatalf("only %v was found", args)
	}
	c, _, err := command.Program{Suites: h.Suites()}.Root().Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ParseFlags(args); err != nil {
		t.Errorf("%v: %v", args, err)
	}
	for name, set := range map[string]bool{"cert-dir": false, "config": true, "plain": false} {
		if c.Flags().Changed(name) != set {
			t.Errorf("--%s: %v", name, !set)
		}
	}
}

// TestNoKeysInGit: a private key in a repository ends up in a cluster.
func (h House) TestNoKeysInGit(t *testing.T) {
	out, err := exec.Command("git", "grep", "-lE", "^[^`\"]*-----BEGIN [A-Z ]*PRIVATE KEY-----").Output()
	if err != nil && len(out) == 0 {
		return // nothing found, or no checkout
	}
	t.Errorf("private keys in %s", out)
}

// FuzzHeartbeat: whatever stands in a node, its status update passes.
func (h House) FuzzHeartbeat(f *testing.F) {
	for _, name := range []string{"overcommit-echo", "overcommit-memory-damaged", "malformed-heartbeat"} {
		raw, err := os.ReadFile(harness.SampleFile("mutate-nodes/"+name) + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"UPDATE","subResource":"status","kind":{"group":"","version":"v1","kind":"Node"},"userInfo":{"username":"system:node:n"},` +
		`"object":{"metadata":{"name":"n","annotations":{"usher.dev/amplified":"{\"cpu\":{\"raw\":{\"allocatable\":\"1\"},\"result\":{\"allocatable\":\"2\"},\"ratio\":\"2\"}}"}},"status":{"allocatable":{"cpu":"1e9"},"capacity":{"cpu":-0.0}}}}}`))
	all := h.defaultWorld(f).Routes()
	nodes := all[slices.IndexFunc(all, func(r admit.Route) bool { return r.Heartbeat() })]
	f.Fuzz(func(t *testing.T, body []byte) {
		d := handlers.Decide(t.Context(), nodes, body, nil)
		if d.Outcome != handlers.Allowed && d.Outcome != handlers.Mutated && d.Outcome != handlers.Invalid || d.Stack != nil {
			t.Fatalf("%s: %v\n%s", d.Outcome, d.Err, d.Stack)
		}
	})
}

// TestClusterRolesAreTheOnesPrinted: the shipped rights are exactly the rights that the gates of the same overlay need.
// The registered routes have the same gates as the served ones.
func (h House) TestClusterRolesAreTheOnesPrinted(t *testing.T) {
	gates := regexp.MustCompile(`--feature-gates=(\S+)`)
	for folder, clusterRole := range map[string]string{"koordinator": "deploy/components/watching/clusterrole.yaml",
		"koordinator-demo": "deploy/overlays/koordinator-demo/clusterrole.yaml"} {
		args := []string{"webhooks", "--rbac"}
		set := gates.FindAllString(harness.ReadFile(t, "deploy/overlays/"+folder+"/kustomization.yaml"), -1)
		if len(set) > 0 {
			args = append(args, set[0])
		}
		if len(set) != 0 && (len(set) != 2 || set[0] != set[1]) {
			t.Errorf("deploy/overlays/%s: the Deployment and the Job need the same --feature-gates: %q", folder, set)
		}
		code, out, errs := h.usher(t, args...)
		if code != 0 {
			t.Fatal(errs)
		}
		if harness.ReadFile(t, clusterRole) != out {
			t.Errorf("%s is not what bin/usher %s prints", clusterRole, strings.Join(args, " "))
		}
	}
	if text := strings.TrimSpace(harness.ReadFile(t, "samples/feature-gates")); !strings.Contains(harness.ReadFile(t, "deploy/overlays/koordinator-demo/kustomization.yaml"), text) {
		t.Error("the demo overlay's gates are not those of samples/feature-gates")
	}
}

// TestComponentHasThePrintedRights: components/certs-managed gives the rights that usher prints for --certs=managed.
func (h House) TestComponentHasThePrintedRights(t *testing.T) {
	code, out, errs := h.usher(t, "webhooks", "--rbac", "--certs=managed")
	if code != 0 {
		t.Fatal(errs)
	}
	var shipped []string
	for _, name := range []string{"role", "rolebinding", "clusterrole", "clusterrolebinding"} {
		shipped = append(shipped, harness.ReadFile(t, "deploy/components/certs-managed/"+name+".yaml"))
	}
	if got, want := rights(t, strings.Join(shipped, "\n---\n")), rights(t, out); !slices.Equal(got, want) {
		t.Errorf("deploy/components/certs-managed has\n%s\nusher webhooks --rbac --certs=managed prints\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// rights returns a line for each object of a text: its kind, name and content, with verbs in order.
func rights(t *testing.T, text string) (lines []string) {
	t.Helper()
	objects, problems := manifest.Read("rights", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, o := range objects {
		var r struct {
			Metadata struct{ Name string }
			Rules    []rbacv1.PolicyRule
			RoleRef  rbacv1.RoleRef
			Subjects []rbacv1.Subject
		}
		if err := json.Unmarshal(o.JSON, &r); err != nil {
			t.Fatal(err)
		}
		for _, rule := range r.Rules {
			slices.Sort(rule.Verbs)
		}
		lines = append(lines, fmt.Sprintf("%s %+v", o.Kind, r))
	}
	return lines
}

func (h House) TestGates(t *testing.T) {
	open, err := h.Suites().ParseGates("BindingAdmissionWebhook=true,PodMutatingWebhook=false")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[gate.Name]bool{
		"": true, "BindingAdmissionWebhook": true, "!BindingAdmissionWebhook": false, "PodMutatingWebhook": false,
		"!PodMutatingWebhook": true, "PodValidatingWebhook": true, "ReservationFit": false, "!DisableDeviceResourceSpec": true,
	} {
		if open.On(name) != want {
			t.Errorf("gate %q: %v", name, !want)
		}
	}
	for _, bad := range []string{"NoSuchGate=true", "BindingAdmissionWebhook", "BindingAdmissionWebhook=maybe"} {
		if _, err := h.Suites().ParseGates(bad); err == nil || !strings.Contains(err.Error(), "--feature-gates") {
			t.Errorf("--feature-gates=%s: %v", bad, err)
		}
	}
}

// TestEveryGateSwitchesSomething: a gate in a table is known, and a gate that is known is used.
func (h House) TestEveryGateSwitchesSomething(t *testing.T) {
	known, source := map[gate.Name]bool{}, allSource(t)
	for _, g := range api.Gates() {
		known[g.Name] = true
	}
	used := map[gate.Name]bool{}
	for _, r := range h.defaultWorld(t).Table() {
		used[gate.Name(strings.TrimPrefix(string(r.Gate), "!"))] = true
		for _, s := range r.Chain.Steps() {
			used[gate.Name(strings.TrimPrefix(string(s.Gate), "!"))] = true
		}
	}
	delete(used, "")
	for name := range used {
		if !known[name] {
			t.Errorf("gate %s of a table is not in colocation/api/gates.go", name)
		}
	}
	for name := range known {
		if !used[name] && !strings.Contains(source, "On(api.Gate"+string(name)+")") {
			t.Errorf("gate %s switches nothing", name)
		}
	}
}

// TestGatesSwitchSteps: what a gate closes is not served, and a route without steps is none.
func (h House) TestGatesSwitchSteps(t *testing.T) {
	chain := admit.Mutate(admit.AsPod, []admit.Mutator[admit.Pod]{{Name: "a", Gate: "A"}, {Name: "b", Gate: "!A"}, {Name: "c"}})
	var left []string
	for _, s := range chain.Gated(func(name gate.Name) bool { return name != "A" }).Steps() {
		left = append(left, s.Name)
	}
	if strings.Join(left, "") != "bc" || len(chain.Steps()) != 3 {
		t.Errorf("left %v of %d", left, len(chain.Steps()))
	}
}

// usher runs a command and returns its exit code and what it printed.
func (h House) usher(t *testing.T, args ...string) (code int, out, errors string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = command.Program{Suites: h.Suites(), NewSuites: h.Suites, Version: "dev", In: strings.NewReader(""), Out: &stdout, Err: &stderr}.Run(t.Context(), args)
	return code, stdout.String(), stderr.String()
}

// TestCodeSpansAreClosed: in every page, the backticks of a paragraph come in pairs, and a heading follows an empty line: a
// paragraph that was broken by mistake has neither.
func (h House) TestCodeSpansAreClosed(t *testing.T) {
	fence := regexp.MustCompile("(?ms)^ *```.*?^ *```")
	for _, pattern := range []string{"*.md", "docs/*.md", "*/README.md", "command/learn/lessons/*/lesson.md"} {
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
