package process

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/test/seed"
	"usher.dev/usher/usherctl/report"
)

// aPod is a pod that the embedded policy allows and changes; it refuses rude.
const (
	aPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"app","image":"nginx"}]}}`
	rude = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"offensive"},"spec":{"containers":[{"name":"app","image":"nginx"}]}}`
)

// directory writes files, and returns their directory.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// aCase returns a case about an object.
func aCase(object, expect string) string { return "manifest: " + object + "\nexpect: " + expect + "\n" }

// TestCaseSituations: what passes, fails, or cannot be judged. The first rows are what other tools for such tests get wrong.
func TestCaseSituations(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		args  string
		code  int
		want  string // part of the output or of the errors
	}{
		{"an expected refusal passes, an unexpected one fails: nothing is inverted", map[string]string{"case.yaml": aCase(rude, "{verdict: denied}") + "---\n" + aCase(rude, "{verdict: allowed}")}, "", 1, "expected allowed, got denied: denied-names"},
		{"an expected refusal that does not come fails", map[string]string{"case.yaml": aCase(aPod, "{verdict: denied}")}, "", 1, "expected denied, got allowed"},
		{"a change that is not expected fails", map[string]string{"case.yaml": aCase(aPod, "{verdict: allowed, patch: [{op: add, path: /spec/containers/0/env, value: []}]}")}, "", 1, "differs"},
		{"a step that is not expected fails", map[string]string{"case.yaml": aCase(aPod, "{verdict: allowed, steps: {environment: changed}}")}, "", 1, "lifespan: expected untouched or off, as it is not named, got changed"},
		{"a missing object cannot be judged", map[string]string{"case.yaml": aCase("nowhere.yaml", "{verdict: denied}")}, "", 2, "no such file"},
		{"a missing expectation cannot be judged", map[string]string{"case.yaml": aCase(aPod, "{verdict: allowed, after: nowhere.yaml}")}, "", 2, "expect.after: open"},
		{"an object that no route is for is not allowed, but skipped", map[string]string{"case.yaml": aCase("{apiVersion: v1, kind: Secret, metadata: {name: s}}", "{verdict: allowed}")}, "", 1, "expected allowed, got skipped: no route is for this kind"},
		{"no cases", map[string]string{"pod.yaml": aPod}, "", 2, "there are no cases"},
		{"an empty file of cases", map[string]string{"case.yaml": "# later\n"}, "", 2, "the file holds no case"},
		{"--run that matches nothing", map[string]string{"case.yaml": aCase(aPod, "{verdict: allowed}")}, "--run ^none$", 2, "matches none of 1 cases"},
		{"lists in another order", map[string]string{"case.yaml": aCase(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"},{"name":"b","image":"b"}]}}`,
			`{verdict: allowed, after: {contains: {spec: {containers: [{name: b}, {name: a}]}}}}`)}, "", 1, "does not contain"},

		{"one of two containers", map[string]string{"case.yaml": aCase(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"},{"name":"b","image":"b"}]}}`,
			`{verdict: allowed, after: {contains: {spec: {containers: [{name: b}]}}}}`)}, "", 0, "1 case: 1 passed"},
		{"a misspelt manifest", map[string]string{"case.yaml": aCase("pdo.yaml", "{verdict: allowed}"), "pod.yaml": aPod}, "", 2, "a case names pdo.yaml, which does not exist; did you mean this file?"},
		{"a file that no case names", map[string]string{"case.yaml": aCase("pod.yaml", "{verdict: allowed}"), "pod.yaml": aPod, "other/pod.yaml": aPod}, "", 2, "no case names this file"},
		{"a page and hidden files", map[string]string{"case.yaml": aCase("pod.yaml", "{verdict: allowed}"), "pod.yaml": aPod, "README.md": "", ".gitignore": ""}, "", 0, "1 passed"},
		{"two cases of one name", map[string]string{"a.case.yaml": "name: one\n" + aCase(aPod, "{verdict: allowed}"), "b.case.yaml": "name: one\n" + aCase(aPod, "{verdict: allowed}")}, "", 2, "has the same name"},
		{"an unknown key, beside a case that fails: 2 wins", map[string]string{"case.yaml": aCase(aPod, "{verdict: denied}") + "---\nexpects: {}\n" + aCase(aPod, "{verdict: allowed}")}, "", 2, "did you mean expect?"},
		{"a step that does not exist", map[string]string{"case.yaml": aCase(aPod, "{verdict: allowed, steps: {enviroment: changed}}")}, "", 2, "did you mean environment?"},
		{"a path that does not exist", map[string]string{"case.yaml": "path: /mutate-podz\n" + aCase(aPod, "{verdict: allowed}")}, "", 2, "did you mean /mutate-pods?"},
		{"a path that is off", map[string]string{"case.yaml": "path: /validate-configmap\n" + aCase(aPod, "{verdict: allowed}")}, "", 2, "path: /validate-configmap: the route is off; gates: {ConfigMapValidatingWebhook: true} switches it on"},
		{"a gate that does not exist", map[string]string{"case.yaml": "gates: {Nope: true}\n" + aCase(aPod, "{verdict: allowed}")}, "", 2, "unrecognized feature gate: Nope"},
		{"a suite that does not exist", map[string]string{"case.yaml": "suites: [nope]\n" + aCase(aPod, "{verdict: allowed}")}, "", 2, "must be core or colocation"},
		{"a policy that is invalid", map[string]string{"case.yaml": "config: p.yaml\n" + aCase(aPod, "{verdict: allowed}"), "p.yaml": "env: 1\n"}, "", 2, "the policy is invalid"},
		{"several objects", map[string]string{"case.yaml": aCase("pods.yaml", "{verdict: allowed}"), "pods.yaml": aPod + "\n---\n" + rude}, "", 2, "there are 2 objects, and a case is about one"},
		{"a workload and its pods", map[string]string{"case.yaml": "config: p.yaml\n" + aCase("d.yaml", "{verdict: denied}"), "d.yaml": deployment, "p.yaml": teamPolicy}, "", 2, "write two cases, with reviewed: workload and with reviewed: pod"},
		{"two texts, of which one is missing", map[string]string{"case.yaml": aCase(rude, `{verdict: denied, message: {contains: [choose another name, is immutable]}}`)}, "", 1, "does not contain:\n      - is immutable\n    got:\n"},
		{"the workload alone", map[string]string{"case.yaml": "config: p.yaml\nreviewed: workload\n" + aCase("d.yaml", "{verdict: denied, message: {contains: spec.template.metadata}}"), "d.yaml": deployment, "p.yaml": teamPolicy}, "", 0, "1 passed"},
		{"its pods alone", map[string]string{"case.yaml": "config: p.yaml\nreviewed: pod\n" + aCase("d.yaml", "{verdict: denied, message: {contains: \": metadata.labels\"}}"), "d.yaml": deployment, "p.yaml": teamPolicy}, "", 0, "1 passed"},
		{"no such directory", map[string]string{}, "DIR/nowhere", 2, "no such file"},
		{"a name for an empty policy", map[string]string{"case.yaml": aCase(aPod, "{verdict: allowed, steps: {}, patch: []}"), "p.yaml": "{}\n"}, "--config DIR/p.yaml", 0, "1 passed"},
		{"a message is compared without the id of the refusal", map[string]string{"case.yaml": aCase(rude, `{verdict: denied, message: 'denied-names: metadata.name: Forbidden: "offensive" contains "offensive", which the policy does not allow in pod names; choose another name (refusal 00000000)'}`)}, "", 0, "1 passed"},
		{"numbers are compared by their value", map[string]string{"case.yaml": aCase(rude, `{verdict: denied, code: 403.0}`)}, "", 0, "1 passed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := directory(t, c.files)
			args := append([]string{"test", dir}, strings.Fields(strings.ReplaceAll(c.args, "DIR", dir))...)
			code, out, errors := run(t, "", args...)
			if code != c.code || !strings.Contains(out+errors, c.want) {
				t.Errorf("exit code %d, want %d, with %q:\n%s%s", code, c.code, c.want, out, errors)
			}
		})
	}
}

