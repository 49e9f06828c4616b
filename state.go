package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/collections"
	"usher.dev/usher/config"
	"usher.dev/usher/gate"
	"usher.dev/usher/handlers"
	"usher.dev/usher/mutators"
	"usher.dev/usher/poll"
)

// clusterOptions are the flags that say where usher learns what the cluster looks like.
type clusterOptions struct {
	source, dir, kubeconfig string
	labelRules, sloConfig   types.NamespacedName
	quotaExpiry             time.Duration
	reread                  <-chan os.Signal // when to read dir again at once; nil for never
	sloNames                string           // whether the entries of the SLO configuration need names: "true" or "false"
}

func (o *clusterOptions) addTo(set *pflag.FlagSet) {
	set.StringVar(&o.source, "cluster", "files", "where the state of the cluster comes from: files, or api: an API server")
	o.addFilesTo(set)
	set.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does, or as a pod of the cluster)")
}

func (o *clusterOptions) addFilesTo(set *pflag.FlagSet) {
	set.StringVar(&o.dir, "cluster-dir", "", "directory of manifests that stand for the cluster, re-read on change (default: an empty cluster)")
	o.addRulesTo(set)
}

func (o *clusterOptions) addRulesTo(set *pflag.FlagSet) {
	set.StringVar(&o.labelRules.Namespace, "pod-enhanced-validator-config-namespace", collections.DefaultLabelRules.Namespace,
		"namespace of the ConfigMap with the rules about required labels")
	set.StringVar(&o.labelRules.Name, "pod-enhanced-validator-config-name", collections.DefaultLabelRules.Name, "its name")
	set.StringVar(&o.sloConfig.Namespace, "config-namespace", collections.DefaultSLOConfig.Namespace, "namespace of the ConfigMap with the SLO configuration")
	set.StringVar(&o.sloConfig.Name, "slo-config-name", collections.DefaultSLOConfig.Name, "its name")
	set.StringVar(&o.sloNames, "node-strategy-name-need-check", "false", "true: every entry of the SLO configuration needs a name of its own")
}

func (o *clusterOptions) check() error {
	switch {
	case o.source != "files" && o.source != "api":
		return fmt.Errorf("--cluster %s: must be files or api", o.source)
	case o.source == "api" && o.dir != "":
		return fmt.Errorf("--cluster-dir is for --cluster=files")
	case o.source == "files" && o.kubeconfig != "":
		return fmt.Errorf("--kubeconfig is for --cluster=api")
	}
	return nil
}

// open makes the memory of the cluster, with what the steps that the gates leave need. It is current while its Run runs.
func (o *clusterOptions) open(open gate.Set, log logrus.FieldLogger) (state, error) {
	served := routes(world{policy: &config.Policy{}, gates: open, known: *o})
	options := o.watchOptions(served)
	options.Log, options.Poll = log, poll.Times{Every: pollEvery, Now: o.reread}
	s := state{quotas: newQuotas(o, open, holdsPods(served), log), needs: options.Needs}
	if s.quotas.ledger != nil {
		options.Follow = collections.Follow(s.quotas.ledger)
	}
	var err error
	if o.source != "api" {
		s.Cluster, err = cluster.Files(o.dir, options)
	} else {
		s.Cluster, err = o.watch(options)
	}
	if err != nil {
		return state{}, err
	}
	s.quotas.cluster.Store(s.Cluster)
	return s, nil
}

// watchOptions say what of a cluster is kept: what the steps of the routes need.
func (o *clusterOptions) watchOptions(served []handlers.Route) cluster.Options {
	options := cluster.Options{Catalogue: collections.Catalogue(o.labelRules, o.sloConfig)}
	for _, r := range served {
		options.Needs = append(options.Needs, r.Chain.Needs()...)
	}
	return options
}

func (o *clusterOptions) watch(options cluster.Options) (*cluster.Cluster, error) {
	config, err := cluster.LoadConfig(o.kubeconfig, "")
	if err != nil {
		return nil, fmt.Errorf("--cluster=api: %w", err)
	}
	return cluster.API(config, options)
}

// checkRivals refuses to work beside Koordinator's webhooks for the same resources. If the API server does not answer, that is logged:
// usher must come up also when nothing else does.
func (o *clusterOptions) checkRivals(ctx context.Context, at *cluster.Cluster, routes []handlers.Route, log logrus.FieldLogger) error {
	if o.source != "api" {
		return nil
	}
	var resources []string
	for _, r := range routes {
		if r.Suite == handlers.Colocation {
			resources = append(resources, r.For.Resources...)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := collections.CheckRivals(ctx, at, resources)
	if err != nil && !errors.Is(err, collections.ErrRivals) {
		log.WithError(err).Warn("cannot tell whether Koordinator's webhooks are registered as well")
		return nil
	}
	return err
}

// state is what usher knows of the cluster, and remembers of its quotas.
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
