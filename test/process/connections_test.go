package process

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"usher.dev/usher/handlers"
	"usher.dev/usher/test/harness"
)

// Invalid connections, too many connections, and clients that go away.

// badWire is an invalid sequence of bytes on a TLS connection.
type badWire struct {
	name string
	text string
	// codes are the expected answers in order; 0 means that the connection is closed without an answer.
	codes []int
	// open keeps the connection open for writing, for input that the server must refuse by itself; otherwise the
	// connection is half-closed after the input.
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
	body := string(harness.ReadSample(t, podSample))
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

// TestProcessBadWires writes all of it byte for byte, and reads the answers.
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

// TestProcessNotTLS: a connection that does not speak our TLS is closed, without other effects.
func TestProcessNotTLS(t *testing.T) {
	p := launched(t, launch{})
	good := whole("/mutate-pods", harness.ReadSample(t, podSample))
	for _, c := range []struct{ name, text, answer string }{
		{"nothing", "", ""},
		{"garbage", strings.Repeat("\x00\xff garbage ", 1000), ""},
		{"a record of the largest size", "\x16\x03\x01\xff\xff" + strings.Repeat("x", 1<<16), ""},
		{"half a handshake", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ""},
		{"HTTP", good, "HTTP/1.0 400"},
		{"SSH", "SSH-2.0-OpenSSH_9.6\r\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", p.reviews)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(maxWait))
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
	for range scaled(50, 100, 1000) {
		if c, err := tls.Dial("tcp", p.reviews, &tls.Config{NextProtos: []string{"h2"}}); err == nil {
			_ = c.Close()
			t.Error("HTTP/2 only: was accepted")
		}
	}
	if n := strings.Count(p.log.String(), "TLS handshake error"); n == 0 || n > 30 {
		t.Errorf("%d failed handshakes are logged, want some of them", n)
	}
	p.wantNoFault(t)
}

// TestProcessIdleConnections: many idle keep-alive clients cost some memory each and nothing more, and all of it is
// released.
func TestProcessIdleConnections(t *testing.T) {
	p := launched(t, launch{args: []string{"--max-connections", "12000"}})
	many := scaled(100, 1000, 5000)
	if most := openFiles(t)/2 - 100; most < many {
		t.Logf("only %d connections instead of %d: ulimit -n", most, many)
		many = most
	}
	p.wantAlive(t)
	before := p.goroutines(t)
	open, began := make(chan *wire, many), time.Now()
	request := whole("/mutate-pods", harness.ReadSample(t, podSample))
	inParallel(16, many, func(int) {
		open <- p.asked(t, request)
	})
	close(open)
	p.wantAlive(t)
	now := p.goroutines(t)
	slow := time.Since(began) > time.Minute // the service itself ends what is idle for two
	if now < many && !slow || now > 2*many+before+20 {
		t.Errorf("%d goroutines for %d connections", now, many)
	}
	p.wantMemory(t, 60+many/10) // 100 KiB for each
	for w := range open {
		if w != nil {
			_ = w.Close()
		}
	}
	p.wantNoLeak(t, before)
	p.wantAlive(t)
	p.wantNoFault(t)
}

// asked opens a connection and sends a request, which must be answered. On a busy machine a handshake may take longer than
// the service waits for one, and the client does not know until it reads: only then it tries again.
func (p *process) asked(t *testing.T, request string) (w *wire) {
	t.Helper()
	var got reply
	var err error
	for range 5 {
		began := time.Now()
		if w, err = p.tryDial(); err == nil {
			_, _ = io.WriteString(w, request)
			if got, err = w.answer(); err != nil {
				_ = w.Close()
			}
		}
		if err == nil || time.Since(began) < handshakeTimeout {
			break
		}
	}
	if err != nil || got.code != 200 {
		t.Errorf("%v, %d %.300s", err, got.code, got.body)
	}
	return w
}

// openFiles returns the limit of open files, and so of connections, of this process and its children.
func openFiles(t *testing.T) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(min(limit.Cur, 1<<20))
}

// inParallel calls a function n times with the given concurrency.
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

// TestProcessCallersWhoLeave: clients go away in the middle of the body, while a step runs, and before they have read
// the answer.
func TestProcessCallersWhoLeave(t *testing.T) {
	p := launched(t, launch{mode: troubled, args: []string{"--max-in-flight", "1000"}})
	p.wantAlive(t)
	before := p.goroutines(t)
	many := scaled(10, 40, 400)
	large := whole("/mutate-pods", padded(harness.ReadSample(t, podSample), maxReview))
	inParallel(4, many, func(i int) {
		leave(t, p, large[:len(large)*(i%10)/10+len(head("/mutate-pods", maxReview))], i)
	})
	eventually(t, "half bodies are counted", func() bool { return p.gaveUp(t) == many })

	ctx, cancel := context.WithCancel(t.Context())
	slow := p.sendSlow(ctx, t, many, "30s")
	eventually(t, "all steps are at work", func() bool { return p.inFlight(t) == many })
	cancel()
	for range many {
		// The client closes TLS before the socket: it may still read the 499 that is meant for the log.
		if got := <-slow; got.code != 0 && got.code != 499 {
			t.Errorf("a step that takes 27 s was answered %d", got.code)
		}
	}
	eventually(t, "they are counted as canceled", func() bool { return p.gaveUp(t) == 2*many })

	answered := p.outcomes(t, handlers.Mutated)
	request := whole("/mutate-pods", harness.ReadSample(t, podSample))
	inParallel(4, many, func(i int) { leave(t, p, strings.Repeat(request, 20), i) })
	eventually(t, "some of those who did not read were answered", func() bool { return p.outcomes(t, handlers.Mutated) > answered })
	eventually(t, "nothing is in flight", func() bool { return p.inFlight(t) == 0 })
	p.wantNoLeak(t, before)
	p.wantAllRoom(t)
}

// leave writes something and goes away, alternately with a reset and with a TLS close.
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

// TestProcessHalfClosed: a client that closes its side after the request may still read, and must not get a successful
// answer if nothing was decided.
func TestProcessHalfClosed(t *testing.T) {
	p := launched(t, launch{mode: troubled})
	for _, body := range [][]byte{harness.ReadSample(t, podSample), annotated(t, podSample, slowWanted, "")} {
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
