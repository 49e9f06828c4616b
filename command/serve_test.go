package command

import (
	"context"
	"errors"
	"io"
	stdlog "log"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/colocation"
	"usher.dev/usher/server"
	"usher.dev/usher/server/suite"
)

// unsteady is an output that refuses its first writes.
type unsteady struct {
	lock     sync.Mutex
	refusals int
	text     strings.Builder
}

func (u *unsteady) Write(p []byte) (int, error) {
	u.lock.Lock()
	defer u.lock.Unlock()
	if u.refusals--; u.refusals >= 0 {
		return 0, errors.New("no space left")
	}
	return u.text.Write(p)
}

func (u *unsteady) String() string {
	u.lock.Lock()
	defer u.lock.Unlock()
	return u.text.String()
}

// TestServeWhenOutputFails: an audit log on standard output goes on after a failed write, and neither a lost line of it nor a lost greeting
// is an error when the server stops. What libraries log is in the log.
func TestServeWhenOutputFails(t *testing.T) {
	review, err := os.ReadFile("../samples/reviews/validate-pod/required-labels-missing.json")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdlog.SetOutput(os.Stderr) })
	for audit, audits := range map[string]bool{"--audit-log=-": true, "--audit-log=": false} {
		out, log, code := &unsteady{refusals: 1}, &unsteady{}, make(chan int, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			program := Program{Suites: suite.List{colocation.Suite()}, Out: out, Err: log, Serve: server.Run}
			code <- program.Run(ctx, []string{"serve", "--plain", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--shutdown-delay=0s",
				"--log-format=json", "--cluster-dir=../samples/cluster", audit})
		}()
		address := served(t, log)
		for i := 0; i < 2 || i < 1000 && audits && out.String() == ""; i++ { // lines are written together
			answer, err := http.Post("http://"+address+"/validate-pod", "application/json", strings.NewReader(string(review)))
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
		}
		stdlog.Print("of a library")
		stop()
		if got := <-code; got != 0 || strings.Contains(out.String(), `"/validate-pod"`) != audits || !strings.Contains(log.String(), `"msg":"of a library"`) {
			t.Errorf("%s: exit code %d, written: %q\n%s", audit, got, out, log)
		}
	}
}

// TestServeFailsUnread: a start that fails ends with its exit code, although nobody reads the output. Who reads it, reads why.
func TestServeFailsUnread(t *testing.T) {
	out, in := io.Pipe() // a write waits for its reader
	defer func() { _ = out.Close() }()
	for _, read := range []bool{false, true} {
		var text unsteady
		program := Program{Suites: suite.List{colocation.Suite()}, Out: io.Discard, Err: in, Serve: server.Run}
		if read {
			program.Err = &text
		}
		t.Setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1") // and so it says how to go on
		code := program.Run(t.Context(), []string{"serve", "--plain", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--config=/nowhere"})
		said := strings.Count(text.String(), "open /nowhere") >= 1 && strings.Contains(text.String(), rescue)
		if code != 2 || said != read {
			t.Errorf("exit code %d: %s", code, text.String())
		}
	}
}

// served waits until the log names the address at which reviews are served.
func served(t *testing.T, log *unsteady) string {
	address := regexp.MustCompile(`"reviews":"([^"]+)"`)
	for range 6000 {
		if found := address.FindStringSubmatch(log.String()); found != nil {
			return found[1]
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("nothing is served:\n%s", log)
	return ""
}
