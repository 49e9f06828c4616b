package promises

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation"
	"usher.dev/usher/handlers"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

var kebab = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

// TestStepPromises: each step has a file and a name of one word, a line of doc, and a sample.
func TestStepPromises(t *testing.T) {
	seen := map[string]string{}
	for _, r := range defaultWorld(t).Routes() {
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
			if _, again := seen[s.Name]; again {
				file = "" // a step of two suites is in the room of the first
			}
			if source, err := os.ReadFile(file); file != "" && (err != nil || !strings.Contains(string(source), `"`+s.Name+`"`)) {
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
func TestStepRooms(t *testing.T) {
	var steps []string
	names, _ := routes.Suites().Steps()
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
func TestRoutePromises(t *testing.T) {
	var folders []string
	for _, r := range defaultWorld(t).Routes() {
		folders = append(folders, strings.TrimPrefix(r.Path, "/"))
		prefix := "/validate-"
		if r.Chain.Mutates() {
			prefix = "/mutate-"
		}
		if !strings.HasPrefix(r.Path, prefix) || !strings.Contains(harness.ReadFile(t, stepTable(r.Suite)), "`"+r.Path+"`") {
			t.Errorf("%s: the path begins with %s and is in %s", r.Path, prefix, stepTable(r.Suite))
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

// FuzzHeartbeat: whatever stands in a node, its status update passes.
func FuzzHeartbeat(f *testing.F) {
	for _, name := range []string{"overcommit-echo", "overcommit-memory-damaged", "malformed-heartbeat"} {
		raw, err := os.ReadFile(harness.SampleFile("mutate-nodes/"+name) + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"UPDATE","subResource":"status","kind":{"group":"","version":"v1","kind":"Node"},"userInfo":{"username":"system:node:n"},` +
		`"object":{"metadata":{"name":"n","annotations":{"usher.dev/amplified":"{\"cpu\":{\"raw\":{\"allocatable\":\"1\"},\"result\":{\"allocatable\":\"2\"},\"ratio\":\"2\"}}"}},"status":{"allocatable":{"cpu":"1e9"},"capacity":{"cpu":-0.0}}}}}`))
	all := defaultWorld(f).Routes()
	nodes := all[slices.IndexFunc(all, func(r admit.Route) bool { return r.Heartbeat() })]
	f.Fuzz(func(t *testing.T, body []byte) {
		d := handlers.Decide(t.Context(), nodes, body, nil)
		if d.Outcome != handlers.Allowed && d.Outcome != handlers.Mutated && d.Outcome != handlers.Invalid || d.Stack != nil {
			t.Fatalf("%s: %v\n%s", d.Outcome, d.Err, d.Stack)
		}
	})
}