const (
	deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"app","image":"nginx"}]}}}}`
	teamPolicy = "labelRules:\n- {name: team, label: acme.com/team, required: true, workloads: true}\n"
)

// TestCaseAgain: an allowed object is sent again with a foreign sidecar. A rule that only the first container satisfies stands
// for a policy that another webhook breaks.
func TestCaseAgain(t *testing.T) {
	policy := `rules:
- name: first-container
  match: {apiGroups: [""], resources: [pods], operations: [CREATE]}
  validations: [{expression: "object.spec.containers[0].name == 'app'", message: the first container must be app}]
`
	dir := directory(t, map[string]string{"case.yaml": "config: p.yaml\n" + aCase(aPod, "{verdict: allowed}"), "p.yaml": policy})
	if code, out, _ := run(t, "", "test", dir); code != 1 || !strings.Contains(out, "foreign-sidecar: ") || !strings.Contains(out, "the first container must be app") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	dir = directory(t, map[string]string{"case.yaml": "config: p.yaml\nonce: nothing else injects containers\n" + aCase(aPod, "{verdict: allowed}"), "p.yaml": policy})
	if code, out, _ := run(t, "", "test", dir); code != 0 {
		t.Errorf("with once, exit code %d:\n%s", code, out)
	}
}

// TestCaseIdempotence: a profile selects pods by a label that another one sets, so that the result is changed again.
func TestCaseIdempotence(t *testing.T) {
	profile := func(name, selects, sets string) string {
		return fmt.Sprintf("{apiVersion: config.koordinator.sh/v1alpha1, kind: ClusterColocationProfile, metadata: {name: %s}, "+
			"spec: {selector: {matchLabels: {%s}}, labels: {%s}}}\n---\n", name, selects, sets)
	}
	files := map[string]string{"c/p.yaml": profile("a", "b: set", "a: set") + profile("b", "app: web", "b: set"), "case.yaml": "cluster: c\npath: /mutate-pod\n" +
		aCase("{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {containers: [{name: app, image: nginx}]}}", "{verdict: allowed}")}
	code, out, errors := run(t, "", "test", directory(t, files))
	if code != 1 || !strings.Contains(out, "idempotence: ") || !strings.Contains(out, "+    a: set") {
		t.Errorf("exit code %d:\n%s%s", code, out, errors)
	}
	files["case.yaml"] = "once: profiles are only for new pods\n" + files["case.yaml"]
	if code, out, errors := run(t, "", "test", directory(t, files)); code != 0 {
		t.Errorf("with once, exit code %d:\n%s%s", code, out, errors)
	}
}

// TestReviewsAsCases: all reviews of the repository have the verdicts of their goldens as cases, too, stay as they are when they are
// sent again, and stand a foreign sidecar, apart from one pod that then fits into no reservation. Those that ask for a Namespace or a pod
// that samples/cluster lacks are not judged.
func TestReviewsAsCases(t *testing.T) {
	var text strings.Builder
	fmt.Fprintf(&text, "defaults:\n  cluster: %s\n  gates: {%s}\n", absolute(t, "samples/cluster"),
		strings.NewReplacer("=", ": ", "\n", "").Replace(harness.ReadFile(t, "samples/feature-gates")))
	absent := []string{"mutate-pod/multi-quota-tree-namespace-annotation", "mutate-pod/multi-quota-tree-namespace-name", "mutate-pod/multi-quota-tree-no-label",
		"mutate-pod/multi-quota-tree-unknown-quota", "validate-pod-binding/binding-unknown-pod"}
	for _, name := range harness.Samples(t) {
		golden, verdict := harness.ReadFile(t, harness.SampleFile(name)+".golden"), "error"
		if strings.HasPrefix(golden, "HTTP 200") {
			verdict = map[bool]string{true: "denied", false: "allowed"}[strings.Contains(golden, "\nallowed: false\n")]
		}
		if slices.Contains(absent, name) {
			verdict = "not judged"
		}
		fmt.Fprintf(&text, "---\nname: %s\npath: /%s\nreview: %s\nexpect: {verdict: %s}\n", name, harness.Route(name), absolute(t, harness.SampleFile(name)+".json"), verdict)
		if policy := harness.SamplePolicy(name); policy != "" {
			fmt.Fprintf(&text, "config: %s\n", absolute(t, policy))
		}
		if name == "validate-pod/reservation-fit-full-now" {
			text.WriteString("once: a second container makes it larger than every reservation\n")
		}
	}
	if code, out, errors := run(t, "", "test", directory(t, map[string]string{"case.yaml": text.String()})); code != 0 {
		t.Errorf("exit code %d:\n%s%s", code, out, errors)
	}
}

// TestCasesForgetEachOther: a pod that fits into its quota takes no room from the next case, whatever their order.
func TestCasesForgetEachOther(t *testing.T) {
	var text strings.Builder
	fmt.Fprintf(&text, "defaults: {cluster: %s, path: /validate-pod, gates: {EnableQuotaAdmission: true}}\n", absolute(t, "samples/cluster"))
	// The quota has one core left.
	review := strings.NewReplacer("other-quota", "team-b", "100m", "600m").Replace(harness.ReadFile(t, "samples/reviews/validate-pod/evaluate-quota-room.json"))
	for i := range 40 {
		another := regexp.MustCompile(`"(name|uid)": "[^"]*"`).ReplaceAllString(review, fmt.Sprintf(`"$1": "pod-%d"`, i))
		fmt.Fprintf(&text, "---\nonce: a second container would not fit\nreview: %s\nexpect: {verdict: allowed}\n", strings.ReplaceAll(another, "\n", " "))
	}
	dir := directory(t, map[string]string{"case.yaml": text.String()})
	if code, out, errors := run(t, "", "test", dir); code != 0 || !strings.Contains(out, "40 cases: 40 passed") {
		t.Errorf("exit code %d:\n%s%s", code, out, errors)
	}
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCasesOfSeveralInstances: each case is run under its own policy and in its own cluster, whatever comes between.
func TestCasesOfSeveralInstances(t *testing.T) {
	var text []string
	for range 3 {
		for _, instance := range []struct{ config, cluster, verdict string }{
			{"env.yaml", "a", "denied"}, {"none.yaml", "b", "allowed"}, {"env.yaml", "b", "allowed"}, {"none.yaml", "a", "denied"},
		} {
			text = append(text, fmt.Sprintf("name: case %d\nconfig: %s\ncluster: %s\nmanifest: pod.yaml\nrequest: {namespace: shop}\nexpect:\n  verdict: %s\n  steps: {label-rules: %s}\n",
				len(text), instance.config, instance.cluster, instance.verdict, map[string]string{"denied": "refused", "allowed": "untouched"}[instance.verdict]))
		}
	}
	rules := "labelRules: [{name: team, label: team, required: true, namespaceSelector: {matchLabels: {strict: \"true\"}}}]\n"
	namespace := "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {admission-webhook: enabled, strict: \"%s\"}}}\n"
	dir := directory(t, map[string]string{"case.yaml": strings.Join(text, "---\n"), "pod.yaml": aPod, "env.yaml": rules, "none.yaml": rules + "modes: {denied-names: warn}\n",
		"a/n.yaml": fmt.Sprintf(namespace, "true"), "b/n.yaml": fmt.Sprintf(namespace, "false")})
	if code, out, errors := run(t, "", "test", dir); code != 0 || !strings.Contains(out, "12 cases: 12 passed") {
		t.Errorf("exit code %d:\n%s%s", code, out, errors)
	}
}

