package process

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"usher.dev/usher/test/harness"
)

// reply is an HTTP answer that was read completely.
type reply struct {
	code   int
	header http.Header
	body   string
}

// send posts JSON on a new connection, without announcing that it will close it: net/http's server gives clients that
// do no time to read why a long body is refused.
func (p *process) send(path string, body []byte, header map[string]string) (reply, error) {
	p.client.CloseIdleConnections()
	return send(p.client, "https://"+p.reviews+path, body, header)
}

// send posts JSON as the API server does.
func send(client *http.Client, url string, body []byte, header map[string]string) (reply, error) {
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	for key, value := range header {
		r.Header.Set(key, value)
	}
	answer, err := client.Do(r)
	if err != nil {
		return reply{}, err
	}
	return readReply(answer)
}

func readReply(answer *http.Response) (reply, error) {
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return reply{answer.StatusCode, answer.Header, string(text)}, err
}

// wire is a TLS connection on which a test writes arbitrary bytes.
type wire struct {
	*tls.Conn
	in *bufio.Reader
}

func (p *process) dial(t *testing.T) *wire {
	t.Helper()
	c, err := p.tryDial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (p *process) tryDial() (*wire, error) {
	c, err := tls.Dial("tcp", p.reviews, &tls.Config{RootCAs: p.roots})
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(maxWait)) // a bound, as everywhere
	return &wire{c, bufio.NewReader(c)}, nil
}

// answer reads the next HTTP answer; io.EOF, or another error, if the server closed the connection instead.
func (w *wire) answer() (reply, error) {
	r, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return reply{}, err
	}
	return readReply(r)
}

// abort cuts the connection like a dying client: with a reset, and without a TLS close.
func (w *wire) abort() {
	tcp := w.NetConn().(*net.TCPConn)
	_ = tcp.SetLinger(0)
	_ = tcp.Close()
}

// head returns the head of a request with a body of n bytes.
func head(path string, length int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: usher\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, length)
}

// whole returns a request with its body.
func whole(path string, body []byte) string { return head(path, len(body)) + string(body) }

// padded enlarges a review with white space, which changes nothing.
func padded(review []byte, size int) []byte {
	return append(slices.Clip(review), bytes.Repeat([]byte(" "), size-len(review))...)
}

// annotated returns a review of a pod with one additional annotation.
func annotated(t *testing.T, sample, key, value string) []byte {
	t.Helper()
	old := []byte(`"metadata": {`)
	now := fmt.Appendf(nil, `"metadata": {"annotations": {%q: %q},`, key, value)
	body := harness.ReadSample(t, sample)
	if !bytes.Contains(body, old) {
		t.Fatalf("%s has no metadata", sample)
	}
	return bytes.Replace(body, old, now, 1)
}
