// Package callers says who may call usher: who may post reviews, by a client certificate or a bearer token, and who may
// read the pages under /debug, by the API server's word.
package callers

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"usher.dev/usher/internal/poll"
)

// Result says what is known about the sender of a request.
type Result string

// The results. What is wrong is said only if nothing of what the sender has sent is right.
const (
	Known            Result = "known"
	Missing          Result = "missing"           // neither a certificate nor a token
	WrongCertificate Result = "wrong-certificate" // not of a CA in the file, not valid now, or one of too many
	WrongName        Result = "wrong-name"        // a certificate of the CA, for another name
	WrongToken       Result = "wrong-token"
)

// reasons are all results, with the texts for senders that are not known.
var reasons = map[Result]string{
	Known:            "",
	Missing:          "neither a client certificate nor a bearer token was sent",
	WrongCertificate: "the client certificate is not valid, not of a CA in the file of --client-ca, or sent with more than three others",
	WrongName:        "the client certificate is for a name that --client-names does not list",
	WrongToken:       "the bearer token is not in the file of --bearer-token-file",
}

// Gate lets the known callers pass. Certificates or Tokens may be nil.
type Gate struct {
	Certificates *Certificates
	Tokens       *Tokens
	Enforce      bool // otherwise unknown callers are only counted and logged
	Log          logrus.FieldLogger
	Proven       func(context.Context) // called with that of each request of a known caller; may be nil

	tallies map[Result]*tally // of all results
}

// tally counts the requests with a result, and limits the log lines about them.
type tally struct {
	count atomic.Uint64
	lines rate.Sometimes
}

// linesEvery is the interval between log lines about unknown callers of the same kind.
const linesEvery = 10 * time.Second

// Options say who may post reviews.
type Options struct {
	Auth      string   // Off, Log or Enforce; "" is Off
	ClientCA  string   // file with the CAs of client certificates, or ""
	Names     []string // one of which a client certificate must have; none for any
	TokenFile string   // file with bearer tokens, or ""
}

// How callers are checked.
const (
	Off     = "off"
	Log     = "log"     // all are answered, and unknown ones logged
	Enforce = "enforce" // only known ones are answered
)

// Open returns the gate that the options describe, or nil for Off.
func Open(o Options, log logrus.FieldLogger) (g *Gate, err error) {
	if o.Auth == Off || o.Auth == "" {
		return nil, nil
	}
	g = &Gate{Enforce: o.Auth == Enforce, Log: log, tallies: map[Result]*tally{}}
	for result := range reasons {
		g.tallies[result] = &tally{lines: rate.Sometimes{Interval: linesEvery}}
	}
	if o.ClientCA != "" {
		if g.Certificates, err = OpenCertificates(o.ClientCA, o.Names); err != nil {
			return nil, err
		}
	}
	if o.TokenFile != "" {
		if g.Tokens, err = OpenTokens(o.TokenFile); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// Check returns an error if the sender of a request must not get an answer. It reads nothing of the body.
func (g *Gate) Check(r *http.Request) error {
	result := g.identify(r, time.Now())
	of := g.tallies[result]
	of.count.Add(1)
	if result == Known {
		if g.Proven != nil {
			g.Proven(r.Context())
		}
		return nil
	}
	of.lines.Do(func() { g.report(r, result) })
	if !g.Enforce {
		return nil
	}
	return errors.New(reasons[result])
}

// identify tries what the sender has sent. Either suffices.
func (g *Gate) identify(r *http.Request, now time.Time) Result {
	result := Missing
	if g.Certificates != nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		result = g.Certificates.check(r.TLS.PeerCertificates, now)
	}
	if token, sent := bearer(r); sent && result != Known && g.Tokens != nil {
		if g.Tokens.has(token) {
			return Known
		}
		if result == Missing {
			result = WrongToken
		}
	}
	return result
}

func (g *Gate) report(r *http.Request, result Result) {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = "unknown"
	}
	answered := "answered 401"
	if !g.Enforce {
		answered = "answered, because of --auth=log"
	}
	g.Log.WithFields(logrus.Fields{"remote": address, "result": string(result)}).Warnf(
		"an unknown caller was %s: %s; such lines are at least %s apart", answered, reasons[result], linesEvery)
}

// Counts returns the number of requests by result.
func (g *Gate) Counts() map[Result]uint64 {
	all := map[Result]uint64{}
	for result, of := range g.tallies {
		all[result] = of.count.Load()
	}
	return all
}

// Watch reads the files again until ctx ends. changed is called with the name of the file, and an error if its content
// is invalid and the old one stays.
func (g *Gate) Watch(ctx context.Context, times func() poll.Times, changed func(file string, err error)) {
	if c := g.Certificates; c != nil {
		go c.current.Watch(ctx, times(), func(err error) { changed(c.file, err) })
	}
	if t := g.Tokens; t != nil {
		go t.current.Watch(ctx, times(), func(err error) { changed(t.file, err) })
	}
}
