package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/cluster"
	"usher.dev/usher/config"
	"usher.dev/usher/gate"
	"usher.dev/usher/handlers"
)

var update = flag.Bool("update", false, "rewrite the goldens from what the code does")

// sampleDirs hold the sample reviews, in a folder for each route: first the shelf that people read, then all others.
var sampleDirs = []string{"samples/reviews", "testdata/reviews"}

// defaultMux serves the routes of the embedded policy.
func defaultMux(t testing.TB) http.Handler {
	t.Helper()
	return defaultEdge().Serve(routes(defaultWorld(t)))
}

func defaultEdge() handlers.Edge {
	return handlers.Edge{
		Observe:  func(handlers.Route, handlers.Decision, time.Duration) {},
		Limits:   handlers.NewLimits(8),
		Draining: func() bool { return false },
	}
}

// world is the program in process, as `make run` serves it.
type world struct {
	suites  Suites
	wing    *Wing
	policy  *config.Policy
	gates   gate.Set
	cluster *cluster.Cluster
}

// defaultWorld is what `make run` serves.
func defaultWorld(t testing.TB) world {
	t.Helper()
	gates, err := suites().parseGates(strings.TrimSpace(readFile(t, "samples/feature-gates")))
	if err != nil {
		t.Fatal(err)
	}
	return sampleWorld(t, gates)
}

