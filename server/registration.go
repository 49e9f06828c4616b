package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/internal/metric"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
)

// lookEvery is the interval for reading both webhook configurations.
const lookEvery = 5 * time.Second

// registration follows how usher is registered at the API server.
type registration struct {
	*service
	keeper  webhooks.Keeper
	states  atomic.Pointer[registered]
	logged  map[string]string // what was last logged of an entry
	failing string            // the error that was last logged
	unkept  string            // the same, of restoring
}

// registered is what was read last.
type registered struct {
	states []webhooks.State
	err    error
}

// watchRegistration follows how usher is registered until ctx ends, if there is an API server to ask.
func (s *service) watchRegistration(ctx context.Context) error {
	config, err := s.registrationConfig()
	if config == nil {
		return err
	}
	client, err := apiserver.New(config)
	if err != nil {
		return err
	}
	at, err := webhooks.NewAddress(s.Certificates.Service, "", "")
	if err != nil {
		return err
	}
	r := &registration{service: s, keeper: webhooks.Keeper{Registrar: webhooks.Registrar{Client: client, At: at}, Wait: s.KeepRegistered},
		logged: map[string]string{}}
	s.metrics.MustRegister(r.metrics())
	s.ending.Go(func() { r.run(ctx) })
	return nil
}

// registrationConfig returns how the API server is reached, or nil if no other option is about one and usher is no pod with a
// token: a kubeconfig file of the user is not read for this alone.
func (s *service) registrationConfig() (*rest.Config, error) {
	switch {
	case !s.WatchRegistration:
		return nil, nil
	case s.Cluster.From == "api" || s.Certificates.Managed:
		return apiserver.LoadConfig(s.Cluster.Kubeconfig, "")
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, nil // on a laptop, or in a pod without a token
	}
	return config, nil
}

// run looks repeatedly until ctx ends.
func (r *registration) run(ctx context.Context) {
	every := lookEvery
	if r.KeepRegistered > 0 {
		every = min(every, max(r.KeepRegistered/2, 100*time.Millisecond))
	}
	for ctx.Err() == nil {
		r.look(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(every*9/10 + rand.N(every/5)):
		}
	}
}

// look reads how usher is registered, and restores it if that is asked for. What is not known any longer is said to be unknown.
func (r *registration) look(ctx context.Context) {
	var marker webhooks.MarkerState
	var unread error
	if r.KeepRegistered > 0 {
		marker, unread = r.keeper.Marker(ctx)
	}
	states, read, err := r.read(ctx)
	r.states.Store(&registered{states, err})
	r.log(states, err)
	if r.KeepRegistered == 0 || err != nil {
		return
	}
	done, failed := "", unread
	if unread == nil {
		done, failed = r.keeper.Keep(ctx, marker, states, read, r.expected, r.trusted)
	}
	r.logKept(done, failed)
}

// read reads how usher is registered.
func (r *registration) read(ctx context.Context) (states []webhooks.State, read webhooks.Registered, err error) {
	if err = r.identify(ctx); err == nil {
		states, read, err = r.keeper.States(ctx, r.expected, r.trusted)
	}
	if err == nil {
		return states, read, nil
	}
	for _, w := range webhooks.HooksOf(r.expected(nil), r.keeper.At) {
		states = append(states, webhooks.State{Entry: w.Name})
	}
	return states, nil, err
}

// logKept logs what was restored, and why it could not be.
func (r *registration) logKept(done string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if done != "" {
		r.Log.Warn("registration: restored: " + printable.Line(done))
	}
	if text != r.unkept && text != "" {
		r.Log.WithError(err).Warn("registration: it cannot be kept")
	}
	r.unkept = text
}

// identify asks the API server, once, as whom it knows usher: match conditions name this user.
func (r *registration) identify(ctx context.Context) error {
	if r.keeper.At.User != "" {
		return nil
	}
	raw, err := r.keeper.Client.Create(ctx, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		[]byte(`{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}`))
	if err != nil {
		return err
	}
	var review authenticationv1.SelfSubjectReview
	if err := json.Unmarshal(raw, &review); err != nil || review.Status.UserInfo.Username == "" {
		return errors.New("the API server does not say as whom it knows usher")
	}
	r.keeper.At.User = review.Status.UserInfo.Username
	return nil
}

// expected returns the routes of the policy in force that are to be registered, given the names of the registered entries.
func (r *registration) expected(entries []string) []admit.Route {
	in := r.instance
	in.Policy = r.inForce.Load()
	routes := RegisteredRoutes(in, nil, entries)
	if len(routes) == 0 {
		routes = in.Routes()
	}
	return webhooks.OneAmplifier(routes)
}

// RegisteredRoutes returns the routes of the named suites or, without names, of the suites that have a registered entry.
func RegisteredRoutes(in suite.Instance, names, entries []string) (all []admit.Route) {
	for _, s := range in.Suites {
		in.Suites = suite.List{s}
		routes := in.Routes()
		isRegistered := slices.ContainsFunc(webhooks.Entries(routes), func(e webhooks.Entry) bool { return slices.Contains(entries, e.Name) })
		if len(names) == 0 && isRegistered || slices.Contains(names, s.Name) {
			all = append(all, routes...)
		}
	}
	return all
}

// trusted reports whether a caBundle verifies the certificate that is served. Without one, /readyz says why.
func (r *registration) trusted(bundle []byte) bool {
	if r.certificate == nil {
		return true
	}
	served, err := r.certificate(&tls.ClientHelloInfo{})
	if err != nil {
		return true
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, der := range served.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(cert)
		}
	}
	_, err = served.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: r.keeper.Client.Now()})
	return err == nil
}

// log logs what has changed.
func (r *registration) log(states []webhooks.State, err error) {
	if err != nil {
		if text := err.Error(); text != r.failing {
			r.Log.WithError(err).Warn("registration: it is not known whether usher is registered as it needs to be")
			r.failing = text
		}
		return
	}
	if r.failing != "" {
		r.Log.Info("registration: it is known again")
		r.failing = ""
	}
	for _, s := range states {
		text := textOf(s)
		if text != r.logged[s.Entry] && text == "" {
			r.Log.Infof("registration: %s is registered as usher needs it", s.Entry)
		} else if text != r.logged[s.Entry] {
			r.Log.Warnf("registration: %s: %s", s.Entry, printable.Line(text))
		}
		r.logged[s.Entry] = text
	}
}

// textOf returns what is wrong with an entry, or "".
func textOf(s webhooks.State) string {
	if s.Missing {
		return "is not registered, so that the API server does not call usher for it; run usher webhooks apply"
	}
	var changes []string
	for _, c := range s.Changes {
		changes = append(changes, c.String())
	}
	return strings.Join(changes, "; ")
}

// metrics returns the states of the entries.
func (r *registration) metrics() prometheus.Collector {
	series := metric.Gauge("usher_webhook_registered", "1 for the state of a webhook that usher needs at the API server: "+
		"expected, missing, changed (with the field), or unknown.", "webhook", "state", "field")
	return metric.Collector(func(add metric.Add) {
		last := r.states.Load()
		if last == nil {
			return
		}
		for _, s := range last.states {
			switch {
			case last.err != nil:
				add(series, 1, s.Entry, "unknown", "")
			case s.Missing:
				add(series, 1, s.Entry, "missing", "")
			case len(s.Changes) == 0:
				add(series, 1, s.Entry, "expected", "")
			}
			for _, c := range s.Changes {
				add(series, 1, s.Entry, "changed", c.Field)
			}
		}
	})
}
