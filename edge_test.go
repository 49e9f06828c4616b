package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"

	"usher.dev/usher/certs"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
)

// What the network, the callers and the operators may do to a service, done to processes: bodies and connections of every bad
// kind, too many of them, clients that go away, bugs in steps, signals under load. After each the service answers as before.
//
// go test -short runs a short form, USHER_LONG=1 a long one.

const podSample = "mutate-pods/lifespan-three"

// maxReview is the largest review that is read.
const maxReview = 7 << 20

// badBody is a body in a well-formed HTTP request.
type badBody struct {
	name string
	body []byte
	code int
	says string // part of the answer
}

// edited is the pod sample with one text replaced.
func edited(t *testing.T, old, now string) []byte {
	t.Helper()
	body := readSample(t, podSample)
	if !bytes.Contains(body, []byte(old)) {
		t.Fatalf("%s has no %s", podSample, old)
	}
	return bytes.Replace(body, []byte(old), []byte(now), 1)
}

// inObject is the pod sample with an unknown field of some value at the top of the pod.
func inObject(t *testing.T, value string) []byte {
	t.Helper()
	return edited(t, `"spec": {`, `"unknown": `+value+`, "spec": {`)
}

func zipped(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

// wide is text in two bytes a character, as some editors save it.
func wide(text []byte) []byte {
	b := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(string(text))) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	return b
}

func badBodies(t *testing.T) []badBody {
	good := readSample(t, podSample)
	allowed, denied, patched := `"allowed":true`, `"allowed":false`, `"patch":"`
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	return []badBody{
		{"empty", nil, 400, "ends too early"},
		{"white space", []byte(" \r\n\t"), 400, "ends too early"},
		{"one byte under the limit", padded(good, maxReview-1), 200, patched},
		{"at the limit", padded(good, maxReview), 200, patched},
		{"one byte over the limit", padded(good, maxReview+1), 413, "larger than 7 MiB"},
		{"far over the limit", padded(good, 3*maxReview), 413, "larger than 7 MiB"},
		{"limit of nonsense", bytes.Repeat([]byte("x"), maxReview), 400, "not JSON"},
		{"a string of 6 MiB", inObject(t, `"`+strings.Repeat("x", 6<<20)+`"`), 200, patched},
		{"nested deep", inObject(t, nested(9_990)), 200, patched},
		{"nested too deep", inObject(t, nested(10_001)), 400, "nested deeper"},
		{"nested for ever", []byte(strings.Repeat("[", maxReview)), 400, "nested deeper"},
		{"objects for ever", []byte(strings.Repeat(`{"a":`, maxReview/5)), 400, "nested deeper"},
		{"another kind of review", edited(t, "AdmissionReview", "ConversionReview"), 400, "is no AdmissionReview"},
		{"another version", edited(t, "admission.k8s.io/v1", "admission.k8s.io/v3"), 400, "is no AdmissionReview"},
		{"another kind of object", bytes.ReplaceAll(good, []byte(`"Pod"`), []byte(`"Secret"`)), 400, "not for v1 Secret"},
		{"null", []byte("null"), 400, "is no AdmissionReview"},
		{"null request", []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}`), 400, "request.uid is missing"},
		{"request of another type", []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":[]}`), 400, "request"},
		{"null object", edited(t, `"object": {`, `"object": null, "else": {`), 400, "request.object is missing"},
		{"duplicate key in the review", edited(t, `"operation"`, `"operation": "DELETE", "operation"`), 400, "duplicate key"},
		{"duplicate key in the object", edited(t, `"labels"`, `"labels": {}, "labels"`), 400, "duplicate key"},
		{"duplicate key, escaped", edited(t, `"labels"`, `"l\u0061bels": {}, "labels"`), 400, "duplicate key"},
		{"invalid UTF-8 in a value", inObject(t, "\"\xff\""), 400, "invalid UTF-8"},
		{"invalid UTF-8 in a key", inObject(t, "{\"\xc0\xaf\": 1}"), 400, "invalid UTF-8"},
		{"half a surrogate pair", inObject(t, `"\ud800"`), 400, "surrogate"},
		{"a zero byte", inObject(t, "\"a\x00b\""), 400, "control character"},
		{"byte order mark", append([]byte("\xef\xbb\xbf"), good...), 400, "not JSON"},
		{"UTF-16", wide(good), 400, "not JSON"},
		{"1e999 in an unknown field", inObject(t, "1e999"), 200, patched},
		{"1e999 where a bool stands", edited(t, `"dryRun": false`, `"dryRun": 1e999`), 400, "dryRun"},
		{"1e999 where a string stands", edited(t, `-requested": "3"`, `-requested": 1e999`), 200, denied},
		{"10,000 digits", inObject(t, strings.Repeat("9", 10_000)), 200, patched},
		{"10,000 digits of exponent", inObject(t, "1e"+strings.Repeat("9", 10_000)), 200, patched},
		{"a number of the limit's size", []byte(strings.Repeat("9", maxReview)), 400, "is no AdmissionReview"},
		{"two reviews", append(slices.Clip(good), good...), 400, "something follows"},
		{"a review and a comment", append(slices.Clip(good), "// done"...), 400, "something follows"},
		{"gzip, not said", zipped(good), 400, "not JSON"},
		{"a deletion", edited(t, "CREATE", "DELETE"), 200, allowed},
	}
}

