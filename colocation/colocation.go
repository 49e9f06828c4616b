// Package colocation is the suite that does what Koordinator's webhooks do. Its entry point is New, which the program's
// list of suites calls.
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

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/collections"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/colocation/mutators"
	"usher.dev/usher/config"
	"usher.dev/usher/server/suite"
)

// Suite is the colocation suite: its flags, its view of the cluster, and its state of the quotas. The zero value is
// ready for Flags.
type Suite struct {
	options options
	gates   gate.Set
	state   state
	source  string // the source of the cluster: "files" or "api"
	routes  []admit.Route
}

// options are the flags of the suite.
type options struct {
	labelRules, sloConfig types.NamespacedName
	sloNames              string // whether every entry of the SLO configuration needs a name: "true" or "false"
	quotaExpiry           time.Duration
	childRequest          bool
}

// Name is the name of the suite, as in `usher webhooks --suite`.
const Name = "colocation"

// New returns the colocation suite.
func New() suite.Suite { return (&Suite{}).Value() }

// Value returns the suite as a value.
func (s *Suite) Value() suite.Suite {
	return suite.Suite{
		Name: Name, Doc: "all namespaces except kube-system and usher's own",
		Gates: api.Gates(), ForeignGates: api.ForeignGates(), Kinds: s.Kinds(),
		Flags: s.Flags, ServeFlags: s.ServeFlags, Check: s.Check,
		Catalogue: s.Catalogue, Rights: s.Rights, Routes: s.Routes, Open: s.Open, Use: s.Use, Start: s.Start, End: s.End,
		Metrics: s.Metrics, Debug: s.Debug, Explain: s.Explain, Usage: usage,
	}
}

// Flags adds the flags that name the ConfigMaps that steps read.
func (s *Suite) Flags(set *pflag.FlagSet) {
	o := &s.options
	o.quotaExpiry = ledger.DefaultExpiry
	set.StringVar(&o.labelRules.Namespace, "pod-enhanced-validator-config-namespace", collections.DefaultLabelRules.Namespace,
		"namespace of the ConfigMap with the rules about required labels")
	set.StringVar(&o.labelRules.Name, "pod-enhanced-validator-config-name", collections.DefaultLabelRules.Name,
		"name of the ConfigMap with the rules about required labels")
	set.StringVar(&o.sloConfig.Namespace, "config-namespace", collections.DefaultSLOConfig.Namespace,
		"namespace of the ConfigMap with the SLO configuration")
	set.StringVar(&o.sloConfig.Name, "slo-config-name", collections.DefaultSLOConfig.Name,
		"name of the ConfigMap with the SLO configuration")
	set.StringVar(&o.sloNames, "node-strategy-name-need-check", "false", "true: every entry of the SLO configuration needs a name of its own")
}

// ServeFlags adds the flags of the quota ledger.
func (s *Suite) ServeFlags(set *pflag.FlagSet) {
	set.DurationVar(&s.options.quotaExpiry, "quota-reservation-expiry", ledger.DefaultExpiry,
		"how long a quota holds room for an admitted pod that does not appear: longer than the API server's --request-timeout and half a minute")
	set.BoolVar(&s.options.childRequest, "quota-child-request", false,
		"write what pods ask for to the quotas' annotation child-request: where no Koordinator scheduler does")
}

