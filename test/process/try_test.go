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

// TestTryPostsThree: samples/try.sh posts the three reviews of the greeting, and shows the answers.
func TestTryPostsThree(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	p := launched(t, launch{state: state})
	try := exec.CommandContext(t.Context(), "samples/try.sh")
	try.Env = append(os.Environ(), processMode+"="+asItIs, "USHER="+self, "LISTEN="+p.reviews, "STATE="+state)
	out, err := try.CombinedOutput()
	if want := "3 reviews: 2 allowed (2 changed), 1 denied, 0 not answered as a review; make try CASE=all posts all of samples/README.md\n"; err != nil || !strings.HasSuffix(string(out), want) {
		t.Errorf("%v: it does not end with %s\n%s", err, want, out)
	}
}
