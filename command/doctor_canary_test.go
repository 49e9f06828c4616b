package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/colocation"
	"usher.dev/usher/server/suite"
)

// TestCanaryFlags: nothing is sent without a yes, and what a canary cannot be is refused.
func TestCanaryFlags(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	const nobody = "{clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}"
	if err := os.WriteFile(kubeconfig, []byte(nobody), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, says string }{
		{"--canary --kubeconfig " + kubeconfig, "--yes"},
		{"--canary --yes --cluster-dir .", "--cluster=api"},
		{"--canary --operation DELETE", "--operation"},
		{"--canary --as jane", "--as"},
		{"--canary --list", "--list"},
		{"--yes", "--canary"},
	} {
		t.Run(c.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			program := Program{Suites: suite.List{colocation.New()}.WithDefaults(), In: strings.NewReader("y\n"), Out: &out, Err: &errs}
			if code := program.Run(t.Context(), append([]string{"doctor"}, strings.Fields(c.args)...)); code != 2 || !strings.Contains(errs.String(), c.says) || out.Len() > 0 {
				t.Errorf("exit code %d: %s%s", code, out.String(), errs.String())
			}
		})
	}
}
