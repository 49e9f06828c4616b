package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVulnWithoutNetwork: without the database of vulnerabilities, .ci/vuln says that it looked for none.
func TestVulnWithoutNetwork(t *testing.T) {
	out, err := vuln(t, "https://127.0.0.1:1")
	if err != nil || !strings.Contains(out, "govulncheck: skipped: the database https://127.0.0.1:1 cannot be reached: curl:") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestVulnFinds: with a database that has a vulnerability of a function that usher calls, .ci/vuln fails. It analyses all
// of usher, which takes a minute.
func TestVulnFinds(t *testing.T) {
	if os.Getenv("USHER_LONG") == "" {
		t.Skip("analyses all of usher: USHER_LONG=1 go test -run TestVulnFinds ./...")
	}
	db := t.TempDir()
	for name, text := range map[string]string{
		"index/db.json":      `{"modified": "2026-01-01T00:00:00Z"}`,
		"index/modules.json": `[{"path": "github.com/sirupsen/logrus", "vulns": [{"id": "GO-2026-0001", "modified": "2026-01-01T00:00:00Z"}]}]`,
		"ID/GO-2026-0001.json": `{"schema_version": "1.3.1", "id": "GO-2026-0001", "modified": "2026-01-01T00:00:00Z",
			"published": "2026-01-01T00:00:00Z",
			"summary": "a test", "details": "a test", "affected": [{"package": {"name": "github.com/sirupsen/logrus", "ecosystem": "Go"},
			"ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
			"ecosystem_specific": {"imports": [{"path": "github.com/sirupsen/logrus", "symbols": ["New"]}]}}]}`,
	} {
		file := filepath.Join(db, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := vuln(t, "file://"+db)
	if err == nil || !strings.Contains(out, "GO-2026-0001") {
		t.Errorf("%v\n%s", err, out)
	}
}

// vuln runs .ci/vuln with a database.
func vuln(t *testing.T, db string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "../../.ci/vuln")
	cmd.Env = append(os.Environ(), "GOVULNDB="+db)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
