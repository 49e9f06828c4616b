package process

import (
	"io"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/handlers"
	"usher.dev/usher/test/harness"
)

// Limits of memory, however much is sent at once.

// holder is a client that sends most of a review and holds back the end.
type holder struct {
	*wire
	rest     string
	filled   chan struct{} // closed when all but the rest was sent, though it may not be read yet
	answered chan struct{} // closed when there is an answer, or none will come
	reply    reply         // then the answer; code 0 if there is none
}

// hold starts a holder that holds back the given number of bytes.
func (p *process) hold(t *testing.T, request string, rest int) *holder {
	t.Helper()
	sent := len(request) - rest
	h := &holder{wire: p.dial(t), rest: request[sent:], filled: make(chan struct{}), answered: make(chan struct{})}
	go func() {
		h.reply, _ = h.answer()
		close(h.answered)
	}()
	go func() {
		if _, err := io.WriteString(h, request[:sent]); err == nil {
			close(h.filled)
		}
	}()
	return h
}

// settle waits until the holder has sent its part, or was refused.
func (h *holder) settle() {
	select {
	case <-h.filled:
	case <-h.answered:
	}
}

// finish sends the rest and returns the answer.
func (h *holder) finish() reply {
	h.settle()
	_, _ = io.WriteString(h, h.rest)
	<-h.answered
	_ = h.Close()
	return h.reply
}

// TestProcessMemoryOfBodies: 50 clients send 6.9 of 7 MiB each, 350 MiB in total. The service accepts 64 MiB and
// rejects the others with a retry. It runs with the memory limit of deploy/base.
func TestProcessMemoryOfBodies(t *testing.T) {
	p := launched(t, asDeployed)
	before := p.goroutines(t)
	request := whole("/mutate-pods?timeout=30s", padded(harness.ReadSample(t, podSample), maxReview))
	var callers []*holder
	for range scaled(20, 50, 200) {
		callers = append(callers, p.hold(t, request, maxReview/70))
	}
	let, refused := 0, 0
	for _, h := range callers {
		switch got := h.finish(); {
		case got.code == 200 && strings.Contains(got.body, `"patch":"`):
			let++
		case got.code == 503 && got.header.Get("Retry-After") == "1":
			refused++
		default:
			t.Errorf("%d, Retry-After %q: %.300s", got.code, got.header.Get("Retry-After"), got.body)
		}
	}
	t.Logf("%d were let in, %d refused", let, refused)
	if shed := p.outcomes(t, handlers.Shed); let == 0 || refused == 0 || shed != refused {
		t.Errorf("%d shed", shed)
	}
	p.wantMemory(t, deployedMemory)
	p.wantNoLeak(t, before)
	p.wantAllRoom(t)
	p.wantNoFault(t)
}

// deployedMemory is the memory limit in deploy/base, in MiB, of which usher sets four fifths as GOMEMLIMIT.
const deployedMemory = 256

var asDeployed = launch{env: []string{"GOMEMLIMIT=204MiB"}}

// TestProcessMemoryLimit: in a container with a memory limit, usher takes four fifths of it, and logs that.
func TestProcessMemoryLimit(t *testing.T) {
	group, reason := memoryGroup(t)
	if reason != "" {
		t.Skip("no cgroup: ", reason)
	}
	p := launched(t, launch{group: group})
	if want := `"from":"the container's limit","level":"info","limit":"204 MiB","msg":"memory limit"`; !strings.Contains(p.log.String(), want) {
		t.Errorf("the log lacks %s\n%s", want, p.log)
	}
	if got := launched(t, asDeployed).log.String(); !strings.Contains(got, `"from":"GOMEMLIMIT"`) {
		t.Errorf("GOMEMLIMIT does not win:\n%s", got)
	}
}

// wantAllRoom checks that all memory for bodies is free, by sending as many of the largest reviews as should fit.
func (p *process) wantAllRoom(t *testing.T) {
	t.Helper()
	largest := padded(harness.ReadSample(t, podSample), maxReview)
	inParallel(7, 7, func(int) {
		got, err := send(p.client, "https://"+p.reviews+"/mutate-pods?timeout=30s", largest, nil)
		if err != nil || got.code != 200 {
			t.Errorf("a large review afterwards: %v, %d %s", err, got.code, got.body)
		}
	})
	p.wantAlive(t)
}