// TestProcessBadBodies: each bad body gets the status of the caller's fault, and the next review its answer.
func TestProcessBadBodies(t *testing.T) {
	p := launched(t, launch{})
	for _, c := range badBodies(t) {
		t.Run(c.name, func(t *testing.T) {
			got, err := p.send("/mutate-pods?timeout=30s", c.body, nil)
			if err != nil || got.code != c.code || !strings.Contains(got.body, c.says) || c.code != 200 && len(got.body) > 400 {
				t.Errorf("%v, %d %.500s, want %d %s", err, got.code, got.body, c.code, c.says)
			}
			p.wantAlive(t)
		})
	}
	p.wantNoFault(t)
}

// wantNoFault: all was the callers' fault, so there is no error of ours, and no panic.
func (p *process) wantNoFault(t *testing.T) {
	t.Helper()
	if failed, panics := p.outcomes(t, handlers.Failed), p.metric(t, "usher_panics_total"); failed != 0 || panics != 0 {
		t.Errorf("%d errors of ours, %v panics", failed, panics)
	}
}

// TestProcessBadHeads: requests that are refused for their heads.
func TestProcessBadHeads(t *testing.T) {
	p := launched(t, launch{})
	good := readSample(t, podSample)
	for _, c := range []struct {
		name   string
		header map[string]string
		body   []byte
		code   int
		says   string
	}{
		{"gzip", map[string]string{"Content-Encoding": "gzip"}, zipped(good), 415, "plain JSON"},
		{"gzip that is none", map[string]string{"Content-Encoding": "gzip"}, good, 415, "plain JSON"},
		{"a form", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, good, 415, "application/json"},
		{"protobuf", map[string]string{"Content-Type": "application/vnd.kubernetes.protobuf"}, good, 415, "application/json"},
		{"no media type", map[string]string{"Content-Type": ""}, good, 415, "application/json"},
		{"a media type that is none", map[string]string{"Content-Type": ";;="}, good, 415, "application/json"},
		{"a charset", map[string]string{"Content-Type": "application/json; charset=utf-8"}, good, 200, `"patch":"`},
		{"asked to wait for 100 Continue", map[string]string{"Expect": "100-continue"}, good, 200, `"patch":"`},
		{"refused before all of it is sent", map[string]string{"Content-Type": "text/plain"}, padded(good, maxReview), 415, "application/json"},
		{"asked for something else", map[string]string{"Expect": "a miracle"}, good, 417, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := p.send("/mutate-pods", c.body, c.header)
			if err != nil || got.code != c.code || !strings.Contains(got.body, c.says) {
				t.Errorf("%v, %d %.500s, want %d %s", err, got.code, got.body, c.code, c.says)
			}
			p.wantAlive(t)
		})
	}
	p.wantNoFault(t)
}

// badWire is what somebody writes on a TLS connection.
type badWire struct {
	name string
	text string
	// codes are the answers in order; an answer of 0 means that the connection is closed without one.
	codes []int
	// open keeps the connection open for writing, for what the server must refuse by itself; else its end is told.
	open bool
}

func chunked(chunks ...string) string {
	var b strings.Builder
	b.WriteString("POST /mutate-pods HTTP/1.1\r\nHost: usher\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, c := range chunks {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(c), c)
	}
	return b.String()
}

