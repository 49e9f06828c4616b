package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"usher.dev/usher/bench/report"
)

// TestMain is also the process that decodes pods.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == decoding {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestGrowth: a run with few objects measures every line, and writes data and tables. It says nothing about times.
func TestGrowth(t *testing.T) {
	if runtime.GOOS != "linux" || testing.Short() {
		t.Skip("needs /proc, and starts 22 servers")
	}
	docs := atRoot(t)
	tiny := plan{rounds: 1, cell: 1, fewest: 25, limit: growthLimit, quick: true}
	what := subjectsOf([]int{10, 40}, []int{0, 300})
	g, err := measureGrowth(t.Context(), tiny, pinning{}, what, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range what {
		points := g.of(s.name)
		if len(points) != len(s.sizes) {
			t.Fatalf("%s: %d points", s.name, len(points))
		}
		for i, p := range points {
			if p.Count != s.sizes[i] || p.Ready <= 0 || p.StartCPU <= 0 || p.Heap < 1<<20 || p.Peak < p.Heap || len(p.Costs) != len(s.world(10).lines) {
				t.Errorf("%s: %+v", s.name, p)
			}
			for _, c := range p.Costs {
				if c.CPU <= 0 || c.Objects <= 0 {
					t.Errorf("%s: %+v", s.name, c)
				}
			}
		}
	}
	wantWritten(t, g, docs)
}

// TestAddOthers: a run of some subjects replaces their points, and keeps the order.
func TestAddOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), growthPlace.Data)
	point := func(subject string, heap int64) Point { return Point{Subject: subject, Heap: heap} }
	before := &Growth{Head: report.Head{Usher: "1", Date: "then"}, Points: []Point{point("a", 1), point("a", 2), point("b", 3), point("b", 4), point("c", 5)}}
	if err := report.Write(file, before); err != nil {
		t.Fatal(err)
	}
	now := &Growth{Head: report.Head{Usher: "1"}, Points: []Point{point("b", 6), point("b", 7)}}
	if err := now.addOthers(file); err != nil || fmt.Sprint(now.of("a"), now.of("c")) != fmt.Sprint(before.of("a"), before.of("c")) ||
		len(now.Points) != 5 || now.Points[2].Heap != 6 || now.Points[3].Heap != 7 || now.Head.Date != "then" {
		t.Errorf("%v: %+v", err, now)
	}
	if err := (&Growth{Head: report.Head{Usher: "2"}}).addOthers(file); err == nil || !strings.Contains(err.Error(), "is of usher 1") {
		t.Error(err)
	}
	if _, err := chosen(subjects(false), "nothing"); err == nil {
		t.Error("a pattern that matches nothing is accepted")
	}
}

