package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/api"
	"usher.dev/usher/cluster"
	"usher.dev/usher/handlers"
	"usher.dev/usher/mutators"
	"usher.dev/usher/poll"
	"usher.dev/usher/profile"
	"usher.dev/usher/slo"
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
	set.StringVar(&o.labelRules.Namespace, "pod-enhanced-validator-config-namespace", cluster.DefaultEnhancedRules.Namespace,
		"namespace of the ConfigMap with the rules about required labels")
	set.StringVar(&o.labelRules.Name, "pod-enhanced-validator-config-name", cluster.DefaultEnhancedRules.Name, "its name")
	set.StringVar(&o.sloConfig.Namespace, "config-namespace", cluster.DefaultSLOConfig.Namespace, "namespace of the ConfigMap with the SLO configuration")
	set.StringVar(&o.sloConfig.Name, "slo-config-name", cluster.DefaultSLOConfig.Name, "its name")
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

// open makes the memory of the cluster. It is current while its Run runs.
func (o *clusterOptions) open(open gates, log logrus.FieldLogger) (state, error) {
	options := o.memory(open)
	options.Log, options.Poll = log, poll.Times{Every: pollEvery, Now: o.reread}
	s := state{quotas: newQuotas(o, open, log)}
	s.quotas.follow(&options)
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

func (o *clusterOptions) watch(options cluster.Options) (*cluster.Cluster, error) {
	config, err := cluster.LoadConfig(o.kubeconfig, "")
	if err != nil {
		return nil, fmt.Errorf("--cluster=api: %w", err)
	}
	return cluster.API(config, options)
}

// checkRivals refuses to work beside Koordinator's webhooks for the same resources. If the API server does not answer, that is logged:
// usher must come up also when nothing else does.
func (o *clusterOptions) checkRivals(ctx context.Context, routes []handlers.Route, log logrus.FieldLogger) error {
	if o.source != "api" {
		return nil
	}
	config, err := cluster.LoadConfig(o.kubeconfig, "")
	if err != nil {
		return err
	}
	var resources []string
	for _, r := range routes {
		if r.Suite == handlers.Colocation {
			resources = append(resources, r.Resources...)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = cluster.CheckRivals(ctx, config, resources)
	if err != nil && !errors.Is(err, cluster.ErrRivals) {
		log.WithError(err).Warn("cannot tell whether Koordinator's webhooks are registered as well")
		return nil
	}
	return err
}

// memory says what of a cluster is kept: what the steps behind the open gates ask for.
func (o *clusterOptions) memory(open gates) cluster.Options {
	options := cluster.Options{EnhancedRules: o.labelRules, SLOConfig: o.sloConfig, Compile: map[cluster.Kind]cluster.Compiler{cluster.Profiles: compileProfiles}}
	for _, need := range []struct {
		gate  string
		kinds []cluster.Kind
	}{
		{"PodMutatingWebhook", []cluster.Kind{cluster.Profiles, cluster.Namespaces, cluster.PriorityClasses}},
		{"ReservationMutatingWebhook", []cluster.Kind{cluster.Profiles, cluster.Namespaces, cluster.PriorityClasses}},
		{"ProfileValidatingWebhook", []cluster.Kind{cluster.Profiles, cluster.PriorityClasses}},
		{"EnablePodEnhancedValidator", []cluster.Kind{cluster.EnhancedRules}},
		{"BindingAdmissionWebhook", []cluster.Kind{cluster.Pods}},
		{"NodeMutatingWebhook", []cluster.Kind{cluster.SLOConfig, cluster.NodeMetrics}},
		{"NodeValidatingWebhook", []cluster.Kind{cluster.SLOConfig, cluster.PodRequests}},
		{"ConfigMapValidatingWebhook", []cluster.Kind{cluster.Nodes}},
		{"ReservationFit", []cluster.Kind{cluster.Reservations, cluster.Nodes}},
		{"PodValidatingWebhook", []cluster.Kind{cluster.ElasticQuotas}},
		{"ElasticMutatingWebhook", []cluster.Kind{cluster.ElasticQuotas}},
		{"ElasticValidatingWebhook", []cluster.Kind{cluster.ElasticQuotas, cluster.PodRequests, cluster.Namespaces}},
		{"MultiQuotaTree", []cluster.Kind{cluster.ElasticQuotas, cluster.QuotaProfiles}},
		{"EnableQuotaAdmission", []cluster.Kind{cluster.ElasticQuotas, cluster.PodRequests}},
	} {
		if open.on(need.gate) {
			options.Kinds = append(options.Kinds, need.kinds...)
		}
	}
	options.WriteQuotas = open.on("EnableQuotaAdmission")
	return options
}

func compileProfiles(s *cluster.Snapshot) (any, []error) {
	list, err := s.Profiles()
	if err != nil {
		return nil, []error{err}
	}
	set, broken := profile.Compile(list)
	problems := make([]error, len(broken))
	for i := range broken {
		problems[i] = broken[i]
	}
	return set, problems
}

// state answers what steps ask about the cluster, each time as it is then.
type state struct {
	*cluster.Cluster
	quotas *quotas
}

func (s state) profileQuestions() mutators.ProfileQuestions {
	return mutators.ProfileQuestions{Profiles: s.profiles, Namespace: s.namespace, OwnersNamespace: s.ownersNamespace, PriorityClass: s.priorityClass}
}

func (s state) profiles() (*profile.Set, error) {
	return cluster.Compiled[*profile.Set](s.Now(), cluster.Profiles)
}

func (s state) namespace(name string) (labels map[string]string, known bool, err error) {
	return s.Now().Namespace(name)
}

func (s state) ownersNamespace(name string) (labels map[string]string, known bool, err error) {
	return s.Now().NamedNamespace(name)
}

func (s state) priorityClass(name string) (value int32, preemption *corev1.PreemptionPolicy, known bool, err error) {
	class, known, err := s.Now().PriorityClass(name)
	if !known || err != nil {
		return 0, nil, known, err
	}
	return class.Value, class.PreemptionPolicy, true, nil
}

func (s state) pod(namespace, name string) (labels, annotations map[string]string, known bool, err error) {
	return s.Now().Pod(namespace, name)
}

func (s state) reservations() ([]*api.Reservation, error) { return s.Now().Reservations() }

func (s state) node(name string) (labels map[string]string, known bool) {
	return s.Now().NodeLabels(name)
}

func (s state) allNodes() (iter.Seq2[string, map[string]string], error) { return s.Now().AllNodes() }

func (s state) nodeMetric(name string) (*api.NodeMetric, bool) { return s.Now().NodeMetric(name) }

func (s state) nodeRequests(name string) (corev1.ResourceList, bool) {
	return s.Now().NodeRequests(name)
}

func (s state) slo() (*slo.Config, error) { return s.Now().SLOConfig() }

// sloRatios are the ratios that the SLO configuration gives a node. Node routes never wait: what is not there yet says nothing.
func (s state) sloRatios(labels map[string]string) (map[string]string, bool) {
	known, err := s.slo()
	if err != nil || known == nil {
		return nil, false
	}
	ratios := known.Amplification(labels)
	return ratios, len(ratios) > 0
}

func (s state) labelRules() ([]api.LabelRule, error) { return s.Now().LabelRules() }