func badWires(t *testing.T) []badWire {
	body := string(readSample(t, podSample))
	good, length := whole("/mutate-pods", []byte(body)), len(body)
	lengths := func(header string) string {
		return strings.Replace(good, fmt.Sprintf("Content-Length: %d", length), header, 1)
	}
	flood := func(n int) string {
		return "POST /mutate-pods HTTP/1.1\r\nHost: usher\r\n" + strings.Repeat("A: b\r\n", n)
	}
	return []badWire{
		{"as it should be", good, []int{200}, true},
		{"asked to go on", strings.Replace(good, "Host:", "Expect: 100-continue\r\nHost:", 1), []int{100, 200}, true},
		{"refused before it is asked to go on", "POST /mutate-pods HTTP/1.1\r\nHost: usher\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n", []int{415}, true},
		{"chunked", chunked(body) + "0\r\n\r\n", []int{200}, true},
		{"chunked byte by byte", chunked(strings.Split(body, "")...) + "0\r\n\r\n", []int{200}, true},
		{"chunked, with a trailer", chunked(body) + "0\r\nA: b\r\n\r\n", []int{200}, true},
		{"chunked, with a large trailer", chunked(body) + "0\r\nA: " + strings.Repeat("b", 100_000) + "\r\n\r\n", []int{400}, true},
		{"chunked beyond the limit", chunked(slices.Repeat([]string{strings.Repeat(" ", 1<<20)}, 8)...) + "0\r\n\r\n", []int{413}, true},
		{"chunks without end", chunked(body[:9], body[9:]), []int{400}, false},
		{"a chunk cut short", chunked(body)[:500], []int{400}, false},
		{"a chunk of no number", chunked(body) + "zz\r\n\r\n", []int{400}, true},
		{"a chunk of a negative number", chunked() + "-1\r\n\r\n", []int{400}, true},
		{"a chunk of too large a number", chunked() + "ffffffffffffffffff\r\n", []int{400}, true},
		{"a chunk longer than it says", chunked() + "3\r\n{\"kind\"\r\n", []int{400}, true},
		{"gzip as a transfer", strings.Replace(chunked(body), "chunked", "gzip, chunked", 1), []int{501}, true},
		{"chunked, and a length, which then does not count", strings.Replace(chunked(body)+"0\r\n\r\n", "Host:", "Content-Length: 3\r\nHost:", 1), []int{200}, true},
		{"no body and no length", lengths("A: b"), []int{400}, false},
		{"longer than it says", strings.Replace(good, fmt.Sprint(length), fmt.Sprint(length-99), 1), []int{400, 400, 0}, true},
		{"shorter than it says", strings.Replace(good, fmt.Sprint(length), fmt.Sprint(length+1), 1), []int{400}, false},
		{"a length that says 8 EiB", lengths("Content-Length: 9223372036854775807"), []int{400}, false},
		{"a length of no number", lengths("Content-Length: many"), []int{400, 0}, true},
		{"a negative length", lengths("Content-Length: -1"), []int{400, 0}, true},
		{"two lengths", lengths(fmt.Sprintf("Content-Length: %d\r\nContent-Length: 3", length)), []int{400, 0}, true},
		{"HTTP/1.0", strings.Replace(good, "HTTP/1.1", "HTTP/1.0", 1), []int{200, 0}, true},
		{"HTTP/0.9", "GET /mutate-pods\r\n", []int{400, 0}, true},
		{"HTTP/2 that was not agreed on", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{400, 0}, true},
		{"pipelined", good + good + good, []int{200, 200, 200}, true},
		{"pipelined, good and bad", good + whole("/mutate-pods", []byte("{")) + whole("/validate-pods", []byte(body)), []int{200, 400, 200}, true},
		{"no host", strings.Replace(good, "Host: usher\r\n", "", 1), []int{400, 0}, true},
		{"a header of 64 KiB", strings.Replace(good, "Host:", "A: "+strings.Repeat("b", 64<<10)+"\r\nHost:", 1), []int{431, 0}, true},
		{"many headers", flood(20_000), []int{431, 0}, true},
		{"headers without end", flood(200_000), []int{431, 0}, true},
		{"a path of 64 KiB", "POST /" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\n\r\n", []int{431, 0}, true},
		{"a line that never ends", strings.Repeat("a", 1<<20), []int{431, 0}, true},
		{"garbage inside TLS", "\x00\x01\x02\r\n\r\n", []int{400, 0}, true},
		{"nothing", "", []int{0}, false},
		{"half a head", good[:20], []int{400, 0}, false},
		{"another method", "GET /mutate-pods HTTP/1.1\r\nHost: usher\r\n\r\n", []int{405}, true},
		{"another path", strings.Replace(good, "/mutate-pods", "/nowhere", 1), []int{404}, true},
	}
}

// TestProcessBadWires writes it all byte for byte, and reads the answers.
func TestProcessBadWires(t *testing.T) {
	p := launched(t, launch{})
	for _, c := range badWires(t) {
		t.Run(c.name, func(t *testing.T) {
			w := p.dial(t)
			go func() { // the server may answer, and close, before it has read everything
				_, _ = io.WriteString(w, c.text)
				if !c.open {
					_ = w.CloseWrite()
				}
			}()
			for i, want := range c.codes {
				got, err := w.answer()
				if want == 0 && err == nil || want != 0 && got.code != want {
					t.Fatalf("answer %d: %v, %d %.300s, want %d", i, err, got.code, got.body, want)
				}
			}
			_ = w.Close()
			p.wantAlive(t)
		})
	}
	p.wantNoFault(t)
}

// TestProcessTruncated: no beginning of a review counts as one, whether the body ends there or the connection does.
func TestProcessTruncated(t *testing.T) {
	p := launched(t, launch{})
	good := bytes.TrimSpace(readSample(t, podSample))
	for n := 0; n < len(good); n += scaled(97, 5, 1) {
		got, err := send(p.client, "https://"+p.reviews+"/mutate-pods", good[:n], nil)
		if err != nil || got.code != 400 {
			t.Fatalf("a body of the first %d bytes: %v, %d %s", n, err, got.code, got.body)
		}
	}
	p.wantAlive(t)
	for n := 0; n < len(good); n += scaled(397, 61, 1) {
		w := p.dial(t)
		_, _ = io.WriteString(w, whole("/mutate-pods", good)[:len(head("/mutate-pods", len(good)))+n])
		_ = w.CloseWrite()
		if got, err := w.answer(); err != nil || got.code != 400 {
			t.Fatalf("a connection that ends after the first %d bytes: %v, %d %s", n, err, got.code, got.body)
		}
		_ = w.Close()
	}
	p.wantAlive(t)
	p.wantNoFault(t)
}

// TestProcessSlowBody: a body that comes in drops is read; one that stops in the middle is nobody's review.
func TestProcessSlowBody(t *testing.T) {
	p := launched(t, launch{})
	body := readSample(t, podSample)
	before := p.goroutines(t)
	for _, cut := range []bool{false, true} {
		w := p.dial(t)
		request := whole("/mutate-pods", body)
		drops := len(request) - scaled(20, 100, len(body))
		if _, err := io.WriteString(w, request[:drops]); err != nil {
			t.Fatal(err)
		}
		for i := drops; i < len(request) && !(cut && i == len(request)-1); i++ {
			if _, err := w.Write([]byte{request[i]}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		p.wantAlive(t)
		if cut {
			w.abort()
			continue
		}
		if got, err := w.answer(); err != nil || got.code != 200 || !strings.Contains(got.body, `"patch":"`) {
			t.Errorf("a slow review: %v, %d %s", err, got.code, got.body)
		}
		_ = w.Close()
	}
	eventually(t, "the one that was cut is counted", func() bool { return p.gaveUp(t) == 1 })
	p.wantNoLeak(t, before)
	p.wantNoFault(t)
}

// gaveUp counts the reviews whose callers went away, seen as that or as half a body.
func (p *process) gaveUp(t *testing.T) int {
	t.Helper()
	return p.outcomes(t, handlers.Canceled) + p.outcomes(t, handlers.Invalid)
}

// TestProcessBodyThatNeverEnds takes as long as the service waits for a body.
func TestProcessBodyThatNeverEnds(t *testing.T) {
	if !longForm() {
		t.Skip("takes 35 s: USHER_LONG=1")
	}
	p := launched(t, launch{})
	w := p.dial(t)
	if _, err := io.WriteString(w, whole("/mutate-pods", readSample(t, podSample))[:300]); err != nil {
		t.Fatal(err)
	}
	if got, err := w.answer(); err != nil || got.code != 400 {
		t.Errorf("%v, %d %s", err, got.code, got.body)
	}
	if _, err := w.answer(); err == nil {
		t.Error("the connection stays open")
	}
	p.wantAlive(t)
}

// TestProcessNotTLS: what is not our TLS is closed, and nothing else happens.
func TestProcessNotTLS(t *testing.T) {
	p := launched(t, launch{})
	good := whole("/mutate-pods", readSample(t, podSample))
	for _, c := range []struct{ name, text, answer string }{
		{"nothing", "", ""},
		{"garbage", strings.Repeat("\x00\xff garbage ", 1000), ""},
		{"a record of the largest size", "\x16\x03\x01\xff\xff" + strings.Repeat("x", 1<<16), ""},
		{"half a greeting", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ""},
		{"HTTP", good, "HTTP/1.0 400"},
		{"SSH", "SSH-2.0-OpenSSH_9.6\r\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", p.reviews)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(patience))
			_, _ = io.WriteString(conn, c.text)
			_ = conn.(*net.TCPConn).CloseWrite()
			answer, err := io.ReadAll(conn) // to the end, or a reset: it is closed
			if errors.Is(err, os.ErrDeadlineExceeded) || !strings.HasPrefix(string(answer), c.answer) || strings.Contains(string(answer), "uid") {
				t.Errorf("%v, %q", err, answer)
			}
			p.wantAlive(t)
		})
	}
	for name, config := range map[string]*tls.Config{
		"HTTP/2 only": {NextProtos: []string{"h2"}},
		"TLS 1.1":     {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
		"no trust":    {RootCAs: nil},
		"CBC only":    {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}},
	} {
		if name != "no trust" {
			config.RootCAs = p.roots
		}
		if c, err := tls.Dial("tcp", p.reviews, config); err == nil {
			_ = c.Close()
			t.Errorf("%s: was accepted", name)
		}
		p.wantAlive(t)
	}
	p.wantNoFault(t)
}

