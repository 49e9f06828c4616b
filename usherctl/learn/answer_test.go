package learn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	asked = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u1", "object": {"metadata": {"name": "p"}}}}`
	begin = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": `
	label = `W3sib3AiOiAiYWRkIiwgInBhdGgiOiAiL21ldGFkYXRhL2xhYmVscyIsICJ2YWx1ZSI6IHsiYSI6ICJiIn19XQ==` // add /metadata/labels {"a": "b"}
)

// lessonOf returns a lesson with a file in check/, and a folder with the files of a learner.
func lessonOf(t *testing.T, after string, files map[string]string) (Lesson, string) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Lesson{Name: "01-test", files: fstest.MapFS{"check/after.yaml": {Data: []byte(after)}}}, folder
}

// TestAnswers: what the API server would not accept as an answer is not accepted here either.
func TestAnswers(t *testing.T) {
	const after = "metadata: {name: p, labels: {a: b}}"
	for name, c := range map[string]struct{ answer, then, wrong string }{
		"allowed":               {begin + `{"uid": "u1", "allowed": true}}`, "allowed", ""},
		"denied":                {begin + `{"uid": "u1", "allowed": false, "status": {"code": 403}}}`, "denied", ""},
		"mutated":               {begin + `{"uid": "u1", "allowed": true, "patchType": "JSONPatch", "patch": "` + label + `"}}`, "mutated", ""},
		"not JSON":              {"{", "allowed", "answer.json"},
		"no response":           {`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}`, "allowed", "webhook response was absent"},
		"v1beta1":               {strings.Replace(begin, "/v1", "/v1beta1", 1) + `{"uid": "u1", "allowed": true}}`, "allowed", "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v1beta1"},
		"another uid":           {begin + `{"uid": "u2", "allowed": true}}`, "allowed", "response.uid"},
		"patch without type":    {begin + `{"uid": "u1", "allowed": true, "patch": "` + label + `"}}`, "mutated", "patchType"},
		"type without patch":    {begin + `{"uid": "u1", "allowed": true, "patchType": "JSONPatch"}}`, "mutated", "response.patch"},
		"another type":          {begin + `{"uid": "u1", "allowed": true, "patchType": "MergePatch", "patch": "` + label + `"}}`, "mutated", "JSONPatch"},
		"a validator's patch":   {begin + `{"uid": "u1", "allowed": true, "patchType": "JSONPatch", "patch": "` + label + `"}}`, "allowed", "validating"},
		"denied, not allowed":   {begin + `{"uid": "u1"}}`, "allowed", "denied, and not allowed"},
		"a patch in plain text": {begin + `{"uid": "u1", "allowed": true, "patchType": "JSONPatch", "patch": "[]"}}`, "mutated", "answer.json"},
		"another patch":         {begin + `{"uid": "u1", "allowed": true, "patchType": "JSONPatch", "patch": "W10="}}`, "mutated", "in the object, metadata."},
	} {
		t.Run(name, func(t *testing.T) {
			l, folder := lessonOf(t, after, map[string]string{"review.json": asked, "answer.json": c.answer})
			wrong, err := l.answered(t.Context(), Answer{Review: "review.json", Answer: "answer.json", Then: c.then, After: "after.yaml"}, folder, nil)
			if err != nil || (wrong == "") != (c.wrong == "") || !strings.Contains(wrong, c.wrong) {
				t.Errorf("%q, %v; want %q", wrong, err, c.wrong)
			}
		})
	}
}

// TestPatches: a patch is applied as the API server does, and what comes out is compared whole.
func TestPatches(t *testing.T) {
	for name, c := range map[string]struct{ patch, wrong string }{
		"right":          {`[{"op": "add", "path": "/metadata/annotations", "value": {"a/b": "c"}}]`, ""},
		"missing parent": {`[{"op": "add", "path": "/metadata/annotations/a~1b", "value": "c"}]`, "cannot apply"},
		"too much":       {`[{"op": "replace", "path": "/metadata", "value": {"annotations": {"a/b": "c"}}}]`, "in the object, metadata."},
		"not a list":     {`{"op": "add"}`, "not a JSON list"},
	} {
		t.Run(name, func(t *testing.T) {
			l, folder := lessonOf(t, "metadata: {name: p, annotations: {a/b: c}}", map[string]string{"pod.yaml": "metadata: {name: p}", "patch.json": c.patch})
			wrong, err := l.patched(Patch{Object: "pod.yaml", Patch: "patch.json", After: "after.yaml"}, folder)
			if err != nil || (wrong == "") != (c.wrong == "") || !strings.Contains(wrong, c.wrong) {
				t.Errorf("%q, %v; want %q", wrong, err, c.wrong)
			}
		})
	}
	l, folder := lessonOf(t, "", nil)
	if wrong, _ := l.patched(Patch{Object: "pod.yaml", Patch: "patch.json"}, folder); !strings.Contains(wrong, "pod.yaml is missing") {
		t.Error(wrong)
	}
}

// TestFieldOf: a field is a text, or the JSON of a number, list or mapping; what is not there is null.
func TestFieldOf(t *testing.T) {
	for path, want := range map[string]string{"a.b": "c", "a.n": "3", "a.l": "[1]", "a.x": "null", "x.y.z": "null"} {
		if got := fieldOf([]byte(`{"a": {"b": "c", "n": 3, "l": [1]}}`), path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if got := fieldOf([]byte(`[1]`), "a"); got != "null" {
		t.Errorf("a field of a list: %s", got)
	}
}
