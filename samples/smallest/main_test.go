package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSmallestAnswers: the program decides reviews under the default policy.
func TestSmallestAnswers(t *testing.T) {
	handler, err := serve()
	if err != nil {
		t.Fatal(err)
	}
	for sample, want := range map[string]string{
		"mutate-pods/lifespan-three": `"patchType":"JSONPatch"`,
		"validate-pods/denied-names": `"allowed":false`,
		"mutate-nodes/overcommit":    `"patchType":"JSONPatch"`,
	} {
		body, err := os.ReadFile("../reviews/" + sample + ".json")
		if err != nil {
			t.Fatal(err)
		}
		request := httptest.NewRequest("POST", "/"+filepath.Dir(sample), strings.NewReader(string(body)))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code != 200 || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: %d %s", sample, answer.Code, answer.Body)
		}
	}
	metrics := httptest.NewRecorder()
	handler.ServeHTTP(metrics, httptest.NewRequest("GET", "/metrics", nil))
	if !strings.Contains(metrics.Body.String(), `usher_step_decisions_total{`) {
		t.Errorf("/metrics: %s", metrics.Body)
	}
}

// mostPackages is the number of packages of others that the program may link. test/promises bounds its bytes.
const mostPackages = 170

// TestSmallestLinksLittle: the tutorial's steps link neither CEL nor a client, and few packages of others.
func TestSmallestLinksLittle(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	others := 0
	for _, path := range strings.Fields(string(out)) {
		if !strings.HasPrefix(path, "usher.dev/usher") {
			others++
		}
		for _, heavy := range []string{"github.com/google/cel-go", "k8s.io/client-go", "k8s.io/apiserver"} {
			if strings.HasPrefix(path, heavy) {
				t.Errorf("links %s", path)
			}
		}
	}
	if others > mostPackages || others < 50 {
		t.Errorf("%d packages of others, at most %d", others, mostPackages)
	}
	t.Logf("%d packages of others", others)
}
