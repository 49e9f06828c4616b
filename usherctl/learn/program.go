package learn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/usherctl/probe"
	"usher.dev/usher/usherctl/requests"
)

// Probe is tests of `usherctl probe` that the learner's webhook must pass.
type Probe struct {
	Sample string `json:"sample"`
	Tests  string `json:"tests"` // a regular expression of their names
}

// program is the webhook of a learner: that at the address in the file url of the folder, or else main.go, which is built and run.
type program struct {
	folder string
	runs   bool   // it may be built and run
	url    string // empty: it does not run yet
	ca     []byte
	stops  []func()
}

func (p *program) stop() {
	for _, stop := range slices.Backward(p.stops) {
		stop()
	}
}

// named returns the address in the file url.
func (p *program) named() string {
	text, _ := os.ReadFile(filepath.Join(p.folder, "url"))
	return strings.TrimSpace(string(text))
}

// start starts the webhook, unless it runs. wrong is what the learner has to mend.
func (p *program) start(ctx context.Context) (wrong string, err error) {
	if p.url != "" {
		return "", nil
	}
	if !p.runs {
		return "", errors.New("it runs a program; use usherctl learn in a terminal")
	}
	if at := p.named(); at != "" {
		if u, err := url.Parse(at); err != nil || u.Scheme != "https" || u.Host == "" {
			return fmt.Sprintf("the file url says %q: want an address such as https://127.0.0.1:8443/mutate", at), nil
		}
		p.url = at
		p.ca, _ = os.ReadFile(filepath.Join(p.folder, "ca.crt")) // the test of the certificate says that it is missing
		return "", nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", errors.New("there is no Go here to build main.go: run your webhook, and write its address into the file url")
	}
	dir, err := os.MkdirTemp("", "usher-webhook")
	if err != nil {
		return "", err
	}
	p.stops = append(p.stops, func() { _ = os.RemoveAll(dir) })
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, "webhook"), "main.go")
	build.Dir, build.Env = p.folder, append(os.Environ(), "GOWORK=off", "GOTOOLCHAIN=local")
	if out, err := build.CombinedOutput(); err != nil {
		return "main.go does not compile: " + strings.TrimPrefix(string(out), "# command-line-arguments\n"), nil
	}
	return p.run(ctx, dir)
}

// run runs the program of a directory, and waits until it listens.
func (p *program) run(ctx context.Context, dir string) (wrong string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	at := l.Addr().String()
	_ = l.Close()
	var said bytes.Buffer
	webhook := exec.CommandContext(ctx, filepath.Join(dir, "webhook"), "-listen", at)
	webhook.Dir, webhook.Stdout, webhook.Stderr = dir, &said, &said
	if err := webhook.Start(); err != nil {
		return "", err
	}
	ended := make(chan struct{})
	go func() {
		_ = webhook.Wait()
		close(ended)
	}()
	p.stops = append(p.stops, func() {
		_ = webhook.Process.Kill()
		<-ended
	})
	for range 1000 {
		select {
		case <-ended:
			return "the program ends: " + said.String(), nil
		case <-time.After(10 * time.Millisecond):
		}
		if conn, err := net.Dial("tcp", at); err == nil {
			_ = conn.Close()
			p.url = "https://" + at + "/mutate"
			p.ca, _ = os.ReadFile(filepath.Join(dir, "ca.crt"))
			return "", nil
		}
	}
	return "the program does not listen on the address of -listen", nil
}

// ask sends a review, and returns the answer.
func (p *program) ask(ctx context.Context, review []byte) (answer []byte, wrong string, err error) {
	if wrong, err = p.start(ctx); wrong != "" || err != nil {
		return nil, wrong, err
	}
	x := (&probe.Hook{URL: p.url}).Ask(ctx, review)
	if x.Err != nil || x.Code != http.StatusOK {
		return nil, "the webhook does not answer: " + x.Outcome(), nil
	}
	return x.Answer, "", nil
}

// unanswered returns why a review is not one that an API server may send, or that the webhook of the start state answers it.
func (l Lesson) unanswered(ctx context.Context, name string, sent []byte, webhook *program) (string, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(sent, &review); err != nil || review.Request == nil {
		return "it is no AdmissionReview with a request", nil
	}
	q, empty := review.Request, func(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }
	switch {
	case review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview":
		return fmt.Sprintf("it has apiVersion %q and kind %q", review.APIVersion, review.Kind), nil
	case q.UID == "" || q.Kind.Kind != "Pod":
		return "the API server sends a uid, and here the kind Pod", nil
	case !slices.Contains([]admissionv1.Operation{"CREATE", "UPDATE", "DELETE"}, q.Operation):
		return fmt.Sprintf("there is no operation %q on a Pod", q.Operation), nil
	case !empty(q.Object.Raw) && json.Unmarshal(q.Object.Raw, &corev1.Pod{}) != nil:
		return "its object is no Pod", nil
	case empty(q.Object.Raw) != (q.Operation == "DELETE"):
		return fmt.Sprintf("with the operation %s, the API server sends another object: only that of DELETE is null", q.Operation), nil
	}
	start, err := l.Start()
	if err != nil {
		return "", err
	}
	if webhook.named() == "" { // that of the lesson, whatever the learner has made of it
		webhook.folder += "/.start"
		webhook.stops = append(webhook.stops, func() { _ = os.RemoveAll(webhook.folder) })
		if err := Write(webhook.folder, start); err != nil {
			return "", err
		}
	}
	if _, wrong, err := webhook.ask(ctx, start[name]); wrong != "" || err != nil {
		return wrong, err
	}
	answer, wrong, err := webhook.ask(ctx, sent)
	if err != nil {
		return "", err
	}
	var given admissionv1.AdmissionReview
	if wrong != "" || json.Unmarshal(answer, &given) != nil || given.Response == nil {
		return "", nil
	}
	return "the webhook answers it: " + string(answer), nil
}

// probed returns what some tests of usherctl probe find in the learner's webhook, or "".
func probed(ctx context.Context, p Probe, webhook *program) (string, error) {
	if wrong, err := webhook.start(ctx); wrong != "" || err != nil {
		return wrong, err
	}
	sample, err := os.ReadFile(filepath.Join(webhook.folder, p.Sample))
	if err != nil {
		return p.Sample + " is missing", nil
	}
	chosen, err := regexp.Compile("^(" + p.Tests + ")$")
	if err != nil {
		return "", err
	}
	hook, end, err := probe.At(ctx, webhook.url, true, webhook.ca, requests.Read(p.Sample, bytes.NewReader(sample)))
	if err != nil {
		return "", err
	}
	defer end()
	tests := slices.DeleteFunc(probe.Tests(), func(t probe.Test) bool { return !chosen.MatchString(t.Name) })
	var found []string
	probe.Run(ctx, hook, tests, probe.Bound{Requests: 400, Time: time.Minute, Patience: 15 * time.Second}, func(res probe.Result) {
		for _, f := range res.Failures {
			found = append(found, "usherctl probe, test "+res.Test.Name+": "+f.Text)
		}
		if res.NotJudged != "" {
			found = append(found, "usherctl probe, test "+res.Test.Name+", not judged: "+res.NotJudged)
		}
	})
	return strings.Join(found, "\n"), nil
}
