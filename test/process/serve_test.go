package process

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/command"
	"usher.dev/usher/routes"
	"usher.dev/usher/server"
	"usher.dev/usher/test/harness"
)

// syncBuffer is written by the service and read by the test.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// running is a service under test.
type running struct {
	reviews, operations string // addresses
	client              *http.Client
	log, out            *syncBuffer
	stop                context.CancelFunc
	code                chan int
}

// start runs `usher serve` on free ports and waits until it serves.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	state := t.TempDir()
	s := &running{log: &syncBuffer{}, out: &syncBuffer{}, stop: stop, code: make(chan int, 1)}
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--state-dir", state, "--log-format", "json", "--shutdown-delay", "0s"}, args...)
	go func() {
		s.code <- command.Program{Suites: routes.Suites(), Version: "dev", In: strings.NewReader(""), Out: s.out, Err: s.log, Serve: server.Run}.Run(ctx, args)
	}()
	t.Cleanup(stop)
	serving := s.waitLog(t, `"msg":"serving"`)
	var line struct{ Reviews, Operations string }
	if err := json.Unmarshal([]byte(serving), &line); err != nil {
		t.Fatal(err)
	}
	s.reviews, s.operations = line.Reviews, line.Operations
	pool := x509.NewCertPool()
	if ca, err := os.ReadFile(filepath.Join(state, "ca.crt")); err == nil {
		pool.AppendCertsFromPEM(ca)
	}
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}, Timeout: maxWait}
	return s
}

