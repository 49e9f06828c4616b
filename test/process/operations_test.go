//go:build linux

package process

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestProcessOperationsAreKept: clients that send a thousand requests and read no answer, or requests that never end, do
// not keep the kubelet's probes waiting. Otherwise any pod could make the kubelet restart usher.
func TestProcessOperationsAreKept(t *testing.T) {
	for _, c := range []struct {
		name, first, then string
		crowd             int
	}{
		{"who read nothing", strings.Repeat("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 1000), "", 300},
		{"whose requests never end", "GET /healthz HTTP/1.1\r\nA: ", "a", 600},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := launched(t, launch{})
			p.crowd(t, c.crowd, c.first, c.then)
			client := http.Client{Timeout: 20 * time.Second} // a bound: without room for it, a probe waits for a minute
			for range 3 {
				r, err := client.Get("http://" + p.operations + "/healthz")
				if err != nil {
					t.Fatalf("no probe is answered: %v", err)
				}
				_ = r.Body.Close()
			}
		})
	}
}

// crowd opens connections to the operations port, from another address than probes, and sends something on each at
// first, and then again and again.
func (p *process) crowd(t *testing.T, n int, first, then string) {
	t.Helper()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range n {
		c, err := from.Dial("tcp", p.operations)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.(*net.TCPConn).SetReadBuffer(1)
		go func() {
			_, err := c.Write([]byte(first))
			for err == nil && then != "" {
				time.Sleep(50 * time.Millisecond)
				_, err = c.Write([]byte(then))
			}
		}()
	}
}
