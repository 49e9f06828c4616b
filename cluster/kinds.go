package cluster

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/api"
)

// Kind is a kind of object that usher keeps.
type Kind int

// The kinds that usher keeps.
const (
	Namespaces      Kind = iota // their labels, and whether they are being deleted
	PriorityClasses             // their value, preemption policy and whether they are the default
	Profiles                    // ClusterColocationProfiles
	Reservations                // without their pod template
	Pods                        // their labels and annotations
	Nodes                       // their labels
	EnhancedRules               // the ConfigMap with the rules of the enhanced pod validator
	SLOConfig                   // the ConfigMap with the SLO configuration
	NodeMetrics                 // how much of a node was used
	PodRequests                 // what is counted of pods: their requests, node, quota label, and whether they have ended
	ElasticQuotas               // what rules and the ledger need of them
	QuotaProfiles               // ElasticQuotaProfiles
	kindCount
)

// DefaultEnhancedRules is where Koordinator keeps the rules of its enhanced pod validator.
var DefaultEnhancedRules = types.NamespacedName{Namespace: "koordinator-system", Name: "pod-enhanced-validator-config"}

// DefaultSLOConfig is where Koordinator keeps its SLO configuration.
var DefaultSLOConfig = types.NamespacedName{Namespace: "koordinator-system", Name: "slo-controller-config"}

// row is what must be known about a kind. A new kind is a constant, a row, and a question in questions.go.
type row struct {
	name       string // in logs and metrics
	kind       schema.GroupVersionKind
	resource   string
	namespaced bool
	custom     bool // defined by a CRD, which may be missing
	metaOnly   bool // nothing but metadata is read, so the API server need not send more
	// decode reads an object and keeps what steps ask for. It is where everything else is left behind: in particular
	// managedFields, which are often larger than all the rest.
	decode func(raw []byte) (*item, error)
	// compile is what an API server's objects of this kind always become; see Options.Compile for what main wants.
	compile Compiler
}

var rows = [kindCount]row{
	Namespaces: {
		name: "namespaces", kind: corev1.SchemeGroupVersion.WithKind("Namespace"), resource: "namespaces",
		metaOnly: true, decode: keep(func(o *metav1.PartialObjectMetadata) any {
			return &namespace{labels: o.Labels, deleting: o.DeletionTimestamp != nil}
		}),
	},
	PriorityClasses: {
		name: "priorityclasses", kind: schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"), resource: "priorityclasses",
		decode: keep(func(o *schedulingv1.PriorityClass) any {
			return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: o.Name},
				Value: o.Value, PreemptionPolicy: o.PreemptionPolicy, GlobalDefault: o.GlobalDefault}
		}),
	},
	Profiles: {
		name: "clustercolocationprofiles", kind: api.ClusterColocationProfileKind,
		resource: api.ClusterColocationProfileResource.Resource, custom: true,
		decode: keep(func(o *api.ClusterColocationProfile) any {
			return &api.ClusterColocationProfile{ObjectMeta: nameAndKeys(o), Spec: o.Spec}
		}),
	},
	Reservations: {
		name: "reservations", kind: api.ReservationKind, resource: api.ReservationResource.Resource, custom: true,
		decode: keep(func(o *reservation) any {
			return &api.Reservation{ObjectMeta: nameAndKeys(o), Spec: o.Spec.ReservationSpec, Status: o.Status}
		}),
	},
	Pods: {
		name: "pods", kind: corev1.SchemeGroupVersion.WithKind("Pod"), resource: "pods", namespaced: true,
		metaOnly: true, decode: keep(func(o *metav1.PartialObjectMetadata) any {
			return &pod{labels: o.Labels, annotations: withoutLastApplied(o.Annotations)}
		}),
	},
	Nodes: {
		name: "nodes", kind: corev1.SchemeGroupVersion.WithKind("Node"), resource: "nodes",
		metaOnly: true, decode: keep(func(o *metav1.PartialObjectMetadata) any { return o.Labels }),
	},
	EnhancedRules: {
		name: "enhancedrules", kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), resource: "configmaps", namespaced: true,
		decode:  keep(func(o *corev1.ConfigMap) any { return o.Data }),
		compile: compileEnhancedRules,
	},
	SLOConfig: {
		name: "sloconfig", kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), resource: "configmaps", namespaced: true,
		decode:  keep(func(o *corev1.ConfigMap) any { return o.Data }),
		compile: compileSLOConfig,
	},
	NodeMetrics: {
		name: "nodemetrics", kind: api.NodeMetricKind, resource: api.NodeMetricResource.Resource, custom: true,
		decode: keep(func(o *api.NodeMetric) any { return &api.NodeMetric{Status: o.Status} }),
	},
	PodRequests: {
		name: "podrequests", kind: corev1.SchemeGroupVersion.WithKind("Pod"), resource: "pods", namespaced: true,
		decode: keep(keepPod),
	},
	ElasticQuotas: {
		name: "elasticquotas", kind: api.ElasticQuotaKind, resource: api.ElasticQuotaResource.Resource, namespaced: true, custom: true,
		decode: keep(keepQuota), compile: compileQuotas,
	},
	QuotaProfiles: {
		name: "elasticquotaprofiles", kind: api.ElasticQuotaProfileKind,
		resource: api.ElasticQuotaProfileResource.Resource, namespaced: true, custom: true,
		decode: keep(keepQuotaProfile),
	},
}

// String names the kind as logs and metrics do.
func (k Kind) String() string { return rows[k].name }

// only is the one object of a kind that is wanted; empty for kinds of which all are.
func (o Options) only(k Kind) types.NamespacedName {
	switch k {
	case EnhancedRules:
		return cmp.Or(o.EnhancedRules, DefaultEnhancedRules)
	case SLOConfig:
		return cmp.Or(o.SLOConfig, DefaultSLOConfig)
	}
	return types.NamespacedName{}
}

// Rules are the permissions that watching the wanted kinds takes, for a ClusterRole: one rule for each API group, and one for
// each kind of which a single object is read. With WriteQuotas, one more lets quotas be patched.
func (o Options) Rules() []rbacv1.PolicyRule {
	verbs := []string{"get", "list", "watch"}
	var rules []rbacv1.PolicyRule
	for k := range kindCount {
		if !slices.Contains(o.Kinds, k) {
			continue
		}
		group, resource := rows[k].kind.Group, rows[k].resource
		var names []string
		if only := o.only(k); only.Name != "" {
			names = []string{only.Name}
		}
		same := slices.IndexFunc(rules, func(r rbacv1.PolicyRule) bool {
			return r.APIGroups[0] == group && r.ResourceNames == nil
		})
		if same >= 0 && names == nil {
			if !slices.Contains(rules[same].Resources, resource) {
				rules[same].Resources = append(rules[same].Resources, resource)
			}
			continue
		}
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs,
		})
	}
	if o.WriteQuotas {
		quotas := api.ElasticQuotaResource
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{quotas.Group}, Resources: []string{quotas.Resource}, Verbs: []string{"patch"},
		})
	}
	return rules
}
