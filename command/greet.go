package command

import (
	"fmt"
	"net"
	"strings"
)

// greet tells a person on a laptop what to paste; a service in a cluster has its log.
func (s *service) greet(address, operations string) {
	if s.certificates.dir != "" || s.certificates.managed() || s.auditTo.File == "-" {
		return
	}
	scheme, trust := "https", "--cacert "+s.caFile+" "
	if s.plain {
		scheme, trust = "http", ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\nusher serves the suites %s on %s://%s; health and metrics are on http://%s\n", strings.Join(s.suites.Names(), " and "),
		scheme, reachable(address), reachable(operations))
	if s.caFile != "" {
		fmt.Fprintf(&text, "CA file: %s\n", s.caFile)
		fmt.Fprintf(&text, "From a second terminal, `make try%s` posts the samples and shows the answers. One alone:\n\n", s.variables(address))
	} else {
		fmt.Fprint(&text, "Try it from a second terminal:\n\n")
	}
	for _, sample := range []string{"mutate-pods/lifespan-three", "validate-pods/denied-names", "mutate-nodes/overcommit"} {
		path, _, _ := strings.Cut(sample, "/")
		fmt.Fprintf(&text, "  curl %s-H 'Content-Type: application/json' -d @samples/reviews/%s.json %s://%s/%s | bin/usher show\n",
			trust, sample, scheme, reachable(address), path)
	}
	_, _ = fmt.Fprintln(s.out, text.String())
}

// variables are those of make that find this service, where they are not as usual.
func (s *service) variables(address string) (text string) {
	if at := reachable(address); at != "127.0.0.1:9443" {
		text += " LISTEN=" + at
	}
	if s.certificates.stateDir != ".state" {
		text += " STATE=" + s.certificates.stateDir
	}
	return text
}

// reachable is an address that a client on this machine can use, for one that may be a wildcard.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}
