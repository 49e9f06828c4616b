package process

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/command"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
	"usher.dev/usher/mutators"
	"usher.dev/usher/routes"
	"usher.dev/usher/server"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/test/harness"
)

// The harness of the process tests: the service in processes of its own (this file), connections that misuse it
// (wire_test.go), and what a cluster puts in front of it: a balancer (balancer_test.go), and clients that behave like the
// API server's (load_test.go).

// processMode is the environment variable that makes the test binary the service, so that tests need no build.
const processMode = "USHER_TEST_PROCESS"

const (
	asItIs   = "serve"           // the command line as main runs it, signals and all
	troubled = "serve-panicking" // the same service with two more steps in /mutate-pods: see troubles
)

func TestMain(m *testing.M) {
	switch os.Getenv(processMode) {
	case asItIs:
		os.Exit(command.Program{Suites: routes.Suites(), Version: "test", In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Serve: server.Run}.Run(context.Background(), os.Args[1:]))
	case troubled:
		os.Exit(serveTroubled())
	}
	if err := os.Chdir("../.."); err != nil { // samples and testdata are the repository's
		panic(err)
	}
	os.Exit(m.Run())
}

// sampleInstance returns the instance of `make run`.
func sampleInstance(t testing.TB) suite.Instance {
	return harness.OpenInstance(t, routes.Suites(), harness.DemoGates(t, routes.Suites()), harness.DefaultPolicy(t, routes.Suites()))
}

// sampleMux serves the routes of the embedded policy.
func sampleMux(t testing.TB) http.Handler {
	t.Helper()
	return harness.DefaultServer().Serve(sampleInstance(t).Routes())
}

// serveTroubled does what main does, with another chain in /mutate-pods.
func serveTroubled() int {
	program := command.Program{Suites: withTroubles(routes.Suites()), Version: "test", In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Serve: server.Run}
	return program.Run(context.Background(), os.Args[1:])
}

// Annotations of a pod that cause trouble.
const panicWanted, slowWanted = "usher.test/panic", "usher.test/slow"