// TestProcessHoldersShutNobodyOut: a few clients that hold the whole limit of bodies do not keep small reviews out.
func TestProcessHoldersShutNobodyOut(t *testing.T) {
	p := launched(t, launch{})
	request := whole("/mutate-pods", padded(harness.ReadSample(t, podSample), maxReview))
	for range 20 {
		p.hold(t, request, maxReview/70).settle()
	}
	p.wantAlive(t)
}

// TestProcessMemoryOfKeptBuffers: a client that sends little occupies little memory, whatever buffers are pooled.
func TestProcessMemoryOfKeptBuffers(t *testing.T) {
	if !longForm() {
		t.Skip("makes 2,500 connections: USHER_LONG=1")
	}
	p := launched(t, asDeployed)
	request := whole("/mutate-pods?timeout=30s", padded(harness.ReadSample(t, podSample), 200<<10))
	for range 5 {
		var finishing []*holder
		for range 250 {
			finishing = append(finishing, p.hold(t, request, 10))
		}
		for _, h := range finishing {
			h.settle()
		}
		for _, h := range finishing { // now they have a buffer of 256 KiB each, and give it back
			h.finish()
		}
		for range 250 {
			p.hold(t, request, len(request)-500).settle()
		}
	}
	p.wantMemory(t, deployedMemory)
}

// crowded returns reviews with the given number of small values, or as many as fit.
func crowded(t *testing.T, values int) map[string][]byte {
	t.Helper()
	fill := func(text string, values int) string {
		return strings.Repeat(text+",", min(values, 7_000_000/len(text+","))) + text
	}
	return map[string][]byte{
		"numbers":     inObject(t, "["+fill("0", values)+"]"),
		"objects":     inObject(t, "["+fill("{}", values)+"]"),
		"keys":        inObject(t, `[`+fill(`{"\/":0}`, values/2)+`]`),
		"tolerations": edited(t, `"restartPolicy"`, `"tolerations": [`+fill(`{}`, values)+`], "restartPolicy"`),
		"containers":  edited(t, `"containers": [`, `"containers": [`+fill(`{}`, values)+`,`),
	}
}

// TestProcessMemoryOfValues: reviews within the size limit with as many small values as possible. Whatever the answer,
// they must not exceed the memory limit.
func TestProcessMemoryOfValues(t *testing.T) {
	if testing.Short() {
		t.Skip("sends 100 MB")
	}
	for name, c := range map[string]struct {
		values, atOnce int
		brief          string // always runs: the others are much the same
	}{
		"too many values":            {3_500_000, 8, ""},
		"as many as may be":          {490_000, 8, ""},
		"as many, from 50 at once":   {490_000, 50, "objects"},
		"as many as a list may have": {9_900, 50, ""},
		"as many as wait for nobody": {2_000, 100, ""},
	} {
		for what, body := range crowded(t, c.values) {
			if what == c.brief || longForm() {
				t.Run(name+" "+what, func(t *testing.T) { sendCrowded(t, body, c.atOnce) })
			}
		}
	}
}

// sendCrowded posts a review several times at once, alternately to its route and to a heartbeat route, which reads it
// before it refuses the kind.
func sendCrowded(t *testing.T, body []byte, atOnce int) {
	t.Helper()
	p := launched(t, asDeployed)
	inParallel(atOnce, atOnce, func(i int) {
		path := []string{"/mutate-pods", "/mutate-nodes"}[i%2] + "?timeout=30s"
		got, err := send(p.client, "https://"+p.reviews+path, body, nil)
		switch {
		case err != nil: // on a busy machine a handshake may take longer than the service waits for one
			t.Log(path, err)
		case !slices.Contains([]int{200, 400, 413, 503}, got.code):
			t.Errorf("%s: %d %.300s", path, got.code, got.body)
		}
	})
	p.wantMemory(t, deployedMemory+deployedMemory/10) // GOMEMLIMIT is soft
	p.wantAlive(t)
}
