package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	jsonpatch "gopkg.in/evanphx/json-patch.v4" // by which the API server applies patches
	admissionv1 "k8s.io/api/admission/v1"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	logrus.SetOutput(io.Discard)
	m.Run()
}

// post returns the status and the body of the answer to a review.
func post(path string, review []byte) (int, []byte) {
	w := httptest.NewRecorder()
	routes().ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(review)))
	return w.Code, w.Body.Bytes()
}

// TestSamples compares the answers to samples/PATH/NAME.json with NAME.golden, and applies their patches.
func TestSamples(t *testing.T) {
	samples, _ := filepath.Glob("samples/*/*.json")
	if len(samples) == 0 {
		t.Fatal("no samples")
	}
	for _, sample := range samples {
		t.Run(sample, func(t *testing.T) {
			review := read(t, sample)
			code, body := post("/"+filepath.Base(filepath.Dir(sample)), review)
			golden, got := strings.TrimSuffix(sample, ".json")+".golden", show(t, code, body)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := string(read(t, golden)); got != want {
				t.Errorf("got:\n%s\nwant, by %s:\n%s", got, golden, want)
			}
			twice(t, "/"+filepath.Base(filepath.Dir(sample)), review, body)
		})
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// show returns an answer as text, with the operations of its patch in order: jsonpatch has none among the fields of an object.
func show(t *testing.T, code int, body []byte) string {
	t.Helper()
	if code != http.StatusOK {
		return fmt.Sprintf("HTTP %d\n%s", code, body)
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%s %s allowed: %t\n", answer.APIVersion, answer.Response.UID, answer.Response.Allowed)
	if answer.Response.Result != nil {
		text += fmt.Sprintf("%d %s\n", answer.Response.Result.Code, answer.Response.Result.Message)
	}
	var operations []json.RawMessage
	if answer.Response.Patch != nil {
		if err := json.Unmarshal(answer.Response.Patch, &operations); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for _, o := range operations {
		lines = append(lines, string(o)+"\n")
	}
	slices.Sort(lines)
	return text + strings.Join(lines, "")
}

// twice applies the patch of an answer, and fails if it does not apply, or if a review of the result changes it again.
func twice(t *testing.T, path string, review, body []byte) {
	t.Helper()
	var answer admissionv1.AdmissionReview
	if json.Unmarshal(body, &answer) != nil || answer.Response == nil || answer.Response.Patch == nil {
		return
	}
	var asked admissionv1.AdmissionReview
	if err := json.Unmarshal(review, &asked); err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(answer.Response.Patch)
	if err != nil {
		t.Fatal(err)
	}
	asked.Request.Object.Raw, err = patch.Apply(asked.Request.Object.Raw)
	if err != nil {
		t.Fatalf("the patch %s does not apply: %v", answer.Response.Patch, err)
	}
	again, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	_, body = post(path, again)
	if bytes.Contains(body, []byte(`"patch"`)) || !bytes.Contains(body, []byte(`"allowed":true`)) {
		t.Errorf("twice is not once: %s", body)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	pod := string(read(t, "samples/mutate-pods/lifespan-three.json"))
	for name, test := range map[string]struct {
		body string
		code int
	}{
		"nothing":         {"", 400},
		"no JSON":         {"pod", 400},
		"null":            {"null", 400},
		"no request":      {`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, 400},
		"no uid":          {strings.Replace(pod, `"uid"`, `"Uid"`, 1), 400},
		"other version":   {strings.Replace(pod, "admission.k8s.io/v1", "admission.k8s.io/v2", 1), 400},
		"other kind":      {strings.Replace(pod, "AdmissionReview", "Pod", 1), 400},
		"other resource":  {strings.Replace(pod, `"pods"`, `"services"`, 1), 400},
		"a subresource":   {strings.Replace(pod, `"name": "lifespan-three",`, `"subResource": "binding",`, 1), 400},
		"no object":       {strings.Replace(pod, `"object"`, `"subject"`, 1), 400},
		"not a pod":       {strings.Replace(pod, `"containers": [`, `"containers": 7, "x": [`, 1), 400},
		"two documents":   {pod + pod, 400},
		"9 MB":            {pod + strings.Repeat(" ", 9<<20), 413},
		"an UPDATE":       {strings.Replace(pod, "CREATE", "UPDATE", 1), 200},
		"null containers": {strings.Replace(pod, `"containers": [`, `"containers": [null], "x": [`, 1), 200},
	} {
		t.Run(name, func(t *testing.T) {
			code, body := post("/mutate-pods", []byte(test.body))
			if code != test.code {
				t.Errorf("HTTP %d, want %d: %s", code, test.code, body)
			}
			twice(t, "/mutate-pods", []byte(test.body), body)
		})
	}
}

// FuzzReview posts anything: no answer may be wrong in its form, no patch may fail to apply, and twice must be as once.
func FuzzReview(f *testing.F) {
	samples, _ := filepath.Glob("samples/*/*.json")
	for i, sample := range samples {
		text, err := os.ReadFile(sample)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, text)
	}
	paths := []string{"/mutate-pods", "/validate-pods", "/mutate-nodes"}
	f.Fuzz(func(t *testing.T, i int, review []byte) {
		path := paths[uint(i)%uint(len(paths))]
		code, body := post(path, review)
		if code != 200 && code != 400 {
			t.Errorf("HTTP %d: %s", code, body)
		}
		if code == 200 && bytes.Contains(body, []byte(`"patch"`)) != bytes.Contains(body, []byte(`"patchType"`)) {
			t.Errorf("a patch without a type, or a type without a patch: %s", body)
		}
		if len(review) < 1<<16 && !strings.ContainsAny(string(review), "\x00") {
			twice(t, path, review, body)
		}
	})
}