func troubles() []admit.Mutator[admit.Pod] {
	return []admit.Mutator[admit.Pod]{
		{Name: "panicking", Doc: "fails as a bug does", Run: func(_ context.Context, _ *admit.Request, pod *admit.Pod) error {
			if text, ok := pod.Annotation(panicWanted); ok {
				return []error{}[len(text)]
			}
			return nil
		}},
		{Name: "slow", Doc: "takes all the time there is", Run: func(ctx context.Context, _ *admit.Request, pod *admit.Pod) error {
			if _, ok := pod.Annotation(slowWanted); ok {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}},
	}
}

func withTroubles(all suite.List) suite.List {
	routes := all[0].Routes
	all[0].Routes = func(e suite.Env) []admit.Route {
		table := routes(e)
		for i := range table {
			if table[i].Path == "/mutate-pods" {
				table[i].Chain = admit.Mutate(admit.AsPod, append(mutators.Pods(e.Policy, admit.Questions{}), troubles()...))
			}
		}
		return table
	}
	return all
}

// launch says how to start a process; the zero value is valid.
type launch struct {
	mode  string   // default: asItIs
	state string   // the state directory; default: a new one
	env   []string // NAME=value
	args  []string
	group string      // file of a cgroup that takes the process up; default: none
	out   *os.File    // standard output; default: process.out
	err   *os.File    // standard error; default: process.log
	log   *syncBuffer // for process.log, if what reads err fills it; default: a new one
}

// process is a service in a process of its own.
type process struct {
	*running
	cmd   *exec.Cmd
	roots *x509.CertPool
	ended chan struct{}
}

// launched starts a process and waits until it serves.
func launched(t *testing.T, l launch) *process {
	t.Helper()
	if l.state == "" {
		l.state = t.TempDir()
	}
	if l.mode == "" {
		l.mode = asItIs
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	logged := l.err == nil || l.log != nil
	if l.log == nil {
		l.log = &syncBuffer{}
	}
	p := &process{ended: make(chan struct{}), running: &running{log: l.log, out: &syncBuffer{}, code: make(chan int, 1)}}
	p.cmd = exec.Command(self, append([]string{"serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--state-dir", l.state,
		"--log-format", "json", "--shutdown-delay", "0s"}, l.args...)...)
	if l.group != "" { // before it takes any memory
		p.cmd = exec.Command("sh", append([]string{"-c", `echo $$ >"$0" && exec "$@"`, l.group}, p.cmd.Args...)...)
	}
	p.cmd.Env = slices.Concat(os.Environ(), l.env, []string{processMode + "=" + l.mode})
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.log
	if l.out != nil {
		p.cmd.Stdout = l.out
	}
	if l.err != nil {
		p.cmd.Stderr = l.err
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		p.code <- p.cmd.ProcessState.ExitCode()
		close(p.ended)
	}()
	t.Cleanup(func() { p.cleanUp(t) })
	p.findAddresses(t, logged)
	p.trust(t, filepath.Join(l.state, "ca.crt"))
	return p
}

// greeting matches the addresses in what a person is told.
var greeting = regexp.MustCompile(`on https://(\S+); health and metrics are on http://(\S+)`)

// findAddresses waits for the addresses in the log, or in the greeting.
func (p *process) findAddresses(t *testing.T, logged bool) {
	t.Helper()
	if logged {
		var line struct{ Reviews, Operations string }
		if err := json.Unmarshal([]byte(p.waitLog(t, `"msg":"serving"`)), &line); err != nil {
			t.Fatal(err)
		}
		p.reviews, p.operations = line.Reviews, line.Operations
		return
	}
	eventually(t, "it greets", func() bool { return greeting.MatchString(p.out.String()) })
	found := greeting.FindStringSubmatch(p.out.String())
	p.reviews, p.operations = found[1], found[2]
}

// trust makes the client trust a CA file, if it is there: with --cert-dir it is elsewhere.
func (p *process) trust(t *testing.T, file string) {
	t.Helper()
	p.roots = x509.NewCertPool()
	if ca, err := os.ReadFile(file); err == nil {
		p.roots.AppendCertsFromPEM(ca)
	}
	p.client = &http.Client{Timeout: maxWait, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: p.roots}, MaxIdleConnsPerHost: 100}}
}

// maxWait is the maximum wait for something that must happen. It is only reached when the test fails, so it is long enough
// for a busy machine with the race detector.
const maxWait = 3 * time.Minute

// cleanUp ends the process and checks for what must not happen in any test.
func (p *process) cleanUp(t *testing.T) {
	_ = p.cmd.Process.Kill()
	<-p.ended
	for _, never := range []string{"DATA RACE", "fatal error", "http: panic serving"} {
		if strings.Contains(p.log.String(), never) {
			t.Errorf("%s:\n%.8000s", never, p.log)
		}
	}
	if text := p.log.String(); t.Failed() {
		t.Logf("the log ends with\n%s", text[max(0, len(text)-2000):])
	}
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// wantExit waits for the process to end by itself with code 0.
func (p *process) wantExit(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(maxWait):
		t.Fatal("the process does not end")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("ended with %v", p.cmd.ProcessState)
	}
}

// eventually polls until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(maxWait); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatal("never came true: " + what)
}

// metric returns the sum of the samples whose line begins with prefix and contains all of the labels.
func (p *process) metric(t *testing.T, prefix string, labels ...string) (sum float64) {
	t.Helper()
	_, text := p.get(t, "http://"+p.operations+"/metrics")
	for line := range strings.Lines(text) {
		value := line[strings.LastIndexByte(line, ' ')+1:]
		if strings.HasPrefix(line, prefix) && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(line, l) }) {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(line)
			}
			sum += n
		}
	}
	return sum
}

