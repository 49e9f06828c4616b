package command

import (
	"context"
	"crypto/tls"
	"io"
	stdlog "log"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sirupsen/logrus"
	"golang.org/x/term"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
	"usher.dev/usher/server/auditlog"
	"usher.dev/usher/server/callers"
	"usher.dev/usher/server/connections"
	"usher.dev/usher/server/ratelimit"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
)

// service is everything that runs while usher serves.
type service struct {
	serveOptions
	log     *logrus.Logger
	out     io.Writer
	metrics *prometheus.Registry
	edge    handlers.Server
	limits  *ratelimit.Limits
	gate    *callers.Gate // nil with --auth=off
	audit   *auditlog.Log // nil without --audit-log
	suites  suite.List
	version string
	cluster *cluster.Cluster
	reviews *handlers.Metrics
	policy  policyMetrics
	inForce atomic.Pointer[config.Policy]
	live    atomic.Pointer[http.Handler] // the routes of the policy in force
	hooks   []webhooks.Hook              // that the policy in force needs
	health  handlers.Health
	caFile  string // of a certificate of our own, or empty

	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error) // nil with --plain
}

// serve runs until ctx ends, then drains.
func (p Program) serve(ctx context.Context, o serveOptions) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &service{serveOptions: o, suites: p.Suites, version: p.Version, log: newLogger(o.logFormat, p.Err), out: p.Out,
		limits: ratelimit.New(time.Now)}
	return s.run(ctx, stop)
}

// run serves until ctx ends. Then it calls deafen, so that a second signal ends the process at once, and drains.
func (s *service) run(ctx context.Context, deafen func()) error {
	limitMemory(s.log, memlimit.FromCgroup)
	s.makeMetrics()
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ctx, end := context.WithCancel(ctx)
	defer end()
	go s.tellHangups(background, hangups(background), end)
	policy, inForce, err := config.Open(s.config, s.suites.Schema())
	if err == nil {
		err = s.usable(policy)
	}
	if err != nil {
		return err
	}
	if err := s.openCluster(background); err != nil {
		return err
	}
	if err := s.openAudit(s.out); err != nil {
		return err
	}
	stopRecording, err := s.openRecording()
	if err != nil {
		return err
	}
	defer stopRecording()
	if err := s.openGate(background); err != nil {
		return err
	}
	s.use(policy, nil)
	if err := s.openCertificate(background); err != nil {
		return err
	}
	go s.cluster.Run(background)
	go daily(background, s.warnOfEnds)
	if s.config != "" {
		go config.Watch(background, s.config, s.times(background), inForce, s.suites.Schema(), s.use)
	}
	return s.listenAndServe(ctx, deafen)
}

// openCluster opens the cluster for the suites, and starts what they run until ctx ends.
func (s *service) openCluster(ctx context.Context) (err error) {
	s.clusterSource.reread = hangups(ctx)
	if s.cluster, err = s.suites.Open(s.clusterSource.source, s.gates, s.log, s.clusterSource.open); err != nil {
		return err
	}
	if err := s.suites.Start(ctx, s.log); err != nil {
		return err
	}
	s.metrics.MustRegister(clusterMetrics{s.cluster})
	for _, suite := range s.suites {
		if suite.Metrics != nil {
			s.metrics.MustRegister(suite.Metrics()...)
		}
	}
	s.health.Checks = map[string]func() error{"cluster": s.cluster.Ready}
	return nil
}

func newLogger(format string, to io.Writer) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(to)
	if format == "json" || format == "auto" && !isTerminal(to) {
		log.SetFormatter(handlers.JSONLines{Formatter: legible{&logrus.JSONFormatter{TimestampFormat: handlers.TimeFormat}}})
	} else {
		log.SetFormatter(legible{log.Formatter})
	}
	return log
}

// isTerminal reports whether w is a terminal; other devices, such as /dev/null, are none.
func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (s *service) makeMetrics() {
	s.metrics = prometheus.NewRegistry()
	limits := handlers.NewLimits(s.maxInFlight)
	s.reviews, s.policy = handlers.NewMetrics(s.metrics, limits), newPolicyMetrics()
	log, unused := handlers.Log(s.log), handlers.LogUnused(s.log, time.Now)
	s.edge = handlers.Server{Limits: limits, Draining: s.health.Draining, Observe: func(r admit.Route, d handlers.Decision, took time.Duration) {
		s.reviews.Observe(r, d, took)
		log(r, d, took)
		unused(r, d, took)
	}}
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "usher_build_info", Help: "Always 1; the version is a label.",
		ConstLabels: prometheus.Labels{"version": s.version}}, func() float64 { return 1 })
	s.metrics.MustRegister(s.policy.current, s.policy.loaded, gateMetrics(s.suites.Gates(), s.gates), overrideMetrics{s.inForce.Load},
		limitMetrics{s.limits}, build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*s.live.Load()).ServeHTTP(w, r) }

// listenAndServe opens both listeners, serves, and drains when ctx ends.
func (s *service) listenAndServe(ctx context.Context, deafen func()) error {
	reviews, err := s.open("reviews", s.listen, s.maxConnections)
	if err != nil {
		return err
	}
	ops, err := s.open("operations", s.opsListen, maxOperationsConnections)
	if err != nil {
		return err
	}
	ops.CutBusy() // or clients that do not read their answers would keep the kubelet's probes waiting
	pages, err := s.operations()
	if err != nil {
		return err
	}
	errorLog := stdlog.New(newErrorLog(s.log), "", 0)
	server, operations := newServer(s, reviews, errorLog), newServer(pages, ops, errorLog)
	operations.SetKeepAlivesEnabled(false) // a client that sends a thousand requests in a row takes turns with the kubelet's probes
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(s.secured(reviews)) }()
	go func() { failed <- operations.Serve(ops) }()
	address := reviews.Addr().String()
	s.greet(address, ops.Addr().String())
	s.log.WithFields(logrus.Fields{"reviews": address, "operations": ops.Addr().String(), "version": s.version}).Info("serving")
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	deafen()
	s.drain(reviews, server, operations)
	return nil
}

// newServer has time limits beyond what the API server ever waits (30 s).
func newServer(handler http.Handler, l *connections.Listener, errors *stdlog.Logger) *http.Server {
	return &http.Server{
		Handler: handler, ConnState: l.State, ErrorLog: errors,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 35 * time.Second, WriteTimeout: 40 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
	}
}

// operations returns the handler of the operations listener.
func (s *service) operations() (http.Handler, error) {
	protected, err := s.protection()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	s.health.Register(mux)
	mux.Handle("/metrics", promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	mux.Handle("/debug/", protected(s.debugPages()))
	return mux, nil
}
