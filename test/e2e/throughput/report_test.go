package main

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

var update = flag.Bool("update", false, "rewrite the goldens from what the code does")

const sample = "testdata/report.json"

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestGoldens(t *testing.T) {
	for _, word := range []string{"table", "charts"} {
		var out strings.Builder
		if err := command(t.Context(), []string{word, sample}, &out, os.Stderr); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", word+".golden")
		if *update {
			if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want := readFile(t, file); out.String() != want {
			t.Errorf("%s differs; if it is meant, `go test ./throughput -run Goldens -update` rewrites it. got:\n%s", file, out.String())
		}
	}
}

func TestReportIsReadAsWritten(t *testing.T) {
	r, err := readReport(sample)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.json")
	if err := writeReport(file, r); err != nil {
		t.Fatal(err)
	}
	if got, want := readFile(t, file), readFile(t, sample); got != want {
		t.Errorf("written again it is:\n%s", got)
	}
}

// TestPageIsOfTheData: the tables of the page are those of the data beside it.
func TestPageIsOfTheData(t *testing.T) {
	root, err := kubetest.Repository()
	if err != nil {
		t.Fatal(err)
	}
	page, data := filepath.Join(root, "docs", "performance-cluster.md"), filepath.Join(root, "docs", "performance-cluster.json")
	written := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(written, []byte(readFile(t, page)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := command(t.Context(), []string{"page", data, written}, os.Stderr, os.Stderr); err != nil {
		t.Fatal(err)
	}
	if readFile(t, written) != readFile(t, page) {
		t.Errorf("%s differs from its data: cd test/e2e && go run ./throughput page ../../docs/performance-cluster.json ../../docs/performance-cluster.md", page)
	}
}

func TestPageNeedsItsMarks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	for text, good := range map[string]bool{"a\n" + pageBegins + "old\n" + pageEnds + "\nb\n": true, "a\nb\n": false, pageBegins: false} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := writePage(file, &report{Commit: "abc"})
		if now := readFile(t, file); (err == nil) != good || good && (strings.Contains(now, "old") || !strings.HasSuffix(now, pageEnds+"\nb\n")) {
			t.Errorf("%q: %v, %s", text, err, now)
		}
	}
}

func TestMediansOfRounds(t *testing.T) {
	took := func(n int) burst {
		return burst{took: time.Second, latencies: make([]time.Duration, n)}
	}
	rounds := []podRound{{took(10), usage{APIServer: 3, Puts: 1}}, {took(30), usage{APIServer: 1, Puts: 9}}, {took(20), usage{APIServer: 2, Puts: 2}}}
	rounds[1].failed, rounds[1].example = 4, errors.New("refused")
	c := podsOf(core, 5, rounds)
	if c.PerSecond != 20 || c.Created != 60 || c.Failed != 4 || c.Example != "refused" || c.Used != (usage{APIServer: 2, Puts: 2}) {
		t.Errorf("%+v", c)
	}
}

func TestUsage(t *testing.T) {
	later := usage{APIServer: 30, Webhook: 4, Etcd: 5, Load: 6, Growth: -2}
	if got := later.since(usage{APIServer: 10, Load: 2}, 2); got != (usage{APIServer: 10, Webhook: 2, Etcd: 2.5, Load: 2, Growth: -1}) || got.cpu() != 16.5 {
		t.Errorf("%+v", got)
	}
	var u usage
	err := parseEtcd("etcd_mvcc_put_total 12\netcd_debugging_mvcc_total_put_size_in_bytes 1.5e+06\netcd_disk_wal_write_bytes_total 7\n"+
		"etcd_disk_wal_fsync_duration_seconds_count 8\netcd_mvcc_db_total_size_in_use_in_bytes 9\n", &u)
	if err != nil || u != (usage{Puts: 12, PutBytes: 1.5e6, WALBytes: 7, Syncs: 8, Growth: 9}) {
		t.Errorf("%+v: %v", u, err)
	}
	if err := parseEtcd("etcd_mvcc_put_total 12\n", &u); err == nil {
		t.Error("a missing metric passes")
	}
}

func TestNumbers(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 0.027123: "0.0271", 27.15: "27.1", 999.6: "1,000", 2049.6: "2,050", 1234567: "1,230,000"} {
		if got := number(value); got != want {
			t.Errorf("%v is %s, want %s", value, got, want)
		}
	}
	if m := median([]float64{3, 1, 2, 10}); m != 2.5 {
		t.Errorf("median %v", m)
	}
	if p := percentile([]int{1, 2, 3, 4}, 99); p != 4 {
		t.Errorf("p99 %v", p)
	}
}
