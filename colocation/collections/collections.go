// Package collections declares what the colocation suite keeps of a cluster, one collection per file, with the queries
// that its steps use. It also has the store for the quota ledger's records, and the check for Koordinator's own
// webhooks.
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

// Questions has a method for each query that steps make about the cluster, answered from the current snapshot. A step
// may only query the collections that it declares, see cluster.Reader. An error is never the user's fault; it wraps
// admit.ErrNotReady if a later query may succeed.
type Questions struct{ cluster.Reader }

// Catalogue returns all collections of the suite. The arguments name the ConfigMaps with the rules of the enhanced pod
// validator and with the SLO configuration; a zero name means DefaultLabelRules or DefaultSLOConfig.
func Catalogue(rules, config types.NamespacedName) []cluster.Declared {
	labelRules, sloConfig := *LabelRules, *SLOConfig
	labelRules.Only = cmp.Or(rules, DefaultLabelRules)
	sloConfig.Only = cmp.Or(config, DefaultSLOConfig)
	return []cluster.Declared{
		cluster.Namespaces, cluster.LimitRanges, PriorityClasses, ColocationProfiles, Reservations, Pods, Nodes, &labelRules, &sloConfig, NodeMetrics,
		PodRequests, ElasticQuotas, ElasticQuotaProfiles, ClaimTemplates,
	}
}

// answered reports whether a query that must not wait has an answer; it has none before its collection was listed. Any
// other error is an undeclared need of a step, which must not be mistaken for a missing object: answered panics, and
// the review ends with HTTP 500.
func answered(err error) bool {
	if err != nil && !errors.Is(err, admit.ErrNotReady) {
		panic(err)
	}
	return err == nil
}

// nameAndKeys returns the metadata that is kept of custom resources.
func nameAndKeys(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.GetName(), Labels: o.GetLabels(), Annotations: withoutLastApplied(o.GetAnnotations())}
}

// withoutLastApplied removes kubectl's copy of the whole object.
func withoutLastApplied(annotations map[string]string) map[string]string {
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return annotations
}