// atRoot changes to a directory that looks like the root of the source to the program, with bin/usher and a page in docs.
func atRoot(t *testing.T) (docs string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, usherBinary), ".")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	docs = filepath.Join(dir, "docs", "design")
	if err := errors.Join(os.Symlink(filepath.Join(root, "samples"), filepath.Join(dir, "samples")),
		os.Symlink(filepath.Join(root, "test"), filepath.Join(dir, "test")), os.MkdirAll(docs, 0o755),
		os.WriteFile(filepath.Join(docs, growthPlace.Page), []byte("before\n"+growthPlace.Begins+"\nold\n"+growthPlace.Ends+"\nafter\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	return docs
}

// wantWritten writes the report twice, the second time from its own data, and checks the files.
func wantWritten(t *testing.T, g *Growth, docs string) {
	t.Helper()
	if err := growthPlace.Write(docs, g, g.markdown()); err != nil {
		t.Fatal(err)
	}
	read := func() (files [2]string) {
		for i, name := range []string{growthPlace.Data, growthPlace.Page} {
			files[i] = readFile(t, filepath.Join(docs, name))
		}
		return files
	}
	first := read()
	if err := growthCommand(t.Context(), []string{"-draw", "-docs", docs}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	if read() != first {
		t.Error("the data does not draw the same again")
	}
	page := first[1]
	if !strings.HasPrefix(page, "before\n"+growthPlace.Begins) || !strings.HasSuffix(page, growthPlace.Ends+"\nafter\n") || strings.Contains(page, "old") {
		t.Errorf("the page is\n%s", page)
	}
	for _, want := range []string{"| profiles | one matches | 10 – 40 |", "| pods | new pod in a quota | 0 – 300 |", "| pods in a list |", "| whole clusters of pause pods |"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}

// TestStandInAnswersAsAnAPIServer in the ways that the measurement depends on.
func TestStandInAnswersAsAnAPIServer(t *testing.T) {
	api := &standIn{has: map[string]objects{"pods": pods(5), "elasticquotas": quotas(5, true)}, patched: map[string][]byte{}, version: newest}
	server := httptest.NewServer(api)
	defer server.Close()
	ask := func(method, path, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", map[bool]string{true: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}[strings.HasSuffix(path, "meta")])
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		var text bytes.Buffer
		_, _ = text.ReadFrom(response.Body)
		if !json.Valid(text.Bytes()) {
			t.Errorf("%s %s: no JSON: %.300s", method, path, &text)
		}
		return response.StatusCode, text.String()
	}
	quota := "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/quotas/elasticquotas/quota-3"
	patch := `{"metadata":{"resourceVersion":"%s","annotations":{"record":%s}}}`
	for _, c := range []struct {
		method, path, body string
		code               int
		has                string
		items              int // of a list
	}{
		{"GET", "/api/v1/pods?limit=2", "", 200, `"continue":"2"`, 2},
		{"GET", "/api/v1/pods?limit=2&continue=4", "", 200, `"continue":""`, 1},
		{"GET", "/api/v1/pods?limit=2&resourceVersion=0", "", 200, `"nodeName":"node-4"`, 5},
		{"GET", "/api/v1/pods?meta", "", 200, `"continue":""`, 5},
		{"GET", "/api/v1/nodes", "", 200, `"items":[]`, 0},
		{"GET", "/api/v1/pods?watch=1&sendInitialEvents=true", "", 422, "Invalid", 0},
		{"GET", "/api/v1/namespaces/shop/pods/web-3", "", 404, "NotFound", 0},
		{"GET", quota, "", 200, `"resourceVersion":"4"`, 0},
		{"PATCH", quota, fmt.Sprintf(patch, "7", `"x"`), 409, "Conflict", 0},
		{"PATCH", quota, fmt.Sprintf(patch, "4", `"x"`), 200, `"record":"x"`, 0},
		{"PATCH", quota, fmt.Sprintf(patch, "4", `"y"`), 409, "Conflict", 0},
		{"PATCH", quota, fmt.Sprintf(patch, "1000001", "null"), 200, `"resourceVersion":"1000002"`, 0},
		{"GET", strings.Replace(quota, "-3", "-5", 1), "", 404, "NotFound", 0},
	} {
		code, text := ask(c.method, c.path, c.body)
		items := strings.Count(text, `{"metadata":{"resourceVersion":`)
		if code != c.code || !strings.Contains(text, c.has) || strings.Contains(text, `"items"`) && items != c.items {
			t.Errorf("%s %s: %d, %d items, want %d with %s: %.400s", c.method, c.path, code, items, c.code, c.has, text)
		}
		if strings.Contains(c.path, "meta") && strings.Contains(text, `"spec"`) {
			t.Errorf("%s: more than the metadata: %.300s", c.path, text)
		}
	}
}

// TestQuotaTreeHasFiveLevels, however many quotas there are, and the quota of the reviews is at its end.
func TestQuotaTreeHasFiveLevels(t *testing.T) {
	for _, count := range []int{10, 100, 1000, 10_000} {
		all := quotas(count, false)
		levels := 0
		for name := fmt.Sprintf("quota-%d", leaf(count, false)); name != "koordinator-root-quota"; levels++ {
			var i int
			_, _ = fmt.Sscanf(name, "quota-%d", &i)
			metadata, _ := all.text(i)
			if last := levels == 0; last == strings.Contains(metadata, "is-parent") {
				t.Errorf("of %d, %s is a parent: %v", count, name, last)
			}
			_, after, _ := strings.Cut(metadata, quotaParent+`":"`)
			name, _, _ = strings.Cut(after, `"`)
		}
		if levels != 5 {
			t.Errorf("of %d: %d levels", count, levels)
		}
	}
}

func TestGrowthFlags(t *testing.T) {
	for args, want := range map[string]string{"pods": `unknown argument "pods"`, "-run (": "missing closing", "-run nothing": "matches nothing"} {
		if err := growthCommand(t.Context(), strings.Fields(args), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
