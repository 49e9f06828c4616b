package command

import (
	"cmp"

	"github.com/spf13/pflag"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/config"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
)

// registrationFlags say for what usher is registered, and where the API server finds it.
type registrationFlags struct {
	service, url, user, caFile string
	config, inject             string
	suites, excluded           []string
	excludedPods               []string
	failOpen, failClosed       []string
	skipKubelets               bool
}

func (o *registrationFlags) addTo(set *pflag.FlagSet, suites suite.List, withoutCA string) {
	set.SortFlags = false
	set.StringVar(&o.service, "service", "usher/usher", "Service that the API server calls, as namespace/name")
	set.StringVar(&o.url, "url", "", "URL that the API server calls instead of a Service, such as https://127.0.0.1:9443")
	set.StringVar(&o.user, "user", "", "user name of usher at the API server (default: that of the service account usher in the Service's namespace)")
	set.StringVar(&o.caFile, "ca-file", "", "PEM file with the CA of the serving certificate, to be used as caBundle (default: "+withoutCA+")")
	set.StringVar(&o.config, "config", "", "policy file that usher serves, which determines what usher is registered for (default: the embedded policy)")
	set.StringVar(&o.inject, "inject", "", "who fills in the caBundle, by an annotation: "+
		"cert-manager (its Certificate usher-tls in the Service's namespace), cert-manager=namespace/certificate, or openshift")
	set.StringSliceVar(&o.suites, "suite", suites.Names()[:1], "suites whose routes are registered, separated by commas: "+suites.Describe())
	set.StringArrayVar(&o.excluded, "exclude-namespace", nil,
		"namespace that is not sent to usher, apart from elastic quotas and the SLO ConfigMap, so that its pods can start while usher is "+
			"unavailable; may be repeated")
	set.StringArrayVar(&o.excludedPods, "exclude-pods", nil,
		"service account, as namespace/name, whose pods are never sent to usher, by a match condition, so that network or storage "+
			"can start while usher is unavailable; anyone who may create pods in that namespace may use it; may be repeated; needs Kubernetes 1.28")
	set.BoolVar(&o.skipKubelets, "skip-kubelets", false, "leave out, by matchConditions, what kubelets write themselves: "+
		"mirror pods, and leases and status where the policy names resources by a wildcard; needs Kubernetes 1.28")
	set.StringSliceVar(&o.failOpen, "fail-open", nil,
		"paths to register with failurePolicy Ignore, such as /validate-pods, or all: for a first stage")
	set.StringSliceVar(&o.failClosed, "fail-closed", nil,
		"paths to register with failurePolicy Fail, in addition to those that have it by default, such as /validate-pod-binding; "+
			"not possible for the heartbeats of nodes")
}

// needed returns the routes to register, and the address.
func (p Program) needed(o registrationFlags, gates gate.Set) (routes []admit.Route, at webhooks.Address, err error) {
	if at, err = webhooks.NewAddress(o.service, o.url, o.caFile); err != nil {
		return nil, at, err
	}
	if err := webhooks.CheckExcluded(o.excluded); err != nil {
		return nil, at, err
	}
	if err := webhooks.CheckExcludedPods(o.excludedPods); err != nil {
		return nil, at, err
	}
	at.SkipKubelets, at.ExcludedPods = o.skipKubelets, o.excludedPods
	at.Excluded, at.User = o.excluded, cmp.Or(o.user, "system:serviceaccount:"+at.Namespace+":usher")
	if at.Annotations, err = webhooks.Inject(o.inject, at.Namespace); err != nil {
		return nil, at, err
	}
	in := suite.Instance{Gates: gates}
	if in.Suites, err = p.Suites.Named(o.suites); err != nil {
		return nil, at, err
	}
	if in.Policy, err = config.Load(o.config, p.Suites.Schema()); err != nil {
		return nil, at, err
	}
	routes = webhooks.OneAmplifier(in.Routes())
	if err := webhooks.FailOpen(routes, o.failOpen); err != nil {
		return nil, at, err
	}
	return routes, at, webhooks.FailClosed(routes, o.failClosed)
}
