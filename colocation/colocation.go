// Package colocation is the suite that does what Koordinator's webhooks do. Its entry point is Suite, which package
// routes lists.
package colocation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/collections"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/colocation/mutators"
	"usher.dev/usher/server/suite"
)

// Name is the name of the suite, as in `usher webhooks --suite`.
const Name = "colocation"

// Suite returns the colocation suite.
func Suite() suite.Suite {
	return suite.Suite{
		Name: Name, Doc: "all namespaces except kube-system and usher's own",
		Gates: api.Gates(), ForeignGates: api.ForeignGates(), NewOptions: newOptions,
		Routes: routes, Collections: declared, Rights: rights, Open: open, Tools: Tools{},
	}
}

// options are the flags of the suite.
type options struct {
	labelRules, sloConfig types.NamespacedName
	sloNames              string // whether every entry of the SLO configuration needs a name: "true" or "false"
	quotaExpiry           time.Duration
	childRequest          bool
}

func newOptions() suite.Options {
	return &options{labelRules: collections.DefaultLabelRules, sloConfig: collections.DefaultSLOConfig, sloNames: "false",
		quotaExpiry: ledger.DefaultExpiry}
}

// AddFlags adds the flags that name the ConfigMaps that steps read.
func (o *options) AddFlags(set *pflag.FlagSet) {
	set.StringVar(&o.labelRules.Namespace, "pod-enhanced-validator-config-namespace", o.labelRules.Namespace,
		"namespace of the ConfigMap with the rules about required labels")
	set.StringVar(&o.labelRules.Name, "pod-enhanced-validator-config-name", o.labelRules.Name,
		"name of the ConfigMap with the rules about required labels")
	set.StringVar(&o.sloConfig.Namespace, "config-namespace", o.sloConfig.Namespace,
		"namespace of the ConfigMap with the SLO configuration")
	set.StringVar(&o.sloConfig.Name, "slo-config-name", o.sloConfig.Name,
		"name of the ConfigMap with the SLO configuration")
	set.StringVar(&o.sloNames, "node-strategy-name-need-check", o.sloNames, "true: every entry of the SLO configuration needs a name of its own")
}

// AddServeFlags adds the flags of the quota ledger.
func (o *options) AddServeFlags(set *pflag.FlagSet) {
	set.DurationVar(&o.quotaExpiry, "quota-reservation-expiry", o.quotaExpiry,
		"how long a quota holds room for an admitted pod that does not appear: longer than the API server's --request-timeout and half a minute")
	set.BoolVar(&o.childRequest, "quota-child-request", false,
		"write what pods ask for to the quotas' annotation child-request: where no Koordinator scheduler does")
}

// Check validates the flags. source is the source of the cluster: "files" or "api".
func (o *options) Check(source string) error {
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

// declared returns the collections that the steps of the suite may need.
func declared(o suite.Options) []cluster.Declared {
	is := o.(*options)
	return collections.Catalogue(is.labelRules, is.sloConfig)
}

// rights returns the permissions that usher needs beyond watching: to write the records of the quota ledger, if there
// is one, and to check for Koordinator's webhooks.
func rights(served []admit.Route) (rules []rbacv1.PolicyRule) {
	if evaluatesQuotas(served) {
		rules = append(rules, collections.WriteRule())
	}
	return append(rules, collections.ConflictingWebhookRule())
}

// open returns the state of the quotas. It has a ledger if a served route evaluates quotas.
func open(e suite.Env, o suite.Opening) suite.Running {
	is := e.Options.(*options)
	q := newQuotas(e, o)
	running := suite.Running{State: q, End: q.end, Start: func(ctx context.Context) error {
		if o.Source == "api" {
			if err := checkConflictingWebhooks(ctx, e.Cluster, o); err != nil {
				return err
			}
		}
		if e.Gates.On(api.GateEnableQuotaAdmission) && !e.Gates.On(api.GateElasticMutatingWebhook) {
			o.Log.Warn("gate EnableQuotaAdmission without ElasticMutatingWebhook: nobody keeps others from changing the quotas' annotation " +
				ledger.Annotation)
		}
		q.run(ctx, is.childRequest)
		return nil
	}}
	if q.ledger != nil {
		running.Follow = collections.Follow(q.ledger)
		running.Metrics = []prometheus.Collector{quotaMetrics(q)}
		running.Debug = map[string]http.Handler{"/debug/quotas": debugQuotas(q.ledger)}
	}
	return running
}

// checkConflictingWebhooks returns an error if Koordinator's webhooks are registered for the same resources. If the API
// server does not answer, it only logs that: usher must be able to start before anything else.
func checkConflictingWebhooks(ctx context.Context, c *cluster.Cluster, o suite.Opening) error {
	var resources []string
	for _, r := range o.Served {
		if r.Suite == Name {
			for _, m := range r.For {
				resources = append(resources, m.Resources...)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := collections.CheckConflictingWebhooks(ctx, c, resources)
	if err != nil && !errors.Is(err, collections.ErrConflictingWebhooks) {
		o.Log.WithError(err).Warn("cannot tell whether Koordinator's webhooks are registered as well")
		return nil
	}
	return err
}

// questions are the questions about the cluster, and those that also involve the state of this replica, see quota_questions.go.
// They work only if there is a cluster, not where routes are merely listed.
type questions struct {
	collections.Questions
	quotas *quotas
}

// questionsOf returns the questions of a step that needs the given collections. Each is answered from the current state.
func questionsOf(e suite.Env, needs []string) questions {
	q, _ := e.State.(*quotas) // nil while routes are only listed
	return questions{collections.Questions{Reader: e.Cluster.Reader(needs)}, q}
}

// profileQuestions returns the questions of the steps that apply colocation profiles.
func (q questions) profileQuestions() mutators.ProfileQuestions {
	return mutators.ProfileQuestions{Profiles: q.Profiles, Namespace: q.Namespace, OwnersNamespace: q.NamedNamespace, PriorityClass: q.PriorityClass,
		LimitRanges: q.LimitRanges}
}
