package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"usher.dev/usher/certs"
	"usher.dev/usher/test/reviews"
)

// listen serves a yardstick in this process.
func listen(t *testing.T, handler http.HandlerFunc) (address string, config *tls.Config) {
	t.Helper()
	dir := t.TempDir()
	config, err := makeCertificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	source, err := certs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(handler)
	go func() {
		_ = server.Serve(tls.NewListener(listener, certs.TLSConfig(source.GetCertificate, certs.Profile{})))
	}()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String(), config
}

func open(t *testing.T, handler http.HandlerFunc, n int) []*connection {
	t.Helper()
	address, config := listen(t, handler)
	list, err := connect(t.Context(), address, config, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(list) })
	return list
}

// TestPlainPipeline: the yardstick returns the expected patch, also in answers so long that they are chunked, and the
// connection remains usable for the next review.
func TestPlainPipeline(t *testing.T) {
	conn := open(t, answerPlain, 1)[0]
	all := reviews.Core()
	for _, r := range append(all, all[0]) {
		answer, err := conn.post(requestBytes(r))
		if err != nil {
			t.Fatalf("%s: %v", r.Name, err)
		}
		object, err := outcome(r, answer)
		if err != nil {
			t.Fatalf("%s: %v", r.Name, err)
		}
		wantEdits(t, r, object)
		r.Patched = !r.Patched
		if _, err := outcome(r, answer); err == nil {
			t.Errorf("%s: patch or no patch, it is all the same", r.Name)
		}
	}
}

// wantEdits checks the edits of the default policy.
func wantEdits(t *testing.T, r reviews.Review, object any) {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{`"allocatable":{"cpu":"31800m"`: 1, `"capacity":{"cpu":"31900m"`: 1}
	if r.Path == "/mutate-pods" {
		containers := strings.Count(string(raw), `"imagePullPolicy"`)
		want = map[string]int{`{"name":"KUBE","value":"true"}`: max(containers, 1), `"key":"acme.com/lifespan-remaining"`: 3}
	}
	if r.Name == "20KB-pod-unchanged" { // has no lifespan: tolerates any
		want[`"key":"acme.com/lifespan-remaining"`] = 1
	}
	for text, times := range want {
		if got := strings.Count(string(raw), text); got != times {
			t.Errorf("%s: %s stands in it %d times, want %d", r.Name, text, got, times)
		}
	}
}

func answerOK(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, `{"response":{"allowed":true}}`)
}

func TestBurstSendsAllAndChecksAll(t *testing.T) {
	list := open(t, answerOK, 3)
	request := requestBytes(reviews.Review{Path: "/any", Body: []byte("{}")})
	answer, err := list[0].post(request)
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.Clone(answer)
	_, latencies, err := burst(t.Context(), list, 100, request, like(first))
	if err != nil || len(latencies) != 100 || latencies[0] <= 0 || latencies[0] > latencies[99] {
		t.Errorf("%d latencies, sorted: %v", len(latencies), err)
	}
	if _, _, err := burst(t.Context(), list, 100, request, like([]byte("something else"))); err == nil {
		t.Error("a wrong answer passed")
	}
}

func TestStatusIsChecked(t *testing.T) {
	conn := open(t, answerPlain, 1)[0]
	_, err := conn.post(requestBytes(reviews.Review{Path: "/mutate-pods", Body: []byte("no JSON")}))
	if err == nil || !strings.Contains(err.Error(), "500") || !strings.Contains(err.Error(), "invalid character") {
		t.Errorf("%v", err)
	}
}

func TestLike(t *testing.T) {
	const first = `{"allowed":true,"patch":"abcd"}`
	for got, want := range map[string]bool{
		first:                              true,
		`{"allowed":true,"patch":"dcba"}`:  true,
		`{"allowed":true,"patch":"abc"}`:   false,
		`{"allowed":frue,"patch":"abcd"}`:  false,
		`{"allowed":true,"potch":"abcd"}`:  false,
		`{"allowed":true,"patch":"abcde"}`: false,
	} {
		if err := like([]byte(first))([]byte(got)); (err == nil) != want {
			t.Errorf("%s: %v", got, err)
		}
	}
}

// TestOwnAccount reads the accounts of this process.
func TestOwnAccount(t *testing.T) {
	pid := os.Getpid()
	before, err := cpuTime(pid)
	if err != nil {
		t.Skip("no /proc:", err)
	}
	ticks, err := cpuTicks(pid)
	if err != nil || before <= 0 || ticks-before > before/2+50e6 {
		t.Errorf("CPU time %v, and in ticks %v: %v", before, ticks, err)
	}
	if peak, err := peakMemory(pid); err != nil || peak < 1<<20 || peak > 4<<30 {
		t.Errorf("peak memory %d: %v", peak, err)
	}
}

func TestReadHeap(t *testing.T) {
	server := http.Server{Handler: metrics()}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	runtime.GC() // no further collection until the end: the freed memory does not change
	first, err := readHeap(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	kept := make([]*[1 << 10]byte, 1000)
	for i := range kept {
		kept[i] = new([1 << 10]byte)
	}
	second, err := readHeap(t.Context(), listener.Addr().String())
	if more := second.minus(first); err != nil || more.objects < float64(len(kept)) || more.bytes < float64(len(kept)<<10) || more.objects >= second.objects {
		t.Errorf("%d KB in %d objects are seen as %+v: %v", len(kept), len(kept), more, err)
	}
	runtime.KeepAlive(kept)
}
