package promises

import (
	"regexp"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// TestRescueStandsWhereItIsLookedFor: a start that fails in a cluster logs, in one line, the command that ends a
// lock-out, and the pages have the same: near the top of what is about clusters.
func TestRescueStandsWhereItIsLookedFor(t *testing.T) {
	code, _, errors := usher(t, "serve", "--cert-dir=no/such/directory")
	lines := strings.Split(strings.TrimSpace(errors), "\n")
	logged := regexp.MustCompile(`kubectl [^"]*`).FindString(lines[len(lines)-1])
	if code != 2 || logged == "" {
		t.Fatalf("code %d, and no command: %s", code, errors)
	}
	for file, heading := range map[string]string{"README.md": "## Deploy\n", "deploy/README.md": "# Running usher in a cluster\n",
		"docs/operations.md": "## What happens while usher is unavailable\n"} {
		_, part, found := strings.Cut(harness.ReadFile(t, file), heading)
		if at := strings.Index(part, logged+"\n"); !found || at < 0 || heading[1] != '#' && at > 400 {
			t.Errorf("%s: must have, as a line below %s: %s", file, heading, logged)
		}
	}
	for _, file := range []string{"docs/troubleshooting.md", "docs/runbook.md", "deploy/monitoring/rules.yaml"} {
		if !strings.Contains(harness.ReadFile(t, file), logged) {
			t.Errorf("%s: must have: %s", file, logged)
		}
	}
	if _, _, errors := usher(t, "serve", "--log-format=xml"); strings.Contains(errors, "kubectl") {
		t.Errorf("on a laptop there is nothing to rescue: %s", errors)
	}
}