// TestSamplesAreTested: the shelf has a case for each route and each policy, and all pass. Two runs print the same.
func TestSamplesAreTested(t *testing.T) {
	code, out, errors := run(t, "", "test", "samples", "-o", "json")
	for line := range strings.Lines(errors) {
		if code != 0 || !strings.HasPrefix(line, "warning: policy ") {
			t.Errorf("exit code %d: %s", code, line)
		}
	}
	if code != 0 {
		t.Fatalf("exit code %d: %s; `usherctl test samples` shows what differs, and --update accepts it", code, errors)
	}
	var reports []report.Report
	if err := json.Unmarshal([]byte(out), &reports); err != nil {
		t.Fatal(err)
	}
	text, called := "", map[string]bool{}
	files, _ := filepath.Glob("samples/tests/*/*.yaml")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text += string(raw)
	}
	for _, r := range reports {
		for _, call := range r.Calls {
			called[call.Path] = true
		}
	}
	for _, route := range harness.OpenInstance(t, routes.Suites(), harness.DemoGates(t, routes.Suites()), harness.DefaultPolicy(t, routes.Suites())).Routes() {
		if !called[route.Path] {
			t.Errorf("no case calls %s", route.Path)
		}
	}
	policies, _ := filepath.Glob("samples/policies/*.yaml")
	for _, file := range policies {
		samples, _ := filepath.Glob("test/testdata/reviews/*/" + strings.TrimSuffix(filepath.Base(file), ".yaml") + "*.golden")
		if len(samples) == 0 && !strings.Contains(text, "../"+filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file)) {
			t.Errorf("neither a case nor the golden of a sample is under %s: add a case to a file below samples/tests, with config: ../../policies/%s", file, filepath.Base(file))
		}
	}
	if len(reports) < 40 || len(policies) < 5 {
		t.Errorf("%d cases, %d policies", len(reports), len(policies))
	}
	if _, again, _ := run(t, "", "test", "samples", "-o", "json"); again != out {
		t.Error("two runs differ")
	}
}

