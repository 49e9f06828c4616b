// Command smallest is a sample: the smallest usher, with the steps of the tutorial, their handlers, certificates and metrics, and nothing
// of the rest. Its test holds what such a program links. The folder certs has the files tls.crt and tls.key.
package main

import (
	"log"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sirupsen/logrus"
	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/certs"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
	"usher.dev/usher/mutators"
	"usher.dev/usher/validators"
)

func main() {
	handler, err := serve()
	if err != nil {
		log.Fatal(err)
	}
	source, err := certs.Open("certs")
	if err != nil {
		log.Fatal(err)
	}
	offered := certs.TLSConfig(source.GetCertificate, certs.Profile{})
	server := http.Server{Addr: ":8443", Handler: handler, TLSConfig: offered, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServeTLS("", ""))
}

// serve returns the handler of the routes and of the metrics, under the default policy.
func serve() (http.Handler, error) {
	schema := schemaOf(routes(config.PolicyOf()))
	policy, err := config.Load("", schema)
	if err != nil {
		return nil, err
	}
	limits, registry := handlers.NewLimits(8), prometheus.NewRegistry()
	metrics, logged := handlers.NewMetrics(registry, limits), handlers.Log(logrus.StandardLogger())
	observe := func(r admit.Route, d handlers.Decision, took time.Duration) {
		metrics.Observe(r, d, took)
		logged(r, d, took)
	}
	reviews := handlers.Server{Limits: limits, Draining: func() bool { return false }, Observe: observe}
	mux := http.NewServeMux()
	mux.Handle("/", reviews.Serve(routes(policy)))
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux, nil
}

// routes returns the paths with the steps of the tutorial.
func routes(policy *config.Policy) []admit.Route {
	pods := slices.DeleteFunc(mutators.Pods(policy, admit.Questions{}), func(m admit.Mutator[admit.Pod]) bool {
		return m.Name != "environment" && m.Name != "lifespan"
	})
	checks := slices.DeleteFunc(validators.Pods(policy, admit.Questions{}), func(v admit.Validator[admit.Pod]) bool { return v.Name != "denied-names" })
	return []admit.Route{
		{Path: "/mutate-pods", For: admit.Pods(admissionv1.Create), Chain: admit.Mutate(admit.AsPod, pods)},
		{Path: "/validate-pods", For: admit.Pods(admissionv1.Create), Chain: admit.Validate(admit.AsPod, checks)},
		{Path: "/mutate-nodes", For: admit.NodeStatus(), Chain: admit.Mutate(admit.AsNode, mutators.Nodes(policy))},
	}
}

// schemaOf returns the sections of the policy that the steps of routes name.
func schemaOf(routes []admit.Route) config.Schema {
	var steps []admit.Step
	for _, r := range routes {
		steps = append(steps, r.Chain.Steps()...)
	}
	return config.SchemaOf(steps...)
}