// sampleWorld is the sample cluster with some gates on.
func sampleWorld(t testing.TB, gates gate.Set) world {
	t.Helper()
	wing := &Wing{}
	w := world{suites: Suites{core(), wing.Suite()}, wing: wing, policy: defaultPolicy(t), gates: gates}
	wing.Flags(pflag.NewFlagSet("", pflag.ContinueOnError))
	var err error
	w.cluster, err = w.suites.Open("files", gates, nil, func(o cluster.Options) (*cluster.Cluster, error) { return cluster.Files("samples/cluster", o) })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// routes are the routes that the gates leave, table all of them.
func routes(w world) []handlers.Route { return w.suites.routes(w.policy, w.gates) }
func table(w world) []handlers.Route  { return w.suites.table(w.policy, w.gates) }

func policySchema() config.Schema { return suites().schema() }

func defaultPolicy(t testing.TB) *config.Policy {
	t.Helper()
	policy, problems := config.Parse(policySchema().DefaultYAML(), policySchema())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return policy
}

// samples are the sample reviews, as route/case.
func samples(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, file := range sampleFiles(t, "*") {
		name := strings.TrimSuffix(filepath.ToSlash(file), ".json")
		names = append(names, strings.Join(strings.Split(name, "/")[2:], "/"))
	}
	return names
}

// sampleFiles are the paths of the sample reviews of a route, or of all with "*".
func sampleFiles(t testing.TB, route string) (all []string) {
	t.Helper()
	for _, dir := range sampleDirs {
		files, _ := filepath.Glob(filepath.Join(dir, route, "*.json"))
		all = append(all, files...)
	}
	if len(all) == 0 {
		t.Fatalf("no samples of %s in %v", route, sampleDirs)
	}
	return all
}

// sampleFile returns the path of a sample without its ending.
func sampleFile(name string) string {
	for _, dir := range sampleDirs {
		if file := filepath.Join(dir, name); exists(file + ".json") {
			return file
		}
	}
	return filepath.Join(sampleDirs[0], name)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func readSample(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(sampleFile(name) + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// post sends a review to the route that the sample's folder names.
func post(mux http.Handler, name string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/"+route(name)+"?timeout=5s", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

// route is the route that a sample's folder names.
func route(sample string) string {
	folder, _, _ := strings.Cut(sample, "/")
	return folder
}

// TestGoldens replays every sample through the real mux and compares the outcome, word for word, with the golden beside it.
// Then it posts the result once more: a chain that runs on its own result gives no patch.
func TestGoldens(t *testing.T) {
	mux := defaultMux(t)
	for _, name := range samples(t) {
		t.Run(name, func(t *testing.T) {
			body := readSample(t, name)
			w := post(mux, name, body)
			got, after := describe(t, body, w)
			compareGolden(t, sampleFile(name)+".golden", got)
			if after == nil {
				return
			}
			again := post(mux, name, withObject(t, body, after))
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

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; `make golden` writes it: read it before you commit it", err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if the change is meant, `make golden` rewrites it.\ngot:\n%s", file, got)
	}
}

// TestGoldenShelf: the shelf is at most 30 samples in reading order, the core suite's first, and samples/README.md has a line for each.
func TestGoldenShelf(t *testing.T) {
	const file = "samples/README.md"
	text := readFile(t, file)
	row := regexp.MustCompile(`(?m)^\| \[(\S+)\]\(\S+\) \| (.+?) \|.*$`)
	var listed []string
	text = row.ReplaceAllStringFunc(text, func(line string) string {
		name, shows := row.FindStringSubmatch(line)[1], row.FindStringSubmatch(line)[2]
		listed = append(listed, name)
		return fmt.Sprintf("| [%s](reviews/%[1]s.json) | %s | %s |", name, shows, answerInShort(readFile(t, filepath.Join(sampleDirs[0], name+".golden"))))
	})
	compareGolden(t, file, text)
	files, _ := filepath.Glob(filepath.Join(sampleDirs[0], "*", "*.json"))
	for _, f := range files {
		if name, _ := filepath.Rel(sampleDirs[0], strings.TrimSuffix(f, ".json")); !slices.Contains(listed, filepath.ToSlash(name)) {
			t.Errorf("%s has no line in %s; put what few people will read into %s", f, file, sampleDirs[1])
		}
	}
	if len(listed) > 30 || len(listed) < 20 {
		t.Errorf("%s lists %d samples, want 20 to 30", file, len(listed))
	}
	if !slices.IsSortedFunc(listed, func(a, b string) int { return cmp.Compare(routeOrder(t, a), routeOrder(t, b)) }) {
		t.Errorf("%s is not in the order of the suites", file)
	}
}

// routeOrder is 0 for samples of the first suite, 1 for others.
func routeOrder(t *testing.T, sample string) int {
	t.Helper()
	for _, r := range routes(defaultWorld(t)) {
		if r.Path == "/"+route(sample) && r.Suite == handlers.Tutorial {
			return 0
		}
	}
	return 1
}

// answerInShort is the answer of a golden in a few words.
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

// describe checks an answer by the API server's rules and puts it into words; after is the patched object.
func describe(t *testing.T, body []byte, w *httptest.ResponseRecorder) (text string, after []byte) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP %d\n", w.Code)
	if w.Code != http.StatusOK {
		fmt.Fprintf(&b, "%s", w.Body)
		return b.String(), nil
	}
	var sent, answer admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	checkAnswer(t, sent, answer)
	r := answer.Response
	fmt.Fprintf(&b, "%s\nallowed: %v\n", answer.APIVersion, r.Allowed)
	if r.Result != nil {
		status, _ := yaml.Marshal(r.Result)
		fmt.Fprintf(&b, "status:\n%s", indented(string(status)))
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	for _, key := range slices.Sorted(maps.Keys(r.AuditAnnotations)) {
		fmt.Fprintf(&b, "audit: %s: %s\n", key, r.AuditAnnotations[key])
	}
	if len(r.Patch) == 0 {
		return b.String(), nil
	}
	after = applyPatch(t, sent.Request.Object.Raw, r.Patch)
	fmt.Fprintf(&b, "patch:\n%sobject:\n%s", patchLines(t, r.Patch), indented(asYAML(t, after)))
	return b.String(), after
}

// checkAnswer holds what the API server asks of an answer (k8s.io/apiserver, VerifyAdmissionResponse).
func checkAnswer(t *testing.T, sent, answer admissionv1.AdmissionReview) {
	t.Helper()
	r := answer.Response
	switch {
	case r == nil || r.UID != sent.Request.UID:
		t.Fatalf("the uid is not copied: %+v", r)
	case answer.APIVersion != sent.APIVersion || answer.Kind != "AdmissionReview":
		t.Errorf("answered %s %s to %s", answer.APIVersion, answer.Kind, sent.APIVersion)
	case (r.Patch == nil) != (r.PatchType == nil) || r.Patch != nil && len(r.Patch) < 3:
		t.Errorf("patch %q with patch type %v", r.Patch, r.PatchType)
	case r.Allowed && r.Result != nil || !r.Allowed && (r.Result == nil || r.Result.Code < 400 || r.Result.Reason == "" || r.Result.Message == "" || r.Patch != nil):
		t.Errorf("allowed %v with status %+v", r.Allowed, r.Result)
	}
	for _, warning := range r.Warnings {
		if len([]rune(warning)) > 256 {
			t.Errorf("a warning of %d characters: %s", len(warning), warning)
		}
	}
	for key := range r.AuditAnnotations {
		if len(key) > 63 || strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
			t.Errorf("audit annotation %q is no name", key)
		}
	}
}

func applyPatch(t testing.TB, raw, patch []byte) []byte {
	t.Helper()
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	after, err := decoded.Apply(raw)
	if err != nil {
		t.Fatalf("%s does not apply: %v", patch, err)
	}
	return after
}

func patchLines(t *testing.T, patch []byte) string {
	t.Helper()
	var operations []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(patch, &operations); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, o := range operations {
		b.WriteString(strings.TrimRight(fmt.Sprintf("  %s %s %s", o.Op, o.Path, o.Value), " ") + "\n")
	}
	return b.String()
}

func asYAML(t *testing.T, raw []byte) string {
	t.Helper()
	text, err := yaml.JSONToYAML(raw)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// withObject is the same review about another object.
func withObject(t testing.TB, body, object []byte) []byte {
	t.Helper()
	var review map[string]any
	if err := json.Unmarshal(body, &review); err != nil {
		t.Fatal(err)
	}
	review["request"].(map[string]any)["object"] = json.RawMessage(object)
	changed, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}