// TestMutantsOfExpectations: of 100 cases that pass, each with one value of what it expects altered, none passes.
func TestMutantsOfExpectations(t *testing.T) {
	random, dir := seed.Random(t), copyOfSamples(t)
	// Members that the cases of the shelf leave out are expected whole, so that every kind of expectation has mutants.
	addEverything(t, dir)
	if code, out, errors := run(t, "", "test", "--update", dir); code != 0 {
		t.Fatalf("exit code %d:\n%s%s", code, out, errors)
	}
	texts := map[string]string{}
	var places []place
	for _, file := range caseFiles(t, dir) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(raw)
		places = append(places, placesOf(file, string(raw))...)
	}
	kinds := map[string]int{}
	byMember := map[string][]place{}
	for _, p := range places {
		byMember[p.member] = append(byMember[p.member], p)
	}
	altered := slices.Sorted(maps.Keys(byMember))
	for i := range 100 {
		same := byMember[altered[i%len(altered)]]
		p := same[random.IntN(len(same))]
		kinds[p.member]++
		alone := directory(t, map[string]string{"mutant.case.yaml": p.altered(random, texts[p.file])})
		code, out, errors := run(t, "", "test", alone)
		if code != 1 || !strings.Contains(out, " 1 failed") {
			t.Errorf("%s in line %d of %s altered: exit code %d\n%s%s", p.member, p.line+1, p.file, code, out, errors)
		}
	}
	if len(kinds) < 9 {
		t.Errorf("not every kind of expectation was altered: %v", kinds)
	}
}

