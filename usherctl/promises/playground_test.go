package promises

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"usher.dev/usher/routes"
	"usher.dev/usher/samples"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/usherctl/playground"
	"usher.dev/usher/usherctl/report"
)

// shelfInput returns a sample of the shelf as the playground has it.
func shelfInput(s samples.Sample) playground.Input {
	route, _, _ := strings.Cut(s.Name, "/")
	return playground.Input{Object: s.Review, Policy: s.Policy, Cluster: samples.Cluster(), Gates: samples.FeatureGates(), Path: "/" + route}
}

// askPlayground sends an input to a playground.
func askPlayground(t testing.TB, in playground.Input) (a playground.Answer) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	const host = "127.0.0.1:8090"
	handler := playground.New(playground.Options{Suites: routes.Suites()}, []string{host})
	r := httptest.NewRequest("POST", "http://"+host+"/run", strings.NewReader(string(body)))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return a
}

// BenchmarkPlayground is a keystroke in a pod of 20 KB.
func BenchmarkPlayground(b *testing.B) {
	const host = "127.0.0.1:8090"
	handler := playground.New(playground.Options{Suites: routes.Suites()}, []string{host})
	for _, s := range samples.Shelf() {
		if s.Name != "mutate-pods/production-pod" {
			continue
		}
		in := shelfInput(s)
		in.Path = ""
		body, _ := json.Marshal(in)
		b.ReportAllocs()
		for b.Loop() {
			r := httptest.NewRequest("POST", "http://"+host+"/run", strings.NewReader(string(body)))
			r.Header.Set("Content-Type", "application/json")
			handler.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
}

// TestShelfIsEmbedded: the shelf in the program equals the repository's.
func TestShelfIsEmbedded(t *testing.T) {
	shelf := samples.Shelf()
	if len(shelf) < 20 {
		t.Fatalf("%d samples", len(shelf))
	}
	for _, s := range shelf {
		if s.Review != harness.ReadFile(t, "samples/reviews/"+s.Name+".json") || s.Shows == "" {
			t.Errorf("%s is not as in the repository", s.Name)
		}
		file := harness.SamplePolicy(s.Name)
		if (file == "") != (s.Policy == "") || file != "" && s.Policy != samples.WithoutSchemaLine(harness.ReadFile(t, file)) {
			t.Errorf("%s is for the policy %s", s.Name, file)
		}
	}
}

// TestPlaygroundStages: the object after each step is there where it changed, and a refused field is marked at its line.
func TestPlaygroundStages(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: apps\n  labels:\n    acme.com/lifespan-requested: \"13\"\nspec:\n  containers:\n  - name: c\n    image: i\n"
	a := askPlayground(t, playground.Input{Object: pod, Path: "/mutate-pods"})
	if len(a.Objects) != 1 || len(a.Problems) > 0 {
		t.Fatalf("%+v", a)
	}
	var stages []string
	for _, s := range a.Objects[0].Stages {
		stages = append(stages, s.Name)
	}
	if got := strings.Join(stages, " "); !strings.HasPrefix(got, "sent environment lifespan ") || !strings.HasSuffix(got, " stored") {
		t.Errorf("stages: %s", got)
	}
	env, lifespan := a.Objects[0].Stages[1], a.Objects[0].Stages[2]
	if !strings.Contains(env.Document, "KUBE") || strings.Contains(env.Document, "tolerations") || !strings.Contains(lifespan.Document, "tolerations") || len(lifespan.Patch) == 0 {
		t.Errorf("environment:\n%s\nlifespan:\n%s", env.Document, lifespan.Document)
	}
	refused := askPlayground(t, playground.Input{Object: strings.Replace(pod, `"13"`, `"99"`, 1), Path: "/mutate-pods"})
	if marks := refused.Objects[0].Marks; len(marks) != 1 || marks[0].Line != 7 {
		t.Errorf("marks: %+v", marks)
	}
}

// TestPlaygroundObjects: of several objects the worst is first, and what is refused or unknown of a pod that a controller makes is
// marked in the workload, at its own lines. The verdict is that of `usherctl review`.
func TestPlaygroundObjects(t *testing.T) {
	a := askPlayground(t, playground.Input{Object: samples.Manifest("deployment.yaml"), Path: "core"})
	if len(a.Objects) != 2 || a.Objects[0].Report.Verdict != "denied" || a.Objects[1].Report.Verdict != "allowed" {
		t.Fatalf("not the denied one, then the allowed one: %d objects, %+v", len(a.Objects), a.Problems)
	}
	if marks := a.Objects[0].Marks; len(marks) != 1 || marks[0].Line != 16 {
		t.Errorf("the name of the second Deployment is marked at %+v", marks)
	}
	const deployment = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d\nspec:\n" +
		"  selector: {matchLabels: {app: d}}\n  template:\n    metadata:\n      labels:\n        app: d\n        acme.com/lifespan-requested: \"13\"\n    spec:\n      containers:\n      - name: c\n        image: i\n"
	for _, c := range []struct {
		old, new, policy string
		verdict          string
		line             int
		text             string
	}{
		{`"13"`, `"99"`, "", "denied", 16, "lifespan"},
		{"      - name: c\n", "      - name: C_\n", "", "invalid", 19, "spec.template.spec.containers[0].name"},
		{"      - name: c\n", "      - name: c\n        imag: i\n", "", "allowed", 20, `unknown field "spec.template.spec.containers[0].imag": kubectl refuses it`},
		{"  selector: {matchLabels: {app: d}}\n", "", "", "invalid", 10, "spec.selector"},
		{"", "", "labelRules:\n- {name: owner, label: owner, required: true, namespaceSelector: {matchLabels: {stage: prod}}}\n", "not judged", 0, ""},
	} {
		a := askPlayground(t, playground.Input{Object: strings.Replace(deployment, c.old, c.new, 1), Policy: c.policy, Path: "core"})
		if len(a.Objects) != 2 || a.Objects[0].Report.Verdict != report.Verdict(c.verdict) {
			t.Fatalf("%q for %q: %d objects, %+v", c.new, c.old, len(a.Objects), a.Problems)
		}
		if marks := a.Objects[0].Marks; c.line > 0 && (len(marks) == 0 || marks[0].Line != c.line || !strings.Contains(marks[0].Text, c.text)) {
			t.Errorf("%q for %q is marked at %+v, want line %d", c.new, c.old, marks, c.line)
		}
	}
}
