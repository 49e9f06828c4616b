package promises

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// TestWhatUsherAdds runs the commands of docs/what-usher-adds.md on samples/webhook and on usher: each does what its column says.
func TestWhatUsherAdds(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("builds and starts two programs")
	}
	for target, dir := range map[string]string{"bin/usher": ".", "bin/webhook": "samples/webhook"} {
		root, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		if out, err := harness.Go(t.Context(), dir, "build", "-o", root+"/"+target, ".").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| [^|]+ \\| `(.+)` \\| `(.+)` \\| `(.+)` \\|$").FindAllStringSubmatch(harness.ReadFile(t, "docs/what-usher-adds.md"), -1)
	if len(rows) != 8 {
		t.Fatalf("%d rows", len(rows))
	}
	for column, program := range []string{"webhook", "usher"} {
		script := "set -u; pid=; trap stop EXIT; . samples/both.sh " + program + "\n"
		var want []string
		for _, row := range rows {
			script += strings.ReplaceAll(row[1], `\|`, "|") + "\n"
			want = append(want, row[2+column])
		}
		c := exec.CommandContext(t.Context(), "bash", "-c", script)
		c.Env = append(os.Environ(), "BOTH="+t.TempDir(), "AT="+freeAddress(t), "OPS="+freeAddress(t))
		out, err := c.Output()
		if got := strings.Join(want, "\n") + "\n"; string(out) != got {
			t.Errorf("%s: %v\ngot:\n%s\nwant:\n%s", program, err, out, got)
		}
	}
}

// freeAddress returns a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
