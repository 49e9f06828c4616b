package main

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLinksTheStandardLibraryOnly: with more, its reviews would cost more, and usher would look better beside it.
func TestLinksTheStandardLibraryOnly(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "main.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range file.Imports {
		if strings.Contains(i.Path.Value, ".") {
			t.Errorf("imports %s", i.Path.Value)
		}
	}
}

// TestAnswers: the uid is the request's, which is the first one, and only the path of a patch is answered with it.
func TestAnswers(t *testing.T) {
	const review = `{"kind":"AdmissionReview","request":{"uid":"5fad","object":{"metadata":{"uid":"another"}}}}`
	handler := answering(map[string][]byte{"/mutate-pods": []byte(`[{"op":"test"}]`)})
	for path, want := range map[string]string{"/mutate-pods": `[{"op":"test"}]`, "/validate-pods": ""} {
		w := httptest.NewRecorder()
		handler(w, httptest.NewRequest(http.MethodPost, path+"?timeout=5s", strings.NewReader(review)))
		var got struct {
			Response struct {
				UID       string
				Allowed   bool
				PatchType string
				Patch     []byte
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		r := got.Response
		if r.UID != "5fad" || !r.Allowed || string(r.Patch) != want || (r.PatchType == "JSONPatch") != (want != "") {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
}

func TestMetrics(t *testing.T) {
	w := httptest.NewRecorder()
	metrics(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, metric := range []string{`(?m)^go_memstats_mallocs_total \d+$`, `(?m)^go_memstats_alloc_bytes_total \d+$`} {
		if !regexp.MustCompile(metric).MatchString(w.Body.String()) {
			t.Errorf("no %s in\n%s", metric, w.Body)
		}
	}
}

// TestRefusesToStart: without its files it does not serve something else.
func TestRefusesToStart(t *testing.T) {
	dir := t.TempDir()
	wrong := filepath.Join(dir, "wrong.json")
	if err := os.WriteFile(wrong, []byte("no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {dir, "more"}, {dir}, {"-patches=" + wrong, dir}, {"-patches=" + wrong + ".none", dir}} {
		if err := command(args, io.Discard); err == nil {
			t.Errorf("%v: serves", args)
		}
	}
}