// outcomes returns the number of reviews with an outcome.
func (p *process) outcomes(t *testing.T, outcome handlers.Outcome) int {
	t.Helper()
	return int(p.metric(t, "usher_reviews_total{", fmt.Sprintf("outcome=%q", outcome)))
}

func (p *process) goroutines(t *testing.T) int {
	t.Helper()
	return int(p.metric(t, "go_goroutines "))
}

// wantNoLeak waits until there are about as many goroutines as before.
func (p *process) wantNoLeak(t *testing.T, before int) {
	t.Helper()
	now := 0
	eventually(t, "the goroutines are gone", func() bool {
		now = p.goroutines(t)
		return now <= before+3 // a connection of metrics or a probe may come and go
	})
	t.Logf("goroutines: %d before, %d after", before, now)
}

// memory returns a line of /proc/PID/status in MiB. VmHWM is the peak resident memory.
func (p *process) memory(t *testing.T, line string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skip("memory is read from /proc: ", err)
	}
	for l := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(l, line+":"); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(kb), " kB"))
			if err != nil {
				t.Fatal(l)
			}
			return n >> 10
		}
	}
	t.Fatal("no " + line)
	return 0
}

// wantMemory limits the peak resident memory, in MiB. The race detector's shadow of all memory is several times larger;
// with it the limit applies to what Go obtained from the system, which is somewhat more than was resident at one time.
func (p *process) wantMemory(t *testing.T, bound int) {
	t.Helper()
	peak := p.memory(t, "VmHWM")
	if raceDetector() {
		peak, bound = int(p.metric(t, "go_memstats_sys_bytes "))>>20, bound*3/2
	}
	if peak > bound {
		t.Errorf("%d MiB were resident, want at most %d", peak, bound)
	}
	t.Logf("peak memory %d MiB, bound %d", peak, bound)
}

func raceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// longForm is set for long manual runs.
func longForm() bool { return os.Getenv("USHER_LONG") != "" }

// scaled picks a number for go test -short, for CI, and for USHER_LONG=1.
func scaled(short, normal, long int) int {
	switch {
	case longForm():
		return long
	case testing.Short():
		return short
	}
	return normal
}

// goodSamples are reviews of every route, changed, denied and amplified.
var goodSamples = []string{"mutate-pods/lifespan-three", "validate-pods/denied-names", "mutate-nodes/overcommit"}

// rightAnswers returns the answers to goodSamples under a policy, byte for byte, from routes that have received nothing
// invalid.
func rightAnswers(t *testing.T, policy *config.Policy) map[string]string {
	t.Helper()
	edge := handlers.Server{Limits: handlers.NewLimits(1), Draining: func() bool { return false },
		Observe: func(admit.Route, handlers.Decision, time.Duration) {}}
	mux, answers := edge.Serve(suite.Instance{Suites: routes.Suites(), Policy: policy, Gates: gate.Defaults(routes.Suites().Gates())}.Routes()), map[string]string{}
	for _, name := range goodSamples {
		answers[name] = harness.Post(mux, name, harness.ReadSample(t, name)).Body.String()
	}
	return answers
}

// wantAlive posts well-formed reviews on new connections and compares the answers with the goldens.
func (p *process) wantAlive(t *testing.T) {
	t.Helper()
	for _, name := range goodSamples[:scaled(1, 1, len(goodSamples))] {
		p.wantGolden(t, name)
	}
}

func (p *process) wantGolden(t *testing.T, name string) {
	t.Helper()
	route, _, _ := strings.Cut(name, "/")
	body := harness.ReadSample(t, name)
	got, err := p.send("/"+route+"?timeout=10s", body, nil)
	if err != nil {
		t.Fatalf("a well-formed review is not answered: %v", err)
	}
	recorded := httptest.NewRecorder()
	recorded.Code, recorded.Body = got.code, bytes.NewBufferString(got.body)
	text, _ := harness.Describe(t, body, recorded)
	harness.CompareGolden(t, harness.SampleFile(name)+".golden", text)
}
