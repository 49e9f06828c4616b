package process

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTrySaysWhoAnswers: samples/try.sh tells a server of another checkout from none, and says what to do.
func TestTrySaysWhoAnswers(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	running := start(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	other := t.TempDir()
	if code, _, errors := run(t, "", "certs", "init", "--out", filepath.Join(other, "certs")); code != 0 {
		t.Fatal(errors)
	}
	for _, c := range []struct{ name, listen, want string }{
		{"another checkout", running.reviews, "but not with a certificate of"},
		{"nothing", free.Addr().String(), "no usher answers on https://" + free.Addr().String()},
	} {
		t.Run(c.name, func(t *testing.T) {
			try := exec.CommandContext(t.Context(), "samples/try.sh")
			try.Env = append(os.Environ(), "LISTEN="+c.listen, "STATE="+filepath.Join(other, "certs"))
			out, err := try.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) || !strings.Contains(string(out), "make run") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
