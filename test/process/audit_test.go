package process

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"usher.dev/usher/handlers"
	"usher.dev/usher/test/harness"
)

// TestProcessAuditLog: each decision is one line, in a file, which is moved meanwhile, or on standard output, and all of them are
// written when the process has ended.
func TestProcessAuditLog(t *testing.T) {
	for _, to := range []string{filepath.Join(t.TempDir(), "audit.log"), "-"} {
		p := launched(t, launch{args: []string{"--audit-log", to}})
		body := harness.ReadSample(t, podSample)
		const n = 300
		inParallel(8, n, func(i int) {
			if i == n/2 && to != "-" {
				if err := os.Rename(to, to+".1"); err != nil {
					t.Error(err)
				}
			}
			if got, err := send(p.client, "https://"+p.reviews+"/mutate-pods", body, nil); err != nil || got.code != 200 {
				t.Errorf("%v, %d", err, got.code)
			}
		})
		p.signal(t, syscall.SIGTERM)
		p.wantExit(t)
		text := p.out.String()
		if to != "-" {
			text = harness.ReadFile(t, to+".1") + harness.ReadFile(t, to)
		}
		numbers := map[string]bool{}
		lines := bufio.NewScanner(strings.NewReader(text))
		for lines.Scan() {
			var r handlers.Record
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil || r.Route != "/mutate-pods" || r.Verdict == "" || len(r.Steps) == 0 || r.Time.IsZero() {
				t.Fatalf("%v: %s", err, lines.Text())
			}
			_, number, _ := strings.Cut(r.ID, "-")
			numbers[number] = true
		}
		for i := 1; i <= n; i++ {
			if !numbers[fmt.Sprint(i)] {
				t.Errorf("%s: decision %d of %d is missing", to, i, n)
			}
		}
		if len(numbers) != n {
			t.Errorf("%s: %d lines", to, len(numbers))
		}
	}
}

// TestProcessAuditDiskFull: reviews go on, lost lines are counted, and the log says so once.
func TestProcessAuditDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("no file system to fill: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	p := launched(t, launch{args: []string{"--audit-log", filepath.Join(dir, "audit.log")}})
	body := harness.ReadSample(t, podSample)
	inParallel(8, 1000, func(int) {
		if got, err := send(p.client, "https://"+p.reviews+"/mutate-pods", body, nil); err != nil || got.code != 200 {
			t.Errorf("%v, %d", err, got.code)
		}
	})
	p.signal(t, syscall.SIGTERM)
	p.wantExit(t)
	if n := p.logs("the audit log cannot be written; reviews go on"); n != 1 {
		t.Errorf("the log says so %d times\n%s", n, p.log)
	}
}
