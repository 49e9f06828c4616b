package cluster

import (
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/api"
	"usher.dev/usher/quota"
	"usher.dev/usher/slo"
)

// Before a kind is synced, every question about it is answered with an error that wraps admit.ErrNotReady, and so an HTTP 503
// that asks to try again: usher never guesses from an empty memory. A question about a kind that is not wanted is an error, too.

// late is the answer about an object that a review is proof of, but that the watch has not brought yet.
func (s *Snapshot) late(k Kind, key string, known bool, err error) error {
	if err == nil && !known && s.api {
		return fmt.Errorf("cluster state: %s %s has not arrived yet: %w", k, key, admit.ErrNotReady)
	}
	return err
}

// Namespace gives a namespace's labels. In files, a namespace that is not there is not known. A watched one must be there,
// because the API server admits nothing into a namespace it does not have: the error wraps admit.ErrNotReady.
func (s *Snapshot) Namespace(name string) (labels map[string]string, known bool, err error) {
	found, known, err := find[*namespace](s, Namespaces, name)
	if known {
		labels = found.labels
	}
	return labels, known, s.late(Namespaces, name, known, err)
}

// NamedNamespace is Namespace for a name that nobody vouches for: one that is not there is not known, watched or not.
func (s *Snapshot) NamedNamespace(name string) (labels map[string]string, known bool, err error) {
	found, known, err := find[*namespace](s, Namespaces, name)
	if known {
		labels = found.labels
	}
	return labels, known, err
}

// NamespaceDeleting tells whether a namespace is being deleted. The error is Namespace's.
func (s *Snapshot) NamespaceDeleting(name string) (bool, error) {
	found, known, err := find[*namespace](s, Namespaces, name)
	return known && found.deleting, s.late(Namespaces, name, known, err)
}

// Pod gives a stored pod's labels and annotations. In files, a pod that is not there is not known; a watched one that is asked
// for exists, as for its binding, so that the error wraps admit.ErrNotReady.
func (s *Snapshot) Pod(namespace, name string) (labels, annotations map[string]string, known bool, err error) {
	key := namespace + "/" + name
	found, known, err := find[*pod](s, Pods, key)
	if known {
		labels, annotations = found.labels, found.annotations
	}
	return labels, annotations, known, s.late(Pods, key, known, err)
}

// NodeLabels gives a node's labels. One that is not there, or not yet, is not known.
func (s *Snapshot) NodeLabels(name string) (labels map[string]string, known bool) {
	labels, known, err := find[map[string]string](s, Nodes, name)
	return labels, known && err == nil
}

// AllNodes gives the names and labels of all nodes, in no order.
func (s *Snapshot) AllNodes() (iter.Seq2[string, map[string]string], error) {
	return all[map[string]string](s, Nodes)
}

// NodeMetric gives what was measured of a node. What is not there, or not yet, is not known: whoever asks must not wait.
func (s *Snapshot) NodeMetric(node string) (metric *api.NodeMetric, known bool) {
	metric, known, err := find[*api.NodeMetric](s, NodeMetrics, node)
	return metric, known && err == nil
}

// NodeRequests gives the sum of what the pods on a node ask for, of cpu and memory, without those that have ended. It is not known
// before pods were listed. Every pod is looked at (10 ms for 100,000): only the rare question is for it.
func (s *Snapshot) NodeRequests(node string) (requests corev1.ResourceList, known bool) {
	pods, err := all[*quota.Pod](s, PodRequests)
	if err != nil {
		return nil, false
	}
	requests = corev1.ResourceList{}
	for _, pod := range pods {
		if pod.Node == node && !pod.Ended {
			addRequests(requests, pod)
		}
	}
	return requests, true
}

// PriorityClass gives name, value, preemption policy and globalDefault of a class. One that is not there is not known: people
// name classes that do not exist.
func (s *Snapshot) PriorityClass(name string) (class *schedulingv1.PriorityClass, known bool, err error) {
	return find[*schedulingv1.PriorityClass](s, PriorityClasses, name)
}

// Profiles gives the colocation profiles, sorted by name: name, labels, annotations and spec. The list is made anew for each
// call: a Compiler asks for it, a review for what was compiled.
func (s *Snapshot) Profiles() ([]api.ClusterColocationProfile, error) {
	found, err := sorted[*api.ClusterColocationProfile](s, Profiles)
	list := make([]api.ClusterColocationProfile, len(found))
	for i, profile := range found {
		list[i] = *profile
	}
	return list, err
}

// Reservation gives a reservation without its pod template. One that is not there is not known.
func (s *Snapshot) Reservation(name string) (reservation *api.Reservation, known bool, err error) {
	return find[*api.Reservation](s, Reservations, name)
}

// Reservations gives all reservations, without their pod templates, sorted by name. The list is made anew for each call.
func (s *Snapshot) Reservations() ([]*api.Reservation, error) {
	return sorted[*api.Reservation](s, Reservations)
}

// LabelRules gives the rules of the enhanced pod validator, in their order; none if it is not enabled.
func (s *Snapshot) LabelRules() ([]api.LabelRule, error) {
	return Compiled[[]api.LabelRule](s, EnhancedRules)
}

// SLOConfig gives the SLO configuration; nil, which says nothing, if there is no ConfigMap.
func (s *Snapshot) SLOConfig() (*slo.Config, error) {
	return Compiled[*slo.Config](s, SLOConfig)
}

// QuotaTree gives the tree of all elastic quotas.
func (s *Snapshot) QuotaTree() (*quota.Tree, error) {
	tree, err := Compiled[*quota.Tree](s, ElasticQuotas)
	if err == nil && tree == nil { // an empty tree would let everything in
		err = fmt.Errorf("cluster state: there is no tree of the %s", ElasticQuotas)
	}
	return tree, err
}

// CountedPods gives all pods as quotas count them, by namespace/name, in no order.
func (s *Snapshot) CountedPods() (iter.Seq2[string, *quota.Pod], error) {
	return all[*quota.Pod](s, PodRequests)
}

// QuotaProfiles gives all ElasticQuotaProfiles, sorted by namespace and name: name, namespace, labels and spec. The list is made anew for
// each call.
func (s *Snapshot) QuotaProfiles() ([]*api.ElasticQuotaProfile, error) {
	return sorted[*api.ElasticQuotaProfile](s, QuotaProfiles)
}

// Compiled gives what Options.Compile made of a kind, or the zero value if it made nothing yet.
func Compiled[T any](s *Snapshot, k Kind) (compiled T, err error) {
	if err := s.ready(k); err != nil {
		return compiled, err
	}
	if made := s.kinds[k].compiled; made != nil {
		return made.(T), nil
	}
	return compiled, nil
}