// TestProcessIdleConnections: many clients that keep a connection alive cost some memory each and nothing more, and nothing is
// left of them.
func TestProcessIdleConnections(t *testing.T) {
	p := launched(t, launch{})
	many := scaled(100, 1000, 5000)
	if most := openFiles(t)/2 - 100; most < many {
		t.Logf("only %d connections instead of %d: ulimit -n", most, many)
		many = most
	}
	p.wantAlive(t)
	before := p.goroutines(t)
	open := make(chan *wire, many)
	request := whole("/mutate-pods", readSample(t, podSample))
	inParallel(16, many, func(int) {
		w, err := p.tryDial()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(w, request)
		if got, err := w.answer(); err != nil || got.code != 200 {
			t.Errorf("%v, %d %s", err, got.code, got.body)
		}
		open <- w
	})
	close(open)
	p.wantAlive(t)
	if now := p.goroutines(t); now < many || now > 2*many+before+20 {
		t.Errorf("%d goroutines for %d connections", now, many)
	}
	p.wantMemory(t, 60+many/10) // 100 KiB for each
	for w := range open {
		_ = w.Close()
	}
	p.wantNoLeak(t, before)
	p.wantAlive(t)
	p.wantNoFault(t)
}

// openFiles is how many files, and so connections, this process and those it starts may have open.
func openFiles(t *testing.T) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(min(limit.Cur, 1<<20))
}

