// Package tool defines the environment of the commands of usherctl.
package tool

import (
	"fmt"

	"usher.dev/usher/config"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/report"
)

// Env holds the suites, the version and the streams of a command.
type Env struct {
	Suites  suite.List
	Version string
	cli.Streams
}

// Style returns how reports are printed: in color on a terminal.
func (e Env) Style() report.Style { return report.Style{Style: e.Streams.Style()} }

// Progress rewrites the last line of a terminal with how far a command is; an empty text clears it. Where errors go elsewhere, nothing is written.
func (e Env) Progress(text string) {
	if cli.IsTerminal(e.Err) {
		_, _ = fmt.Fprint(e.Err, "\r\x1b[K"+text)
	}
}

// WarnOfPolicy prints what is probably not meant in a policy file.
func (e Env) WarnOfPolicy(file string, policy *config.Policy) {
	for _, text := range policy.Warnings() {
		_, _ = fmt.Fprintf(e.Err, "warning: policy %s: %s\n", file, text)
	}
}
