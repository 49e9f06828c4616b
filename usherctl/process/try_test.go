package process

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// TestTryAnswersTheShelf: samples/try.sh all brings the answers that samples/README.md has, also those for which it needs no server.
func TestTryAnswersTheShelf(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	state := t.TempDir()
	p := serve(t, state, "--cluster-dir", "samples/cluster", "--feature-gates", strings.TrimSpace(harness.ReadFile(t, "samples/feature-gates")))
	try := exec.CommandContext(t.Context(), "samples/try.sh", "all")
	try.Env = append(programsOnPath(t), "USHER=usher", "USHERCTL=usherctl", "LISTEN="+p.reviews, "STATE="+state)
	out, err := try.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shelf := harness.ReadFile(t, "samples/README.md")
	rows := func(answer string) int {
		return len(regexp.MustCompile(`(?m)^\| \[.*\| `+answer+`[^|]*\|$`).FindAllString(shelf, -1))
	}
	want := fmt.Sprintf("%d reviews: %d allowed (%d changed), %d denied, %d not answered as a review\n",
		rows(""), rows("allowed")+rows("changed"), rows("changed"), rows("denied"), rows("HTTP"))
	if !strings.HasSuffix(string(out), want) {
		t.Errorf("it does not end with %s\n%s", want, out)
	}
}
