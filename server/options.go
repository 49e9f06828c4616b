package server

import (
	"context"
	"io"
	"time"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/certs"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/lines"
	"usher.dev/usher/server/auditlog"
	"usher.dev/usher/server/callers"
	"usher.dev/usher/server/suite"
)

// Options say what is served, and how. Errors name the flags of `usher serve` that stand for them.
type Options struct {
	Suites  suite.List
	Schema  config.Schema // of the policy file, which may have sections of suites that are not served; nil for that of Suites
	Gates   gate.Set
	Version string         // for the log and metrics
	Log     *logrus.Logger // nil for none; must not keep its callers waiting
	Lines   *lines.Writer  // of Log, for metrics; nil for none

	Listen, OpsListen string   // addresses of reviews, and of operations
	Plain             bool     // serve reviews without TLS
	Config            string   // policy file, read again when it changes; "" for the embedded policy
	RequireSections   []string // sections without which a policy is refused
	Cluster           suite.Source
	Certificates      Certificates
	Callers           callers.Options
	Audit             auditlog.Options // without a File there is no audit log
	Stdout            io.Writer        // for the audit log "-"
	DebugAuth, Pprof  bool             // the pages under /debug: ask the API server who may read them; have profiles
	WatchRegistration bool             // if there is an API server to ask: follow how Certificates.Service is registered
	KeepRegistered    time.Duration    // with WatchRegistration: restore what is missing or was changed, after this time at first; 0 for never

	MaxInFlight    int           // reviews decided at the same time; 0 for 64 for each CPU
	MaxConnections int           // open connections for reviews; 0 for DefaultMaxConnections
	ShutdownDelay  time.Duration // how long requests are accepted after the end
	ShutdownGrace  time.Duration // how long those in progress may take after that

	// Record, if not nil, opens another observer of all reviews, and returns it with what closes it, at the latest when ctx ends.
	Record func() (observe handlers.Observe, closed func(ctx context.Context), err error)
	// Serving, if not nil, is called when connections are accepted.
	Serving func(Addresses)
}

// Certificates say where the serving certificate comes from.
type Certificates struct {
	Dir      string // with tls.crt and tls.key, read again when they change
	StateDir string // without Dir: where a CA and a certificate for this machine are made
	Profile  certs.Profile

	// Managed certificates are in Secrets of the cluster that Cluster.Kubeconfig is for, and all replicas share them.
	Managed        bool
	Service        string // that the API server calls, as namespace/name
	LeafLife, Life time.Duration
}

// Addresses are the addresses at which a server can be reached.
type Addresses struct {
	Reviews, Operations string
	CAFile              string // that clients need to trust; "" if none was made
}
