package command

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"usher.dev/usher/certs"
	"usher.dev/usher/command/flags"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/server"
	"usher.dev/usher/server/suite"
)

// serveOptions are the flags of usher serve.
type serveOptions struct {
	server.Options
	suites        []string
	certificates  certificateFlags
	logFormat     string
	clusterSource flags.Cluster
	callers       callerFlags
	audit         auditFlags
	record        recordFlags
}

func (o *serveOptions) addTo(set *pflag.FlagSet, suites suite.List) {
	set.SortFlags = false
	set.StringVar(&o.Listen, "listen", ":9443", "address that serves reviews over HTTPS")
	set.StringVar(&o.OpsListen, "ops-listen", ":8081", "address that serves /healthz, /readyz, /metrics and the pages under /debug over HTTP")
	set.BoolVar(&o.Plain, "plain", false, "serve reviews over HTTP without TLS, on a loopback address only; the default addresses are then on 127.0.0.1")
	set.StringSliceVar(&o.suites, "suite", suites.Names(),
		"suites that are served: "+suites.Describe()+"; sections of the policy for other suites do nothing")
	set.StringVar(&o.Config, "config", "", "policy file, reloaded when it changes (default: the embedded policy)")
	set.StringSliceVar(&o.RequireSections, "require-sections", nil,
		"sections of the policy, such as names,rules: a policy that lacks one is refused, at the start and when it is reloaded (default: none)")
	o.certificates.addTo(set)
	set.StringVar(&o.logFormat, "log-format", "auto", "json, text or auto; auto is text on a terminal, else json")
	set.IntVar(&o.MaxInFlight, "max-in-flight", 0,
		"maximum number of reviews that are decided at the same time; others wait up to 100 ms, then get a 503 with Retry-After (default 64 for each "+
			"CPU)")
	set.IntVar(&o.MaxConnections, "max-connections", server.DefaultMaxConnections,
		"maximum number of open connections for reviews; beyond half of it, each answer ends its connection, so that new ones find room")
	set.DurationVar(&o.ShutdownDelay, "shutdown-delay", 5*time.Second,
		"how long to accept requests after SIGTERM, while clients switch to other replicas")
	set.DurationVar(&o.ShutdownGrace, "shutdown-grace", 20*time.Second, "how long requests in progress may still take after --shutdown-delay")
	o.callers.addTo(set)
	set.BoolVar(&o.DebugAuth, "debug-auth", false,
		"serve the pages under /debug on any address, to users who send a bearer token and may get the path (default: on loopback only)")
	set.BoolVar(&o.Pprof, "pprof", false,
		"serve the profiles of the Go runtime under /debug/pprof/, to the same callers as the other pages under /debug")
	o.audit.addTo(set)
	o.record.addTo(set)
	set.BoolVar(&o.WatchRegistration, "watch-registration", true, "report webhooks of usher that are missing at the API server or were changed; "+
		"with --cluster=api, --certs=managed, or in a pod with a token. Switch it off for --static webhooks, which cannot be seen")
	set.DurationVar(&o.KeepRegistered, "keep-registered", 0,
		"restore the registration when it was deleted or changed, after this time at first, then at growing intervals; "+
			"not if usher's configurations were deleted by their label, which disables usher (default: only report)")
	set.Lookup("keep-registered").NoOptDefVal = "10s"
	o.clusterSource.AddTo(set)
}

// parse fills in the options, of the suites that --suite names. The policy may have sections of the others.
func (o *serveOptions) parse(set *pflag.FlagSet, suites *flags.Suites) (err error) {
	o.clusterSource.AskedOtherwise = o.DebugAuth || o.certificates.managed()
	if err := o.clusterSource.Check(); err != nil {
		return err
	}
	o.Schema = suites.List.Schema()
	if o.Suites, err = suites.Only(set, o.suites); err != nil {
		return err
	}
	if o.Gates, err = suites.Parsed(o.clusterSource.Source); err != nil {
		return err
	}
	o.Cluster, o.Certificates, o.Callers, o.Audit = o.clusterSource.From(), o.certificates.Certificates, o.callers.Options, o.audit.Options
	o.Certificates.Managed = o.certificates.managed()
	if o.Certificates.Profile, err = certs.NewProfile(o.certificates.minVersion, o.certificates.suites, o.certificates.curves); err != nil {
		return err
	}
	return o.check(set)
}

func (o *serveOptions) check(set *pflag.FlagSet) error {
	if o.logFormat != "auto" && o.logFormat != "json" && o.logFormat != "text" {
		return fmt.Errorf("--log-format is %q: must be auto, json or text", o.logFormat)
	}
	if o.MaxInFlight < 0 {
		return fmt.Errorf("--max-in-flight %d: must be at least 1", o.MaxInFlight)
	}
	if o.MaxConnections < 1 {
		return fmt.Errorf("--max-connections %d: must be at least 1", o.MaxConnections)
	}
	if err := errors.Join(o.checkSections(), o.certificates.check(), o.callers.check(o.Plain), o.audit.check(), o.record.check()); err != nil {
		return err
	}
	if !o.Plain {
		return nil
	}
	if !set.Changed("listen") {
		o.Listen = "127.0.0.1:9443"
	}
	if !set.Changed("ops-listen") {
		o.OpsListen = "127.0.0.1:8081"
	}
	withTLS := slices.ContainsFunc([]string{"tls-min-version", "tls-cipher-suites", "tls-curves"}, set.Changed)
	if withTLS || o.certificates.Dir != "" || o.certificates.managed() {
		return errors.New("--plain serves no certificate, and no TLS: leave out --cert-dir, --certs and what begins with --tls-")
	}
	host, _, err := net.SplitHostPort(o.Listen)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--plain --listen %s: reviews without TLS are for this machine only, such as 127.0.0.1:9443", o.Listen)
	}
	return nil
}

// checkSections returns an error for a required section that no policy can have.
func (o *serveOptions) checkSections() error {
	known := o.Suites.Schema().Names()
	for _, name := range o.RequireSections {
		if slices.Contains(known, name) {
			continue
		}
		return fmt.Errorf("--require-sections: the policy has no section %s; the sections are %s%s",
			name, strings.Join(known, ", "), nearest.Question(name, known))
	}
	return nil
}