// inParallel does something n times, so many at once.
func inParallel(workers, n int, do func(i int)) {
	var all sync.WaitGroup
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	for range workers {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	all.Wait()
}

// holder is a caller who sends most of a review and holds back the end.
type holder struct {
	*wire
	rest     string
	filled   chan struct{} // closed when all but the rest was sent, though it may not be read yet
	answered chan struct{} // closed when there is an answer, or none will come
	reply    reply         // then the answer; code 0 if there is none
}

// hold starts a holder who sends all but so many bytes.
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

// settle waits until the holder has sent what it will send, or was refused.
func (h *holder) settle() {
	select {
	case <-h.filled:
	case <-h.answered:
	}
}

// finish sends the rest and gives the answer.
func (h *holder) finish() reply {
	h.settle()
	_, _ = io.WriteString(h, h.rest)
	<-h.answered
	_ = h.Close()
	return h.reply
}

// TestProcessMemoryOfBodies: 50 callers send 6.9 of 7 MiB each. All together they would need 350 MiB; the service takes in
// 64 MiB and sends the others away to try again. It runs with the memory that deploy/base gives it.
func TestProcessMemoryOfBodies(t *testing.T) {
	p := launched(t, asDeployed)
	before := p.goroutines(t)
	request := whole("/mutate-pods", padded(readSample(t, podSample), maxReview))
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

// deployedMemory is the limit in deploy/base, in MiB; Go is told to stay below 230.
const deployedMemory = 256

var asDeployed = launch{env: []string{"GOMEMLIMIT=230MiB"}}

// wantAllRoom sends as many of the largest reviews at once as there should be room for: nobody holds any of it.
func (p *process) wantAllRoom(t *testing.T) {
	t.Helper()
	largest := padded(readSample(t, podSample), maxReview)
	inParallel(7, 7, func(int) {
		got, err := send(p.client, "https://"+p.reviews+"/mutate-pods", largest, nil)
		if err != nil || got.code != 200 {
			t.Errorf("a large review afterwards: %v, %d %s", err, got.code, got.body)
		}
	})
	p.wantAlive(t)
}

// TestProcessHoldersShutNobodyOut: a few callers who hold all the room for bodies do not keep small reviews out.
func TestProcessHoldersShutNobodyOut(t *testing.T) {
	p := launched(t, launch{})
	request := whole("/mutate-pods", padded(readSample(t, podSample), maxReview))
	for range 20 {
		p.hold(t, request, maxReview/70).settle()
	}
	p.wantAlive(t)
}

// TestProcessMemoryOfKeptBuffers: who sends little holds little, whatever room the buffer has that was there for him.
func TestProcessMemoryOfKeptBuffers(t *testing.T) {
	p := launched(t, asDeployed)
	middling := whole("/mutate-pods", padded(readSample(t, podSample), 900<<10))
	for range scaled(8, 10, 20) {
		var finishing []*holder
		for range 50 {
			finishing = append(finishing, p.hold(t, middling, 10))
		}
		for _, h := range finishing {
			h.settle()
		}
		for _, h := range finishing { // now they have a buffer of 1 MiB each, and give it back
			h.finish()
		}
		for range 50 {
			p.hold(t, middling, len(middling)-500).settle()
		}
	}
	p.wantMemory(t, deployedMemory)
	p.wantAlive(t)
}

// TestProcessMemoryOfValues: reviews within the limit of bytes whose values are as many and as small as can be. Whatever the
// answer is, it may not take more memory than there is.
func TestProcessMemoryOfValues(t *testing.T) {
	fill := func(value string) string { return strings.Repeat(value+",", 7_000_000/(len(value)+1)) + value }
	for name, body := range map[string][]byte{
		"numbers":     inObject(t, "["+fill("0")+"]"),
		"objects":     inObject(t, "["+fill("{}")+"]"),
		"keys":        inObject(t, `[`+fill(`{"\/":0}`)+`]`),
		"tolerations": edited(t, `"restartPolicy"`, `"tolerations": [`+fill(`{}`)+`], "restartPolicy"`),
		"containers":  edited(t, `"containers": [`, `"containers": [`+fill(`{}`)+`,`),
	} {
		t.Run(name, func(t *testing.T) {
			p := launched(t, asDeployed)
			inParallel(8, 8, func(int) {
				got, err := send(p.client, "https://"+p.reviews+"/mutate-pods", body, nil)
				if err != nil || got.code != 200 && got.code != 400 && got.code != 413 && got.code != 503 {
					t.Errorf("%v, %d %.300s", err, got.code, got.body)
				}
			})
			p.wantMemory(t, deployedMemory)
			p.wantAlive(t)
		})
	}
}

// TestProcessLongTexts: what a caller writes into the small fields of a review is neither logged nor told at any length.
func TestProcessLongTexts(t *testing.T) {
	p := launched(t, asDeployed)
	long := strings.Repeat("x", 3<<20)
	for name, body := range map[string][]byte{
		"uid":       edited(t, "d9fd772f-78ce-4ef6-a926-0ab79216a74b", long),
		"user":      edited(t, "developer", long),
		"name":      edited(t, `"name": "lifespan-three"`, fmt.Sprintf(`"name": %q`, long)),
		"operation": edited(t, "CREATE", long),
		"kind":      bytes.ReplaceAll(readSample(t, podSample), []byte(`"Pod"`), []byte(`"`+long[:1<<20]+`"`)),
		"label":     edited(t, `-requested": "3"`, fmt.Sprintf(`-requested": %q`, long)),
	} {
		before := len(p.log.String())
		got, err := p.send("/mutate-pods", body, nil)
		if err != nil || len(got.body) > 8<<10 {
			t.Errorf("%s: %v, an answer %d of %d bytes", name, err, got.code, len(got.body))
		}
		p.wantAlive(t)
		if logged := len(p.log.String()) - before; logged > 8<<10 {
			t.Errorf("%s: %d bytes are logged", name, logged)
		}
	}
	p.wantMemory(t, deployedMemory)
}

// TestProcessCallersWhoLeave: in the middle of the body, while a step is at work, and before the answer is read.
func TestProcessCallersWhoLeave(t *testing.T) {
	p := launched(t, launch{mode: troubled, args: []string{"--max-in-flight", "1000"}})
	p.wantAlive(t)
	before := p.goroutines(t)
	many := scaled(10, 40, 400)
	large := whole("/mutate-pods", padded(readSample(t, podSample), maxReview))
	inParallel(4, many, func(i int) {
		leave(t, p, large[:len(large)*(i%10)/10+len(head("/mutate-pods", maxReview))], i)
	})
	eventually(t, "half bodies are counted", func() bool { return p.gaveUp(t) == many })

	ctx, cancel := context.WithCancel(t.Context())
	slow := p.sendSlow(ctx, t, many, "30s")
	eventually(t, "all steps are at work", func() bool { return p.inFlight(t) == many })
	cancel()
	for range many {
		if got := <-slow; got.code != 0 {
			t.Errorf("a step that takes 27 s was answered %d", got.code)
		}
	}
	eventually(t, "they are counted as canceled", func() bool { return p.gaveUp(t) == 2*many })

	answered := p.outcomes(t, handlers.Mutated)
	request := whole("/mutate-pods", readSample(t, podSample))
	inParallel(4, many, func(i int) { leave(t, p, strings.Repeat(request, 20), i) })
	eventually(t, "some of those who did not read were answered", func() bool { return p.outcomes(t, handlers.Mutated) > answered })
	eventually(t, "nothing is in flight", func() bool { return p.inFlight(t) == 0 })
	p.wantNoLeak(t, before)
	p.wantAllRoom(t)
}

// leave writes something and goes away: with a reset, or by the rules of TLS, every other time.
func leave(t *testing.T, p *process, text string, i int) {
	w, err := p.tryDial()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.WriteString(w, text)
	if i%2 == 0 {
		w.abort()
	}
	_ = w.Close()
}

func (p *process) inFlight(t *testing.T) int {
	t.Helper()
	return int(p.metric(t, "usher_reviews_in_flight "))
}

// sendSlow posts reviews at once whose step takes all of the given time. No answer is code 0.
func (p *process) sendSlow(ctx context.Context, t *testing.T, n int, timeout string) <-chan reply {
	t.Helper()
	body, answers := annotated(t, podSample, slowWanted, ""), make(chan reply, n)
	for range n {
		go func() {
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+p.reviews+"/mutate-pods?timeout="+timeout, bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			answer, err := p.client.Do(r)
			if err != nil {
				answers <- reply{}
				return
			}
			got, _ := readReply(answer)
			answers <- got
		}()
	}
	return answers
}

// TestProcessPanic: a bug in a step is our failure: the caller gets a 500 and not the stack, the log the stack once and nothing
// of the object.
func TestProcessPanic(t *testing.T) {
	p := launched(t, launch{mode: troubled})
	const secret = "kq7-planted-secret"
	got, err := p.send("/mutate-pods", annotated(t, podSample, panicWanted, secret), nil)
	if err != nil || got.code != 500 || !strings.HasPrefix(got.body, "internal error") || len(got.body) > 150 {
		t.Errorf("%v, %d %s", err, got.code, got.body)
	}
	if n := p.metric(t, "usher_panics_total"); n != 1 {
		t.Errorf("%v panics are counted", n)
	}
	p.wantAlive(t)
	p.signal(t, syscall.SIGTERM)
	p.wantExit(t)
	log := p.log.String()
	if n := strings.Count(log, "index out of range"); n != 1 || strings.Count(log, `"stack":`) != 1 || !strings.Contains(log, "runtime/debug.Stack") {
		t.Errorf("the log should have the panic and its stack once: %d\n%s", n, log)
	}
	if strings.Contains(log+got.body, secret) || strings.Contains(log, "registry.k8s.io/pause") {
		t.Errorf("the object is in the log:\n%s", log)
	}
}

// TestProcessOutOfTime: a step that takes all the time there is fails while somebody still waits for it.
func TestProcessOutOfTime(t *testing.T) {
	t.Parallel()
	p := launched(t, launch{mode: troubled})
	for range scaled(1, 2, 20) {
		if got := <-p.sendSlow(t.Context(), t, 1, "1s"); got.code != 500 || strings.Contains(got.body, "deadline") {
			t.Errorf("%d %s", got.code, got.body)
		}
		p.wantAlive(t)
	}
	if failed, canceled := p.outcomes(t, handlers.Failed), p.outcomes(t, handlers.Canceled); failed == 0 || canceled != 0 {
		t.Errorf("%d failed, %d canceled", failed, canceled)
	}
}

// TestProcessOverload: beyond the ceiling callers are told at once to try again, and it is counted.
func TestProcessOverload(t *testing.T) {
	p := launched(t, launch{mode: troubled, args: []string{"--max-in-flight", "1"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow := p.sendSlow(ctx, t, 1, "30s")
	eventually(t, "the only slot is taken", func() bool { return p.inFlight(t) == 1 })
	many := scaled(4, 16, 200)
	inParallel(8, many, func(int) {
		got, err := send(p.client, "https://"+p.reviews+"/mutate-pods?timeout=10s", readSample(t, podSample), nil)
		if err != nil || got.code != 503 || got.header.Get("Retry-After") != "1" || strings.Contains(got.body, "allowed") {
			t.Errorf("%v, %d, Retry-After %q: %s", err, got.code, got.header.Get("Retry-After"), got.body)
		}
	})
	if shed := p.outcomes(t, handlers.Shed); shed != many || p.inFlight(t) != 1 {
		t.Errorf("%d shed, want %d; %d in flight", shed, many, p.inFlight(t))
	}
	cancel()
	<-slow
	eventually(t, "the slot is free", func() bool { return p.inFlight(t) == 0 })
	p.wantAlive(t)
}

// TestProcessHalfClosed: who ends his side after the request may still read, and must not be told that all is well when
// nothing was decided.
func TestProcessHalfClosed(t *testing.T) {
	p := launched(t, launch{mode: troubled})
	for _, body := range [][]byte{readSample(t, podSample), annotated(t, podSample, slowWanted, "")} {
		for range scaled(10, 50, 1000) {
			w := p.dial(t)
			_, _ = io.WriteString(w, whole("/mutate-pods?timeout=1s", body))
			_ = w.CloseWrite()
			if got, err := w.answer(); err == nil && got.code == 200 && !strings.Contains(got.body, `"uid"`) {
				t.Fatalf("200 and %q", got.body)
			}
			_ = w.Close()
		}
	}
}

// fixed are clients who want the same answers all the time.
func fixed(t *testing.T) func() func(string, reply) bool {
	t.Helper()
	return oneOf(rightAnswers(t, defaultPolicy(t)))
}

// drainArgs give clients time to hear that they should go elsewhere.
var drainArgs = []string{"--shutdown-delay", "500ms"}

// pair starts two replicas with one CA, behind a balancer.
func pair(t *testing.T) (launch, []*process, *balancer) {
	t.Helper()
	l := launch{state: t.TempDir(), args: drainArgs}
	both := []*process{launched(t, l), launched(t, l)}
	return l, both, newBalancer(t, both...)
}

// TestProcessGracefulRestart: one replica after the other is told to stop and replaced, and no client notices.
func TestProcessGracefulRestart(t *testing.T) {
	t.Parallel()
	l, replicas, b := pair(t)
	clients := startLoad(t, loadOptions{address: b.address, roots: replicas[0].roots, clients: 8, right: fixed(t)})
	some := scaled(50, 200, 2000)
	clients.more(t, some)
	for round := range scaled(2, 2, 20) {
		old := replicas[round%2]
		old.signal(t, syscall.SIGTERM)
		clients.more(t, some)
		old.wantExit(t)
		replicas[round%2] = launched(t, l)
		b.replace(old, replicas[round%2])
		clients.more(t, some)
	}
	clients.wantNoFailure(t)
	for _, p := range replicas {
		p.signal(t, syscall.SIGTERM)
		p.wantExit(t)
	}
}

// TestProcessKilled: a replica that is killed takes with it the reviews it had in hand, and nothing else.
func TestProcessKilled(t *testing.T) {
	t.Parallel()
	l, replicas, b := pair(t)
	ca := readFile(t, filepath.Join(l.state, certs.CACertFile))
	clients := startLoad(t, loadOptions{address: b.address, roots: replicas[0].roots, clients: 8, right: fixed(t)})
	some, rounds := scaled(50, 200, 2000), scaled(1, 2, 20)
	for round := range rounds {
		clients.more(t, some)
		old := replicas[round%2]
		old.signal(t, syscall.SIGKILL)
		<-old.ended
		clients.more(t, some)
		replicas[round%2] = launched(t, l)
		b.replace(old, replicas[round%2])
	}
	clients.more(t, some)
	failed := clients.finish()
	t.Logf("%d reviews, %d failed", clients.answered.Load(), len(failed))
	if len(failed) > 2*8*rounds { // the one in hand, and one more for who connects while the system closes the sockets
		t.Errorf("%d failures of 8 clients in %d kills", len(failed), rounds)
	}
	for _, err := range failed {
		if errors.Is(err, errWrong) || errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	if readFile(t, filepath.Join(l.state, certs.CACertFile)) != ca {
		t.Error("there is another CA than before")
	}
	for _, p := range replicas {
		p.wantAlive(t)
	}
}

// TestProcessFinishes: a review that is under way when the process is told to stop is answered.
func TestProcessFinishes(t *testing.T) {
	p := launched(t, launch{mode: troubled})
	half := p.hold(t, whole("/mutate-pods", readSample(t, podSample)), 100)
	half.settle()
	slow := p.sendSlow(t.Context(), t, 1, "2s")
	eventually(t, "a step is at work", func() bool { return p.inFlight(t) == 1 })
	p.signal(t, syscall.SIGTERM)
	p.waitLog(t, "draining")
	if got := half.finish(); got.code != 200 || !strings.Contains(got.body, `"patch":"`) {
		t.Errorf("the body under way: %d %.300s", got.code, got.body)
	}
	if got := <-slow; got.code != 500 {
		t.Errorf("the step at work: %d %s", got.code, got.body)
	}
	p.wantExit(t)
}

// TestProcessStopsAnyway: whoever holds a request open past the grace is cut off, and the process ends in order.
func TestProcessStopsAnyway(t *testing.T) {
	p := launched(t, launch{mode: troubled, args: []string{"--shutdown-grace", "300ms"}})
	half := p.hold(t, whole("/mutate-pods", readSample(t, podSample)), 100)
	half.settle()
	idle := p.dial(t)
	slow := p.sendSlow(t.Context(), t, 1, "30s")
	eventually(t, "a step is at work", func() bool { return p.inFlight(t) == 1 })
	p.signal(t, syscall.SIGTERM)
	p.wantExit(t)
	<-half.answered
	if half.reply.code == 200 {
		t.Errorf("half a review got %s", half.reply.body)
	}
	if got := <-slow; got.code == 200 {
		t.Errorf("a review that was cut off got %d %s", got.code, got.body)
	}
	if got, err := idle.answer(); err == nil {
		t.Errorf("an idle connection got %d", got.code)
	}
}

// secretVolume changes certificates as the kubelet does: a new directory, then one rename of the link to it.
type secretVolume struct {
	dir      string
	ca       certs.Pair
	versions int
}

func newSecretVolume(t *testing.T) *secretVolume {
	t.Helper()
	ca, err := certs.NewAuthority(time.Now())
	v := &secretVolume{dir: t.TempDir(), ca: ca}
	err = errors.Join(err, os.WriteFile(filepath.Join(v.dir, "ca.crt"), ca.Cert, 0o600),
		os.Symlink("..data/tls.crt", filepath.Join(v.dir, certs.CertFile)), os.Symlink("..data/tls.key", filepath.Join(v.dir, certs.KeyFile)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *secretVolume) issue(t *testing.T) certs.Pair {
	t.Helper()
	names, err := certs.ServiceNames("")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := certs.Issue(v.ca, names, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

func (v *secretVolume) swap(t *testing.T, leaf certs.Pair) {
	t.Helper()
	v.versions++
	version := fmt.Sprintf("..version_%d", v.versions)
	next, link := filepath.Join(v.dir, version), filepath.Join(v.dir, "..data_tmp")
	err := errors.Join(os.Mkdir(next, 0o700), os.WriteFile(filepath.Join(next, certs.CertFile), leaf.Cert, 0o600),
		os.WriteFile(filepath.Join(next, certs.KeyFile), leaf.Key, 0o600), os.Symlink(version, link), os.Rename(link, filepath.Join(v.dir, "..data")))
	if err != nil {
		t.Fatal(err)
	}
}

// serves tells whether new connections get a certificate.
func (p *process) serves(t *testing.T, leaf certs.Pair) bool {
	t.Helper()
	want, err := leaf.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	w := p.dial(t)
	defer func() { _ = w.Close() }()
	return w.ConnectionState().PeerCertificates[0].Equal(want)
}

// TestProcessCertificateRotation: a renewed Secret is taken up under load, a broken one is not, and no client notices.
func TestProcessCertificateRotation(t *testing.T) {
	t.Parallel()
	volume := newSecretVolume(t)
	first := volume.issue(t)
	volume.swap(t, first)
	p := launched(t, launch{args: []string{"--cert-dir", volume.dir}})
	p.trust(t, filepath.Join(volume.dir, "ca.crt"))
	kept := startLoad(t, loadOptions{address: p.reviews, roots: p.roots, clients: 4, right: fixed(t)})
	fresh := startLoad(t, loadOptions{address: p.reviews, roots: p.roots, clients: 4, right: fixed(t), newEach: true})
	if !p.serves(t, first) {
		t.Error("another certificate is served than there is")
	}
	for range scaled(1, 1, 5) {
		broken, second := volume.issue(t), volume.issue(t)
		volume.swap(t, certs.Pair{Cert: broken.Cert, Key: first.Key})
		p.waitLog(t, "the new certificate is bad")
		volume.swap(t, second)
		eventually(t, "the new certificate is served", func() bool { return p.serves(t, second) })
		kept.more(t, 50)
		fresh.more(t, 50)
		first = second
	}
	kept.wantNoFailure(t)
	fresh.wantNoFailure(t)
	p.wantNoFault(t)
}

// TestProcessPolicySwap: under load a bad policy changes nothing, and a good one every answer from some moment on.
func TestProcessPolicySwap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "policy.yaml")
	write := func(text string) { // in one step, as a ConfigMap volume changes
		if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	answersOf := func(text string) map[string]string {
		policy, problems := config.Parse([]byte(text), stepNames())
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return rightAnswers(t, policy)
	}
	old := string(config.DefaultYAML())
	now := strings.NewReplacer("offensive", "rude", "max: 14", "max: 5", `cpu: "2"`, `cpu: "3"`).Replace(old)
	write(old)
	p := launched(t, launch{args: []string{"--config", file}})
	clients := startLoad(t, loadOptions{address: p.reviews, roots: p.roots, clients: 8, right: oneOf(answersOf(old), answersOf(now))})
	for _, bad := range []string{"names: {denied: [offensive", "surprise: 1", "", "lifespan: {label: a, taint: b, max: 1000}"}[:scaled(1, 1, 4)] {
		write(bad)
		clients.more(t, 50)
		eventually(t, "the bad policy shows", func() bool { return p.metric(t, "usher_policy_current ") == 0 })
		write(old)
		eventually(t, "and is gone", func() bool { return p.metric(t, "usher_policy_current ") == 1 })
	}
	write(now)
	want := answersOf(now)[podSample]
	eventually(t, "the new policy is in force", func() bool {
		got, err := p.send("/mutate-pods", readSample(t, podSample), nil)
		return err == nil && got.body == want
	})
	clients.more(t, 100)
	clients.wantNoFailure(t)
	p.wantNoFault(t)
}
