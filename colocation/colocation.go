// Package colocation is the suite that does what Koordinator's webhooks do. New is its only door: the program's list of suites opens it.
package colocation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/collections"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/colocation/mutators"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/config"
	"usher.dev/usher/gate"
	"usher.dev/usher/handlers"
	"usher.dev/usher/suite"
)

// Suite is the colocation suite: its flags, and what it remembers of the cluster and its quotas. The zero value is ready for Flags.
type Suite struct {
	options options
	gates   gate.Set
	state   state
	source  string // where the cluster comes from: files or api
	routes  []handlers.Route
}

// options are the flags of the suite.
type options struct {
	labelRules, sloConfig types.NamespacedName
	sloNames              string // whether the entries of the SLO configuration need names: "true" or "false"
	quotaExpiry           time.Duration
	childRequest          bool
}

// Name is the suite's, as in `usher webhooks --suite`.
const Name = "colocation"

// New returns the colocation suite.
func New() suite.Suite { return (&Suite{}).Value() }

// Value returns the suite as a value.
func (w *Suite) Value() suite.Suite {
	return suite.Suite{
		Name: Name, Doc: "all namespaces but kube-system and usher's own",
		Gates: api.Gates(), Sections: sections.All(), DefaultPolicy: sections.Default, Kinds: w.Kinds(),
		Flags: w.Flags, ServeFlags: w.ServeFlags, Check: w.Check,
		Catalogue: w.Catalogue, Rights: w.Rights, Routes: w.Routes, Open: w.Open, Use: w.Use, Start: w.Start,
		Metrics: w.Metrics, Debug: w.Debug, Explain: w.Explain,
	}
}

// Flags adds the flags that say which ConfigMaps the steps read.
func (w *Suite) Flags(set *pflag.FlagSet) {
	o := &w.options
	o.quotaExpiry = ledger.DefaultExpiry
	set.StringVar(&o.labelRules.Namespace, "pod-enhanced-validator-config-namespace", collections.DefaultLabelRules.Namespace,
		"namespace of the ConfigMap with the rules about required labels")
	set.StringVar(&o.labelRules.Name, "pod-enhanced-validator-config-name", collections.DefaultLabelRules.Name,
		"name of the ConfigMap with the rules about required labels")
	set.StringVar(&o.sloConfig.Namespace, "config-namespace", collections.DefaultSLOConfig.Namespace, "namespace of the ConfigMap with the SLO configuration")
	set.StringVar(&o.sloConfig.Name, "slo-config-name", collections.DefaultSLOConfig.Name, "name of the ConfigMap with the SLO configuration")
	set.StringVar(&o.sloNames, "node-strategy-name-need-check", "false", "true: every entry of the SLO configuration needs a name of its own")
}

// ServeFlags adds the flags of the quota ledger.
func (w *Suite) ServeFlags(set *pflag.FlagSet) {
	set.DurationVar(&w.options.quotaExpiry, "quota-reservation-expiry", ledger.DefaultExpiry,
		"how long a quota holds room for an admitted pod that does not appear: longer than the API server's --request-timeout and half a minute")
	set.BoolVar(&w.options.childRequest, "quota-child-request", false,
		"write what pods ask for to the quotas' annotation child-request: where no Koordinator scheduler does")
}

// Check reports what is wrong with the flags. source is where the cluster comes from: files or api.
func (w *Suite) Check(source string) error {
	o := w.options
	switch {
	case o.quotaExpiry < time.Second:
		return fmt.Errorf("--quota-reservation-expiry %s: must be longer than the API server works on a request, 60s by default", o.quotaExpiry)
	case o.childRequest && source != "api":
		return errors.New("--quota-child-request is for --cluster=api")
	case o.sloNames != "true" && o.sloNames != "false":
		return fmt.Errorf("--node-strategy-name-need-check %s: must be true or false", o.sloNames)
	}
	return nil
}

// Catalogue returns the collections that the suite's steps may need.
func (w *Suite) Catalogue() []cluster.Declared {
	return collections.Catalogue(w.options.labelRules, w.options.sloConfig)
}

// Routes returns every route of the suite.
func (w *Suite) Routes(policy *config.Policy, gates gate.Set) []handlers.Route {
	return colocation(deps{policy, gates, w.state, w.options})
}

