// Package server runs usher until a context ends: Run serves reviews and operations, follows the policy file, the
// certificate and the cluster, and drains at the end. `usher serve` fills in its options from flags. Below it, each folder
// has one part of a running server, and suite/ what is served.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/lines"
	"usher.dev/usher/server/ratelimit"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
)

// service is everything that runs while usher serves.
type service struct {
	Options
	instance  suite.Instance // with the policy that was loaded first
	metrics   *prometheus.Registry
	edge      handlers.Server
	observers []handlers.Observe
	limits    *ratelimit.Limits
	audit     *lines.Writer         // nil without one
	closed    func(context.Context) // closes what Record has opened
	reviews   *handlers.Metrics
	policy    policyMetrics
	trials    *trials
	inForce   atomic.Pointer[config.Policy]
	live      atomic.Pointer[http.Handler]  // the routes of the policy in force
	routes    atomic.Pointer[[]admit.Route] // the same
	hooks     []webhooks.Hook               // that the policy in force needs
	sections  []string                      // that any policy in force has had
	health    health
	caFile    string         // of a certificate of our own, or empty
	ending    sync.WaitGroup // what is ended before the process is

	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error) // nil with Plain
}

// Run serves until ctx ends, and then drains. SIGHUP makes it read files again. The container's memory limit is the process's, or GOMEMLIMIT.
func Run(ctx context.Context, o Options) error {
	if o.Log == nil {
		o.Log = logrus.New()
		o.Log.SetOutput(io.Discard)
	}
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 64*runtime.GOMAXPROCS(0))
	o.MaxConnections = cmp.Or(o.MaxConnections, DefaultMaxConnections)
	if o.Schema == nil {
		o.Schema = o.Suites.Schema()
	}
	limitMemory(o.Log, memlimit.FromCgroup)
	for _, text := range o.Gates.Warnings() {
		o.Log.Warn(text)
	}
	s := newService(o)
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer func() { stop(); s.ending.Wait() }()
	go logHangups(background, o.Log, hangups(background))
	policy, inForce, err := config.Open(o.Config, o.Schema)
	if err != nil {
		return err
	}
	if err := s.open(background, policy); err != nil {
		return err
	}
	go s.instance.Cluster.Run(background)
	go daily(background, s.warnOfEnds)
	if o.Config != "" {
		go config.Watch(background, o.Config, times(background), inForce, o.Schema, s.use)
	}
	return s.listenAndServe(ctx)
}

// newService returns a service that has opened nothing.
func newService(o Options) *service {
	s := &service{Options: o, limits: ratelimit.New(time.Now), metrics: prometheus.NewRegistry(), policy: newPolicyMetrics(),
		trials: newTrials(o.Log), closed: func(context.Context) {}}
	inFlight := handlers.NewLimits(o.MaxInFlight)
	s.reviews = handlers.NewMetrics(s.metrics, inFlight)
	s.observers = []handlers.Observe{s.reviews.Observe, handlers.Log(o.Log), handlers.LogUnused(o.Log, time.Now)}
	s.edge = handlers.Server{Limits: inFlight, Draining: s.health.draining.Load, Observe: func(r admit.Route, d handlers.Decision, took time.Duration) {
		for _, observe := range s.observers {
			observe(r, d, took)
		}
	}}
	s.registerMetrics()
	return s
}

// open opens all that reviews need, and keeps it current until ctx ends.
func (s *service) open(ctx context.Context, policy *config.Policy) error {
	if err := s.usable(policy); err != nil {
		return err
	}
	if err := s.openCluster(ctx, policy); err != nil {
		return err
	}
	if err := s.openAudit(); err != nil {
		return err
	}
	if err := s.openRecord(); err != nil {
		return err
	}
	if err := s.openCallers(ctx); err != nil {
		return err
	}
	if err := s.openTrials(ctx); err != nil {
		return err
	}
	s.use(policy, nil)
	if err := s.openCertificate(ctx); err != nil {
		return err
	}
	return s.watchRegistration(ctx)
}

// openCluster opens the cluster for the suites, and starts what they run until ctx ends.
func (s *service) openCluster(ctx context.Context, policy *config.Policy) (err error) {
	s.Cluster.Poll = times(ctx)
	if s.instance, err = suite.Load(suite.Setup{Suites: s.Suites, Policy: policy, Gates: s.Gates, Cluster: s.Cluster, Log: s.Log}); err != nil {
		return err
	}
	if err := s.instance.Start(ctx); err != nil {
		return err
	}
	s.metrics.MustRegister(clusterMetrics(s.instance.Cluster))
	for _, running := range s.instance.Running {
		s.metrics.MustRegister(running.Metrics...)
	}
	s.health.checks = map[string]func() error{"cluster": s.instance.Cluster.Ready}
	return nil
}

// use activates a policy, or keeps the current one if the new one is invalid.
func (s *service) use(policy *config.Policy, err error) {
	var judged judgement
	if err == nil {
		judged, err = s.accept(policy)
	}
	if err != nil {
		s.policy.current.Set(0)
		s.Log.WithError(err).Error("the policy file is bad; the policy in force stays")
		return
	}
	in := s.instance
	in.Policy = policy
	routes := in.Routes()
	s.limits.Use(config.SectionOf[ratelimit.Policy](policy))
	for i := range routes {
		routes[i].Limit = s.limits.Of(routes[i].Path, routes[i].Heartbeat())
	}
	s.compareRegistration(routes)
	s.compareSections(policy)
	s.reviews.Expect(routes)
	handler := s.edge.Serve(append(routes, in.Off()...))
	s.live.Store(&handler)
	s.routes.Store(&routes)
	s.inForce.Store(policy)
	s.policy.changed()
	s.trials.use(judged)
	s.logPolicy(policy)
}
