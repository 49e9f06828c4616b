// Package harness has helpers for tests of routes: the samples and their goldens, and the sample cluster.
package harness

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// SampleDirs are the directories of sample reviews, with a folder for each route: first the shelf for human readers,
// then all others.
var SampleDirs = []string{"samples/reviews", "test/testdata/reviews"}

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
		names = append(names, path.Join(path.Base(path.Dir(name)), path.Base(name)))
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

// SamplePolicy returns the policy file of a sample: the one whose name is the longest beginning of the sample's own, up
// to a hyphen. It returns "" for a sample that the default policy is for.
func SamplePolicy(sample string) string {
	name := path.Base(sample)
	for name != "" {
		if file := "samples/policies/" + name + ".yaml"; Exists(file) {
			return file
		}
		name = name[:max(0, strings.LastIndex(name, "-"))]
	}
	return ""
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
