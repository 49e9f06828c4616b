package cluster

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/bench/report"
)

var update = flag.Bool("update", false, "rewrite the goldens from what the code does")

// The samples of both runs.
const samplePods, sampleNodes = "testdata/pods.json", "testdata/nodes.json"

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func readReport(t *testing.T, file string) *Report {
	t.Helper()
	r, err := report.Read[Report](file)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestGoldens(t *testing.T) {
	pods, nodes := readReport(t, samplePods), readReport(t, sampleNodes)
	for name, got := range map[string]string{"pods": podSection(pods), "nodes": nodeSection(nodes)} {
		file := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want := readFile(t, file); got != want {
			t.Errorf("%s differs; if it is meant, `go test ./cluster -run Goldens -update` rewrites it. got:\n%s", file, got)
		}
	}
}

func TestReportIsReadAsWritten(t *testing.T) {
	for _, sample := range []string{samplePods, sampleNodes} {
		file := filepath.Join(t.TempDir(), "report.json")
		if err := report.Write(file, readReport(t, sample)); err != nil {
			t.Fatal(err)
		}
		if got, want := readFile(t, file), readFile(t, sample); got != want {
			t.Errorf("written again it is:\n%s", got)
		}
	}
}

// TestDocsAreOfTheData: the tables in docs match the data beside them.
func TestDocsAreOfTheData(t *testing.T) {
	docs, written := filepath.Join("..", "..", "..", "docs", "design"), t.TempDir()
	for _, name := range []string{podsPlace.Page, podsPlace.Data, nodesPlace.Data} {
		if err := os.WriteFile(filepath.Join(written, name), []byte(readFile(t, filepath.Join(docs, name))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	draw := []string{"-draw", "-docs", written}
	if err := errors.Join(Command(t.Context(), draw, io.Discard, io.Discard), NodesCommand(t.Context(), draw, io.Discard, io.Discard)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{podsPlace.Page, podsPlace.Data, nodesPlace.Data} {
		if readFile(t, filepath.Join(written, name)) != readFile(t, filepath.Join(docs, name)) {
			t.Errorf("docs/design/%s is not made of the data beside it: `bin/load cluster -draw` and `bin/load nodes -draw` write it", name)
		}
	}
}

// TestReadsRounds reads what a test of test/e2e/throughput wrote.
func TestReadsRounds(t *testing.T) {
	rounds := readFile(t, "../../e2e/throughput/testdata/rounds.golden")
	var progress strings.Builder
	r, err := read(strings.NewReader(rounds), report.Head{Commit: "abc"}, &progress)
	if err != nil {
		t.Fatal(err)
	}
	want := &Report{Head: report.Head{Commit: "abc", Kubernetes: "v1", Rounds: 3}, PodBytes: 10, NodeBytes: 20,
		Pods: []podCell{{Way: core, Clients: 5, Created: 6, PerSecond: 2, P50: 1, P99: 2, Used: usage{APIServer: 2, Puts: 2}, Slow: &slow{4, 2, 2}, Failed: 4, Example: "refused"},
			{Way: both, Clients: 5, Created: 1, PerSecond: 1, P50: 7, P99: 7, Slow: &slow{}}},
		Nodes: []nodeCell{{Mode: amplified, Nodes: 9, Statuses: 3, Leases: 4, P50: 1, P99: 1, Used: usage{Webhook: 1.5, Growth: -8}, Failed: 1, Skipped: 2, Example: "lease of node amplified-0: late"}}}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got\n%+v, want\n%+v", r, want)
	}
	for _, text := range []string{"usher, core", "4 failed, such as: refused", "4 took more than 1 s, 2 more than 5 s, 2 timed out", "2 statuses were stored without usher"} {
		if !strings.Contains(progress.String(), text) {
			t.Errorf("no %q in the progress\n%s", text, &progress)
		}
	}
	if lines := strings.Count(rounds, "\n"); lines != 6 {
		t.Errorf("%d lines", lines)
	}
}

// TestNotMeasuredIsNotMet: without the constant webhook, nobody knows.
func TestNotMeasuredIsNotMet(t *testing.T) {
	r := &Report{Pods: []podCell{{Way: core, Clients: 1, Created: 1, P50: 1}}}
	if text := podSection(r); !strings.Contains(text, "usher, core: the constant webhook was not measured") || !strings.Contains(text, "| 0.00 |  | 0 | 0 | 0 |") {
		t.Error(text)
	}
}

// TestReadRefuses: what was before a wrong line remains.
func TestReadRefuses(t *testing.T) {
	const good = `{"pods":{"way":"core","clients":1,"seconds":1,"latencies":[1]}}`
	for text, cells := range map[string]int{"": 0, "no JSON": 0, `{"run":{"mistyped":1}}`: 0, good: 1, good + `{"pods":{"way`: 1} {
		r, err := read(strings.NewReader(text), report.Head{}, io.Discard)
		if r == nil && cells > 0 || r != nil && len(r.Pods) != cells {
			t.Errorf("%s: %+v", text, r)
		}
		if wrong := text != "" && text != good; wrong != (err != nil) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestMeasureNeedsTheProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	if r, err := measure(t.Context(), "-nodes=false", report.Options{}, io.Discard); r != nil || err == nil || !strings.Contains(err.Error(), "make load ARGS=cluster") {
		t.Errorf("%v, %v", r, err)
	}
}

// TestMeasureStopsTheProgram: after a wrong line, and what the program had printed before counts.
func TestMeasureStopsTheProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	script := "#!/bin/sh\ntest $1$2 = -quick=true-nodes=true || exit 3\necho '{\"pods\":{\"way\":\"core\",\"clients\":1,\"seconds\":1,\"latencies\":[3,1,2]}}'\necho wrong\nexec sleep 60\n"
	if err := os.Mkdir("bin", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(runner, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r, err := measure(t.Context(), "-nodes=true", report.Options{Quick: true}, io.Discard)
	if err == nil || r == nil || len(r.Pods) != 1 || r.Pods[0].P99 != 3e-6 || !r.Quick || time.Since(began) > 30*time.Second {
		t.Errorf("%+v, %v", r, err)
	}
}
