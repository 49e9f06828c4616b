// Package harness has helpers for tests of routes: the samples and their goldens, and the sample cluster.
package harness

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/cluster"
	"usher.dev/usher/config"
	"usher.dev/usher/gate"
	"usher.dev/usher/handlers"
	"usher.dev/usher/suite"
)

var update = flag.Bool("update", false, "rewrite the goldens from what the code does")

// SampleDirs are the directories of sample reviews, with a folder for each route: first the shelf for human readers,
// then all others.
var SampleDirs = []string{"samples/reviews", "testdata/reviews"}

// DefaultServer returns a server without observers and with default limits for tests.
func DefaultServer() handlers.Server {
	return handlers.Server{
		Observe:  func(handlers.Route, handlers.Decision, time.Duration) {},
		Limits:   handlers.NewLimits(8),
		Draining: func() bool { return false },
	}
}

// World is the program in process, with the sample cluster.
type World struct {
	suites  suite.List
	Policy  *config.Policy
	Gates   gate.Set
	Cluster *cluster.Cluster
}

// OpenWorld opens the sample cluster for the suites.
func OpenWorld(t testing.TB, suites suite.List, gates gate.Set, policy *config.Policy) World {
	t.Helper()
	for _, suite := range suites {
		if suite.Flags != nil {
			suite.Flags(pflag.NewFlagSet("", pflag.ContinueOnError)) // for the defaults
		}
	}
	w := World{suites: suites, Policy: policy, Gates: gates}
	var err error
	w.Cluster, err = suites.Open("files", gates, nil, func(o cluster.Options) (*cluster.Cluster, error) { return cluster.Files("samples/cluster", o) })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// DemoGates returns the gates of `make run`.
func DemoGates(t testing.TB, suites suite.List) gate.Set {
	t.Helper()
	gates, err := suites.ParseGates(strings.TrimSpace(ReadFile(t, "samples/feature-gates")))
	if err != nil {
		t.Fatal(err)
	}
	return gates
}

// DefaultPolicy returns the policy that is used without a file.
func DefaultPolicy(t testing.TB, suites suite.List) *config.Policy {
	t.Helper()
	return ParsePolicy(t, suites, suites.Schema().DefaultYAML())
}

// ParsePolicy parses a policy that must be valid.
func ParsePolicy(t testing.TB, suites suite.List, text []byte) *config.Policy {
	t.Helper()
	policy, problems := config.Parse(text, suites.Schema())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return policy
}

// Routes returns the routes that the gates enable.
func (w World) Routes() []handlers.Route { return w.suites.Routes(w.Policy, w.Gates) }

// Table returns all routes.
func (w World) Table() []handlers.Route { return w.suites.Table(w.Policy, w.Gates) }

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Samples returns the sample reviews, as route/case.
func Samples(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, file := range SampleFiles(t, "*") {
		name := strings.TrimSuffix(filepath.ToSlash(file), ".json")
		names = append(names, strings.Join(strings.Split(name, "/")[2:], "/"))
	}
	return names
}

// SampleFiles returns the paths of the sample reviews of a route, or of all with "*".
func SampleFiles(t testing.TB, route string) (all []string) {
	t.Helper()
	for _, dir := range SampleDirs {
		files, _ := filepath.Glob(filepath.Join(dir, route, "*.json"))
		all = append(all, files...)
	}
	if len(all) == 0 {
		t.Fatalf("no samples of %s in %v", route, SampleDirs)
	}
	return all
}

// SampleFile returns the path of a sample without its extension.
func SampleFile(name string) string {
	for _, dir := range SampleDirs {
		if file := filepath.Join(dir, name); Exists(file + ".json") {
			return file
		}
	}
	return filepath.Join(SampleDirs[0], name)
}

// Exists reports whether a file exists.
func Exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// ReadSample returns the review of a sample.
func ReadSample(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(SampleFile(name) + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Post sends a review to the route that the sample's folder names.
func Post(mux http.Handler, name string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/"+Route(name)+"?timeout=5s", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

// Route returns the route that a sample's folder names.
func Route(sample string) string {
	folder, _, _ := strings.Cut(sample, "/")
	return folder
}

// CompareGolden compares got with a golden file or, with -update, writes the file.
func CompareGolden(t *testing.T, file, got string) {
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

// Describe checks an answer by the API server's rules and returns it as text; after is the patched object.
func Describe(t *testing.T, body []byte, w *httptest.ResponseRecorder) (text string, after []byte) {
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
	after = ApplyPatch(t, sent.Request.Object.Raw, r.Patch)
	fmt.Fprintf(&b, "patch:\n%sobject:\n%s", patchLines(t, r.Patch), indented(asYAML(t, after)))
	return b.String(), after
}

// checkAnswer checks what the API server requires of an answer (k8s.io/apiserver, VerifyAdmissionResponse).
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
	case r.Allowed && r.Result != nil,
		!r.Allowed && (r.Result == nil || r.Result.Code < 400 || r.Result.Reason == "" || r.Result.Message == "" || r.Patch != nil):
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

// ApplyPatch applies a JSON patch.
func ApplyPatch(t testing.TB, raw, patch []byte) []byte {
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

// WithObject returns a copy of the review about another object.
func WithObject(t testing.TB, body, object []byte) []byte {
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
