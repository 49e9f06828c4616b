package main

import (
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
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

func TestAnswers(t *testing.T) {
	for body, handler := range map[string]http.HandlerFunc{
		`"allowed":true`: answer, `(?m)^go_memstats_mallocs_total \d+$`: metrics, `(?m)^go_memstats_alloc_bytes_total \d+$`: metrics,
	} {
		w := httptest.NewRecorder()
		if handler(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))); !regexp.MustCompile(body).MatchString(w.Body.String()) {
			t.Errorf("%s, want %s", w.Body, body)
		}
	}
}
