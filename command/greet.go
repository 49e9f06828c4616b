package command

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"

	"usher.dev/usher/server"
)

// greet tells a person on a laptop what to paste; a service in a cluster has its log.
func greet(out io.Writer, o server.Options, at server.Addresses) {
	if o.Certificates.Dir != "" || o.Certificates.Managed || o.Audit.File == "-" {
		return
	}
	scheme, trust := "https", "--cacert "+at.CAFile+" "
	if o.Plain {
		scheme, trust = "http", ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\nusher serves %s %s on %s://%s; health and metrics are on http://%s\n",
		map[bool]string{true: "the suite", false: "the suites"}[len(o.Suites) == 1], strings.Join(o.Suites.Names(), " and "),
		scheme, reachable(at.Reviews), reachable(at.Operations))
	if at.CAFile != "" {
		fmt.Fprintf(&text, "CA file: %s\n", at.CAFile)
		fmt.Fprintf(&text, "From a second terminal, `make try%s` posts the samples and shows the answers. One alone:\n\n",
			variables(at.Reviews, o.Certificates.StateDir))
	} else {
		fmt.Fprint(&text, "Try it from a second terminal:\n\n")
	}
	for _, sample := range []string{"mutate-pods/lifespan-three", "validate-pods/denied-names", "mutate-nodes/overcommit"} {
		path, _, _ := strings.Cut(sample, "/")
		fmt.Fprintf(&text, "  curl -sS %s-H 'Content-Type: application/json' -d @samples/reviews/%s.json %s://%s/%s | %s show\n",
			trust, sample, scheme, reachable(at.Reviews), path, called())
	}
	_, _ = fmt.Fprintln(out, text.String())
}

// called returns what to type to call usher: its name if it is on the PATH, or else what make build makes.
func called() string {
	if _, err := exec.LookPath("usher"); err != nil {
		return "bin/usher"
	}
	return "usher"
}

// variables returns the variables of make that find the server, where they are not as usual.
func variables(address, stateDir string) (text string) {
	if at := reachable(address); at != "127.0.0.1:9443" {
		text += " LISTEN=" + at
	}
	if stateDir != ".state" {
		text += " STATE=" + stateDir
	}
	return text
}

// reachable returns an address that a client on this machine can use for an address that may be a wildcard.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}