// Kinds returns the typed objects behind the kinds of the suite's routes.
func (w *Suite) Kinds() map[metav1.GroupVersionKind]func() any {
	return map[metav1.GroupVersionKind]func() any{
		metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Binding")):   func() any { return &corev1.Binding{} },
		metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap")): func() any { return &corev1.ConfigMap{} },
		metav1.GroupVersionKind(api.ReservationKind):                             func() any { return &api.Reservation{} },
		metav1.GroupVersionKind(api.ElasticQuotaKind):                            func() any { return &api.ElasticQuota{} },
		metav1.GroupVersionKind(api.ClusterColocationProfileKind):                func() any { return &api.ClusterColocationProfile{} },
	}
}

// Rights returns what usher must be allowed to do beside watching: write the records of the quota ledger if it has one, and look whether
// Koordinator's webhooks are registered.
func (w *Suite) Rights(served []handlers.Route) (rules []rbacv1.PolicyRule) {
	if holdsPods(served) {
		rules = append(rules, collections.WriteRule())
	}
	return append(rules, collections.RivalRule())
}

// Open prepares the quota ledger, if the routes that are served hold pods to their quotas, and lets it follow the cluster.
func (w *Suite) Open(o suite.Opening) {
	w.source, w.gates, w.routes = o.Source, o.Gates, o.Routes
	w.state = state{quotas: newQuotas(w.options, o.Source, o.Gates, holdsPods(o.Routes), o.Options.Log), needs: o.Options.Needs}
	if l := w.state.quotas.ledger; l != nil {
		o.Options.Follow = collections.Follow(l)
	}
}

// Use gives the suite the cluster that was opened.
func (w *Suite) Use(known *cluster.Cluster) {
	w.state.Cluster = known
	w.state.quotas.cluster.Store(known)
}

// Start looks for Koordinator's own webhooks, and keeps the records of the ledger until ctx ends.
func (w *Suite) Start(ctx context.Context, log logrus.FieldLogger) error {
	if w.source == "api" {
		if err := w.checkRivals(ctx, log); err != nil {
			return err
		}
	}
	if w.gates.On(api.GateEnableQuotaAdmission) && !w.gates.On(api.GateElasticMutatingWebhook) {
		log.Warn("gate EnableQuotaAdmission without ElasticMutatingWebhook: nobody keeps others from changing the quotas' annotation " + ledger.Annotation)
	}
	w.state.quotas.run(ctx, w.options.childRequest)
	return nil
}

// checkRivals refuses to work beside Koordinator's webhooks for the same resources. If the API server does not answer, that is logged:
// usher must come up also when nothing else does.
func (w *Suite) checkRivals(ctx context.Context, log logrus.FieldLogger) error {
	var resources []string
	for _, r := range w.routes {
		if r.Suite == Name {
			resources = append(resources, r.For.Resources...)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := collections.CheckRivals(ctx, w.state.Cluster, resources)
	if err != nil && !errors.Is(err, collections.ErrRivals) {
		log.WithError(err).Warn("cannot tell whether Koordinator's webhooks are registered as well")
		return nil
	}
	return err
}

// Metrics returns those of the ledger, if there is one.
func (w *Suite) Metrics() []prometheus.Collector {
	if w.state.quotas.ledger == nil {
		return nil
	}
	return []prometheus.Collector{quotaMetrics{w.state.quotas.ledger}}
}

// Debug returns the page of the quotas, if there is a ledger.
func (w *Suite) Debug() map[string]http.Handler {
	if w.state.quotas.ledger == nil {
		return nil
	}
	return map[string]http.Handler{"/debug/quotas": debugQuotas(w.state.quotas.ledger)}
}

// state is what the suite knows of the cluster, and remembers of its quotas.
type state struct {
	*cluster.Cluster
	quotas *quotas
	needs  []string // the collections that are kept
}

// questions are what a step that needs the collections may ask. They are answered each time as it is then, and only where there is a
// cluster, not where routes are merely listed.
func (s state) questions(needs []string) questions {
	return questions{collections.Questions{Reader: s.Reader(needs)}, s.quotas}
}

// questions are the questions about the cluster, and those that are about what this replica remembers, too: see quotas.go.
type questions struct {
	collections.Questions
	quotas *quotas
}

// profileQuestions are those of the steps that apply colocation profiles.
func (q questions) profileQuestions() mutators.ProfileQuestions {
	return mutators.ProfileQuestions{Profiles: q.Profiles, Namespace: q.Namespace, OwnersNamespace: q.NamedNamespace, PriorityClass: q.PriorityClass}
}