// place is a value of an expectation in a file of cases.
type place struct {
	file, member string
	line         int
}

var memberLine = regexp.MustCompile(`^  ([a-z]+):`)

// placesOf returns the lines of a file that hold scalars of expectations.
func placesOf(file, text string) (places []place) {
	member, inExpect := "", false
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, " ") {
			inExpect = line == "expect:"
			continue
		}
		if !inExpect {
			continue
		}
		if m := memberLine.FindStringSubmatch(line); m != nil {
			member = m[1]
		}
		if (scalar.MatchString(line) || member == "warnings" && warning.MatchString(line) || outcome.MatchString(line)) && !strings.Contains(line, "contains") {
			places = append(places, place{file, member, i})
		}
	}
	return places
}

// scalar matches a line that ends with a word, a number or a quoted text.
var scalar = regexp.MustCompile(`^ +(- )?[A-Za-z./-]+: ('.*'|".*"|[A-Za-z0-9./-]+)$`)

// warning matches an element of a list of texts.
var warning = regexp.MustCompile(`^  - ('.*'|".*")$`)

// outcome matches the outcomes of steps on one line.
var outcome = regexp.MustCompile(`^  steps: \{.*: (changed|refused)`)

// altered returns the text with another value in the place.
func (p place) altered(random *rand.Rand, text string) string {
	lines := strings.Split(text, "\n")
	if p.member == "steps" {
		lines[p.line] = strings.NewReplacer("changed", "untouched", "refused", "changed").Replace(lines[p.line])
		return strings.Join(lines, "\n")
	}
	key, value, _ := strings.Cut(lines[p.line], ": ")
	if key += ": "; p.member == "warnings" {
		key, value = "  - ", strings.TrimPrefix(lines[p.line], "  - ")
	}
	other := map[string]string{"allowed": "denied", "denied": "allowed", "error": "allowed", "true": "false", "false": "true"}[value]
	switch {
	case other != "":
	case p.member == "code":
		other = fmt.Sprint(200 + random.IntN(3)*1000 + 7)
	case strings.HasSuffix(value, "'"):
		other = strings.TrimSuffix(value, "'") + " more'"
	case strings.HasSuffix(value, `"`):
		other = strings.TrimSuffix(value, `"`) + ` more"`
	default:
		other = value + "x"
	}
	lines[p.line] = key + other
	return strings.Join(lines, "\n")
}

// copyOfSamples returns a copy of the cases, which refer to the samples by absolute paths.
func copyOfSamples(t *testing.T) string {
	t.Helper()
	dir, samples, testdata := t.TempDir(), absolute(t, "samples"), absolute(t, "test/testdata")
	for _, file := range caseFiles(t, "samples/tests") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(strings.ReplaceAll(string(raw), "../../../test/testdata", testdata), "../..", samples)
		for _, local := range []string{"policy.yaml", "pod.yaml"} {
			text = strings.ReplaceAll(text, ": "+local, ": "+samples+"/tests/team-labels/"+local)
		}
		if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(file, "/", "-")+".case.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func caseFiles(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, "case.yaml") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return files
}

// addEverything adds what allowed cases do not expect yet, empty, to be filled by --update.
func addEverything(t *testing.T, dir string) {
	t.Helper()
	for _, file := range caseFiles(t, dir) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(raw), "\n---\n")
		for i, block := range blocks {
			for member, empty := range map[string]string{"patch": "[]", "warnings": "[]", "after": "{}"} {
				if strings.Contains(block, "\n  verdict: allowed") && !strings.Contains(block, "\n  "+member+":") && !strings.Contains(block, "operation: DELETE") {
					block = strings.TrimSuffix(block, "\n") + "\n  " + member + ": " + empty + "\n"
				}
			}
			blocks[i] = block
		}
		if err := os.WriteFile(file, []byte(strings.Join(blocks, "\n---\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