// waitLog waits for a line that contains text.
func (s *running) waitLog(t *testing.T, text string) string {
	t.Helper()
	for end := time.Now().Add(maxWait); time.Now().Before(end); {
		for line := range strings.Lines(s.log.String()) {
			if strings.Contains(line, text) {
				return line
			}
		}
		select {
		case code := <-s.code:
			t.Fatalf("ended with %d:\n%s", code, s.log)
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatalf("the log never said %s:\n%s", text, s.log)
	return ""
}

func (s *running) get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := s.client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	text, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(text)
}

func (s *running) post(t *testing.T, sample string) (*http.Response, *admissionv1.AdmissionResponse) {
	t.Helper()
	route, _, _ := strings.Cut(sample, "/")
	r, err := s.client.Post("https://"+s.reviews+"/"+route, "application/json", bytes.NewReader(harness.ReadSample(t, sample)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		t.Fatal(err)
	}
	return r, review.Response
}

// TestServe starts the service like `make run`, calls all of it, changes its policy, and stops it.
func TestServe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{names: {denied: [offensive]}}`)
	s := start(t, "--config", file)
	for url, want := range map[string]string{
		"https://" + s.reviews + "/healthz":      "ok",
		"https://" + s.reviews + "/health":       "ok",
		"http://" + s.operations + "/healthz":    "ok",
		"http://" + s.operations + "/readyz":     "ok",
		"http://" + s.operations + "/metrics":    "usher_policy_current 1",
		"http://" + s.operations + "/metrics?x=": "usher_certificate_expiry_timestamp_seconds",
	} {
		if code, text := s.get(t, url); code != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %.200s, want %s", url, code, text, want)
		}
	}
	r, denied := s.post(t, "validate-pods/denied-names")
	if denied.Allowed || r.Proto != "HTTP/1.1" || r.TLS.Version != tls.VersionTLS13 {
		t.Errorf("%s, TLS %x: %+v", r.Proto, r.TLS.Version, denied)
	}
	for _, want := range []string{"https://" + s.reviews, "ca.crt", "-d @samples/reviews/mutate-pods/lifespan-three.json"} {
		if !strings.Contains(s.out.String(), want) {
			t.Errorf("the greeting lacks %s:\n%s", want, s.out)
		}
	}
	write(`{names: {denied: [offensive], surprise: 1}}`)
	s.waitLog(t, "the policy in force stays")
	if _, text := s.get(t, "http://"+s.operations+"/metrics"); !strings.Contains(text, "usher_policy_current 0") {
		t.Error("a bad policy does not show in the metrics")
	}
	if _, still := s.post(t, "validate-pods/denied-names"); still.Allowed {
		t.Error("a bad policy ended the one in force")
	}
	write(`{names: {denied: [rude]}}`)
	eventually(t, "the new policy is in force", func() bool {
		_, now := s.post(t, "validate-pods/denied-names")
		return now.Allowed
	})
	s.stop()
	if code := <-s.code; code != 0 {
		t.Errorf("ended with %d:\n%s", code, s.log)
	}
}

// The curl lines of the startup hints work as printed.
func TestGreetingIsTrue(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	for _, plain := range []bool{false, true} {
		args := []string{}
		if plain {
			args = append(args, "--plain")
		}
		s := start(t, args...)
		lines := 0
		for line := range strings.Lines(s.out.String()) {
			if !strings.HasPrefix(line, "  curl ") {
				continue
			}
			lines++
			request, shown := strings.CutSuffix(strings.Replace(strings.TrimSpace(line), " | bin/", " | ", 1), " | usher show")
			if !shown {
				t.Errorf("the answer is not made readable: %s", line)
			}
			out, err := exec.Command("sh", "-c", request).CombinedOutput()
			if err != nil || !strings.Contains(string(out), `"uid"`) {
				t.Errorf("%s: %v %s", line, err, out)
			}
		}
		if lines != 3 {
			t.Errorf("%d curl lines:\n%s", lines, s.out)
		}
	}
}

// TestDrain: after the signal the service is not ready, still answers, and closes connections; requests in progress
// complete. The delay is not over before the test is, however slow the machine; TestProcessFinishes waits for the end.
func TestDrain(t *testing.T) {
	p := launched(t, launch{args: []string{"--shutdown-delay", "1h"}})
	reader, writer := io.Pipe()
	body := harness.ReadSample(t, "mutate-pods/lifespan-three")
	answered := make(chan error, 1)
	go func() {
		r, err := p.client.Post("https://"+p.reviews+"/mutate-pods?timeout=30s", "application/json", reader)
		if err == nil && (r.StatusCode != 200 || !r.Close) {
			err = fmt.Errorf("%s, close %v", r.Status, r.Close)
		}
		answered <- err
	}()
	if _, err := writer.Write(body[:100]); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGTERM)
	p.waitLog(t, "draining")
	eventually(t, "it is not ready", func() bool {
		code, text := p.get(t, "http://"+p.operations+"/readyz")
		return code == 503 && text == "draining\n"
	})
	if r, _ := p.post(t, "validate-pods/lifespan-three"); r.StatusCode != 200 || !r.Close {
		t.Errorf("a review while draining: %s, close %v", r.Status, r.Close)
	}
	if _, err := writer.Write(body[100:]); err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
	if err := <-answered; err != nil {
		t.Errorf("the review under way: %v", err)
	}
}

// TestSecondSignal: a draining process ends at once on a second signal, which comes as soon as it says that it drains.
func TestSecondSignal(t *testing.T) {
	for range scaled(3, 10, 200) {
		said, log, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(self, "serve", "--plain", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--log-format", "json", "--shutdown-delay", "1h")
		c.Env, c.Stderr = append(os.Environ(), processMode+"="+asItIs), log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		tooLong := time.AfterFunc(maxWait, func() { _ = c.Process.Kill() })
		_ = log.Close()
		lines := bufio.NewScanner(said)
		for _, msg := range []string{`"msg":"serving"`, `"msg":"draining"`} {
			for lines.Scan() && !strings.Contains(lines.Text(), msg) {
			}
			_ = c.Process.Signal(syscall.SIGTERM)
		}
		if err := c.Wait(); err == nil || c.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			t.Errorf("ended with %v", err)
		}
		tooLong.Stop()
		_ = said.Close()
	}
}

// TestReadyMeansServing: as soon as /readyz says so, reviews are answered, over TLS, with the policy of the file.
func TestReadyMeansServing(t *testing.T) {
	t.Parallel()
	for range scaled(1, 3, 30) {
		policy := filepath.Join(t.TempDir(), "policy.yaml")
		if err := os.WriteFile(policy, []byte("{names: {denied: [offensive]}}"), 0o600); err != nil {
			t.Fatal(err)
		}
		reviews, operations := freeAddress(t), freeAddress(t)
		state := t.TempDir()
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		p := &process{ended: make(chan struct{}), running: &running{reviews: reviews, operations: operations, log: &syncBuffer{}}}
		p.cmd = exec.Command(self, "serve", "--listen", reviews, "--ops-listen", operations, "--state-dir", state, "--config", policy)
		p.cmd.Env, p.cmd.Stderr = append(os.Environ(), processMode+"="+asItIs), p.log
		if err := p.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = p.cmd.Wait()
			close(p.ended)
		}()
		t.Cleanup(func() { p.cleanUp(t) })
		eventually(t, "it is ready", func() bool {
			r, err := http.Get("http://" + operations + "/readyz")
			if err != nil {
				return false
			}
			_ = r.Body.Close()
			return r.StatusCode == http.StatusOK
		})
		p.trust(t, filepath.Join(state, "ca.crt"))
		if got, err := p.send("/validate-pods", harness.ReadSample(t, "validate-pods/denied-names"), nil); err != nil || !strings.Contains(got.body, `"allowed":false`) {
			t.Errorf("ready, but %v, %d %s", err, got.code, got.body)
		}
	}
}

// freeAddress returns an address on which nothing listens yet. Its port is below those that the system gives to connections
// and to listeners on port 0, so that none of the tests beside this one gets it meanwhile.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// TestPortInUse: the error names the flag, and the variable of `make run`, that choose another port.
func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	at := taken.Addr().String()
	for _, c := range []struct{ name, listen, operations, want string }{
		{"reviews", at, "127.0.0.1:0", "--listen " + at + ": another process listens there; choose another port, such as `make run LISTEN=127.0.0.1:PORT`"},
		{"operations", "127.0.0.1:0", at, "--ops-listen " + at + ": another process listens there; choose another port, such as `make run OPS=127.0.0.1:PORT`"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, complaints := run(t, "", "serve", "--plain", "--listen", c.listen, "--ops-listen", c.operations)
			if code != 2 || !strings.Contains(complaints, c.want) {
				t.Errorf("exit code %d: %s", code, complaints)
			}
		})
	}
}

// TestServeOneSuite: the core suite can be served alone, with a policy that has sections for the other one, too.
func TestServeOneSuite(t *testing.T) {
	s := start(t, "--suite", "core", "--config", "samples/policy.yaml", "--cluster-dir", "samples/cluster")
	if response, answer := s.post(t, "mutate-pods/lifespan-three"); response.StatusCode != http.StatusOK || !answer.Allowed {
		t.Errorf("/mutate-pods: %s, %+v", response.Status, answer)
	}
	for path, want := range map[string]int{"/mutate-pods": http.StatusMethodNotAllowed, "/mutate-pod": http.StatusNotFound} {
		if code, body := s.get(t, "https://"+s.reviews+path); code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, body)
		}
	}
	_, all, _ := run(t, "", "webhooks", "--rbac")
	if _, out, _ := run(t, "", "webhooks", "--rbac", "--suite", "core"); strings.Contains(out, "koordinator") || !strings.Contains(all, "koordinator") {
		t.Errorf("the rights of the core suite: %s", out)
	}
}
