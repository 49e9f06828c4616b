// Package collections declares what the colocation suite keeps of a cluster, a collection a file, with the questions that its steps ask
// about it. Beside them stand the store of the quota ledger's records, and the check for Koordinator's own webhooks.
package collections

import (
	"cmp"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
)

// Questions are what steps ask about the cluster, as methods, each answered as it is known then: about the collections that the step
// needs, see cluster.Reader. An error is not the user's fault; it wraps admit.ErrNotReady if a later question may succeed.
type Questions struct{ cluster.Reader }

// Catalogue are all collections of the suite. The two names say which ConfigMaps hold the rules of the enhanced pod validator and the SLO
// configuration; empty means DefaultLabelRules and DefaultSLOConfig.
func Catalogue(rules, config types.NamespacedName) []cluster.Declared {
	labelRules, sloConfig := *LabelRules, *SLOConfig
	labelRules.Only = cmp.Or(rules, DefaultLabelRules)
	sloConfig.Only = cmp.Or(config, DefaultSLOConfig)
	return []cluster.Declared{
		cluster.Namespaces, PriorityClasses, ColocationProfiles, Reservations, Pods, Nodes, &labelRules, &sloConfig, NodeMetrics,
		PodRequests, ElasticQuotas, ElasticQuotaProfiles,
	}
}

// answered reports whether a question that must not wait has an answer: before its collection was listed it has none. Any other error is a
// mistake of ours in what a step declares, which must not pass for an object that is not there: it panics, and the review gets an HTTP 500.
func answered(err error) bool {
	if err != nil && !errors.Is(err, admit.ErrNotReady) {
		panic(err)
	}
	return err == nil
}

// nameAndKeys is the metadata that is kept of custom resources.
func nameAndKeys(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.GetName(), Labels: o.GetLabels(), Annotations: withoutLastApplied(o.GetAnnotations())}
}

// withoutLastApplied drops kubectl's copy of the whole object.
func withoutLastApplied(annotations map[string]string) map[string]string {
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return annotations
}
