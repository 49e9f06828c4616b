package command

import (
	"fmt"
	"net"
	"strings"
)

// greet tells a person on a laptop what to paste; a service in a cluster has its log.
func (s *service) greet(address string) {
	if s.certDir != "" {
		return
	}
	scheme, trust := "https", "--cacert "+s.caFile+" "
	if s.plain {
		scheme, trust = "http", ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\nusher serves the core suite on %s://%s\n", scheme, reachable(address))
	if s.caFile != "" {
		fmt.Fprintf(&text, "CA file: %s\n", s.caFile)
	}
	fmt.Fprint(&text, "Try it from a second terminal; `make try` shows the answers readable:\n\n")
	for _, sample := range []string{"mutate-pods/lifespan-three", "validate-pods/denied-names", "mutate-nodes/overcommit"} {
		path, _, _ := strings.Cut(sample, "/")
		fmt.Fprintf(&text, "  curl %s-H 'Content-Type: application/json' -d @samples/reviews/%s.json %s://%s/%s\n",
			trust, sample, scheme, reachable(address), path)
	}
	_, _ = fmt.Fprintln(s.out, text.String())
}

// reachable is an address that a client on this machine can use, for one that may be a wildcard.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}
