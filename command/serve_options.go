package command

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"usher.dev/usher/admit/gate"
)

// serveOptions are the flags of usher serve.
type serveOptions struct {
	listen, opsListen        string
	plain                    bool
	config                   string
	certificates             certificateFlags
	logFormat                string
	maxInFlight              int
	maxConnections           int
	gates                    gate.Set
	clusterSource            clusterFlags
	callerSource             callerFlags
	debug                    debugFlags
	auditTo                  auditFlags
	record                   recordFlags
	shutdownDelay, drainTime time.Duration
}

// serveCommand is `usher serve`.
func (p Program) serveCommand() *cobra.Command {
	var o serveOptions
	c := &cobra.Command{Use: "serve [flags]", Short: "serve the admission webhooks", Args: cobra.NoArgs}
	o.addTo(c.Flags())
	suites := p.addSuiteFlags(c, true)
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		o.clusterSource.askedOtherwise = o.debug.auth || o.certificates.managed()
		if err := o.clusterSource.check(); err != nil {
			return err
		}
		if o.gates, err = suites.parsed(o.clusterSource.source); err != nil {
			return err
		}
		if err := o.check(c.Flags().Changed("listen"), c.Flags().Changed("ops-listen")); err != nil {
			return err
		}
		return p.serve(c.Context(), o)
	}
	return c
}

func (o *serveOptions) addTo(set *pflag.FlagSet) {
	set.SortFlags = false
	set.StringVar(&o.listen, "listen", ":9443", "address that serves reviews over HTTPS")
	set.StringVar(&o.opsListen, "ops-listen", ":8081", "address that serves /healthz, /readyz, /metrics and the pages under /debug over HTTP")
	set.BoolVar(&o.plain, "plain", false, "serve reviews over HTTP without TLS, on a loopback address only; the default addresses are then on 127.0.0.1")
	set.StringVar(&o.config, "config", "", "policy file, reloaded when it changes (default: the embedded policy)")
	o.certificates.addTo(set)
	set.StringVar(&o.logFormat, "log-format", "auto", "json, text or auto; auto is text on a terminal, and otherwise json")
	set.IntVar(&o.maxInFlight, "max-in-flight", 0, "maximum number of reviews that are decided at the same time; others wait up to 100 ms, and then get a 503 with Retry-After (default 64 for each CPU)")
	set.IntVar(&o.maxConnections, "max-connections", defaultMaxConnections, "maximum number of open connections for reviews; if it is reached, a new connection replaces the one that has been idle the longest")
	set.DurationVar(&o.shutdownDelay, "shutdown-delay", 5*time.Second, "how long to keep accepting requests after SIGTERM, while clients switch to other replicas")
	set.DurationVar(&o.drainTime, "shutdown-grace", 20*time.Second, "how long requests in progress may still take after --shutdown-delay")
	o.callerSource.addTo(set)
	o.debug.addTo(set)
	o.auditTo.addTo(set)
	o.record.addTo(set)
	o.clusterSource.addTo(set)
}

func (o *serveOptions) check(listenSet, opsSet bool) error {
	if o.logFormat != "auto" && o.logFormat != "json" && o.logFormat != "text" {
		return fmt.Errorf("--log-format is %q: must be auto, json or text", o.logFormat)
	}
	if o.maxInFlight < 0 {
		return fmt.Errorf("--max-in-flight %d: must be at least 1", o.maxInFlight)
	}
	if o.maxConnections < 1 {
		return fmt.Errorf("--max-connections %d: must be at least 1", o.maxConnections)
	}
	if err := o.certificates.check(); err != nil {
		return err
	}
	if err := o.callerSource.check(o.plain); err != nil {
		return err
	}
	if err := errors.Join(o.auditTo.check(), o.record.check()); err != nil {
		return err
	}
	if o.maxInFlight == 0 {
		o.maxInFlight = 64 * runtime.GOMAXPROCS(0)
	}
	if !o.plain {
		return nil
	}
	if !listenSet {
		o.listen = "127.0.0.1:9443"
	}
	if !opsSet {
		o.opsListen = "127.0.0.1:8081"
	}
	if o.certificates.dir != "" || o.certificates.managed() {
		return errors.New("--plain serves no certificate: leave out --cert-dir and --certs")
	}
	host, _, err := net.SplitHostPort(o.listen)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--plain --listen %s: reviews without TLS are for this machine only, such as 127.0.0.1:9443", o.listen)
	}
	return nil
}