// Check validates the flags. source is the source of the cluster: "files" or "api".
func (s *Suite) Check(source string) error {
	o := s.options
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

// Catalogue returns the collections that the steps of the suite may need.
func (s *Suite) Catalogue() []cluster.Declared {
	return collections.Catalogue(s.options.labelRules, s.options.sloConfig)
}

// Routes returns every route of the suite.
func (s *Suite) Routes(policy *config.Policy, gates gate.Set) []admit.Route {
	return colocation(deps{policy: policy, gates: gates, state: s.state, options: s.options})
}

// Kinds returns, for each kind that the routes review, a function that returns a new typed object.
func (s *Suite) Kinds() map[metav1.GroupVersionKind]func() any {
	return map[metav1.GroupVersionKind]func() any{
		metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Binding")):   func() any { return &corev1.Binding{} },
		metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap")): func() any { return &corev1.ConfigMap{} },
		metav1.GroupVersionKind(api.ReservationKind):                             func() any { return &api.Reservation{} },
		metav1.GroupVersionKind(api.ElasticQuotaKind):                            func() any { return &api.ElasticQuota{} },
		metav1.GroupVersionKind(api.ClusterColocationProfileKind):                func() any { return &api.ClusterColocationProfile{} },
		metav1.GroupVersionKind(api.ElasticQuotaProfileKind):                     func() any { return &api.ElasticQuotaProfile{} },
	}
}

// Rights returns the permissions that usher needs beyond watching: to write the records of the quota ledger, if there
// is one, and to check for Koordinator's webhooks.
func (s *Suite) Rights(served []admit.Route) (rules []rbacv1.PolicyRule) {
	if evaluatesQuotas(served) {
		rules = append(rules, collections.WriteRule())
	}
	return append(rules, collections.ConflictingWebhookRule())
}

// Open creates the quota ledger if a served route evaluates quotas, and subscribes it to the cluster.
func (s *Suite) Open(o suite.Opening) {
	s.source, s.gates, s.routes = o.Source, o.Gates, o.Routes
	s.state = state{quotas: newQuotas(s.options, o.Source, o.Gates, evaluatesQuotas(o.Routes), o.Options.Log), needs: o.Options.Needs}
	if l := s.state.quotas.ledger; l != nil {
		o.Options.Follow = collections.Follow(l)
	}
}

// Use passes the opened cluster to the suite.
func (s *Suite) Use(c *cluster.Cluster) {
	s.state.Cluster = c
	s.state.quotas.cluster.Store(c)
}

// Start checks for Koordinator's own webhooks, and then maintains the records of the ledger until ctx ends.
func (s *Suite) Start(ctx context.Context, log logrus.FieldLogger) error {
	if s.source == "api" {
		if err := s.checkConflictingWebhooks(ctx, log); err != nil {
			return err
		}
	}
	if s.gates.On(api.GateEnableQuotaAdmission) && !s.gates.On(api.GateElasticMutatingWebhook) {
		log.Warn("gate EnableQuotaAdmission without ElasticMutatingWebhook: nobody keeps others from changing the quotas' annotation " + ledger.Annotation)
	}
	s.state.quotas.run(ctx, s.options.childRequest)
	return nil
}

// End gives back what the ledger holds for pods that this replica would have admitted.
func (s *Suite) End(ctx context.Context) { s.state.quotas.end(ctx) }

// checkConflictingWebhooks returns an error if Koordinator's webhooks are registered for the same resources. If the API
// server does not answer, it only logs that: usher must be able to start before anything else.
func (s *Suite) checkConflictingWebhooks(ctx context.Context, log logrus.FieldLogger) error {
	var resources []string
	for _, r := range s.routes {
		if r.Suite == Name {
			for _, m := range r.For {
				resources = append(resources, m.Resources...)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := collections.CheckConflictingWebhooks(ctx, s.state.Cluster, resources)
	if err != nil && !errors.Is(err, collections.ErrConflictingWebhooks) {
		log.WithError(err).Warn("cannot tell whether Koordinator's webhooks are registered as well")
		return nil
	}
	return err
}

// Metrics returns the metrics of the ledger, if there is one.
func (s *Suite) Metrics() []prometheus.Collector {
	if s.state.quotas.ledger == nil {
		return nil
	}
	return []prometheus.Collector{quotaMetrics(s.state.quotas)}
}

// Debug returns the debug page of the quotas, if there is a ledger.
func (s *Suite) Debug() map[string]http.Handler {
	if s.state.quotas.ledger == nil {
		return nil
	}
	return map[string]http.Handler{"/debug/quotas": debugQuotas(s.state.quotas.ledger)}
}

// state is the suite's view of the cluster and its state of the quotas.
type state struct {
	*cluster.Cluster
	quotas *quotas
	needs  []string // the names of the collections that are kept
}

// questions returns the questions of a step that needs the given collections. Each is answered from the current state.
// They work only if there is a cluster, not where routes are merely listed.
func (s state) questions(needs []string) questions {
	return questions{collections.Questions{Reader: s.Reader(needs)}, s.quotas}
}

// questions are the questions about the cluster, and those that also involve the state of this replica, see quota_questions.go.
type questions struct {
	collections.Questions
	quotas *quotas
}

// profileQuestions returns the questions of the steps that apply colocation profiles.
func (q questions) profileQuestions() mutators.ProfileQuestions {
	return mutators.ProfileQuestions{Profiles: q.Profiles, Namespace: q.Namespace, OwnersNamespace: q.NamedNamespace, PriorityClass: q.PriorityClass,
		LimitRanges: q.LimitRanges}
}
