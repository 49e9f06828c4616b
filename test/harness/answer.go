package harness

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the goldens from what the code does")

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
