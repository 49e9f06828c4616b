package colocation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/colocation/api"
)

// Tools answers what tools ask of the suite, see suite.Suite.Tools.
type Tools struct{}

// Kinds returns, for each kind that the routes review, a function that returns a new typed object.
func (Tools) Kinds() map[metav1.GroupVersionKind]func() any {
	return map[metav1.GroupVersionKind]func() any{
		metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Binding")):   func() any { return &corev1.Binding{} },
		metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap")): func() any { return &corev1.ConfigMap{} },
		metav1.GroupVersionKind(api.ReservationKind):                             func() any { return &api.Reservation{} },
		metav1.GroupVersionKind(api.ElasticQuotaKind):                            func() any { return &api.ElasticQuota{} },
		metav1.GroupVersionKind(api.ClusterColocationProfileKind):                func() any { return &api.ClusterColocationProfile{} },
		metav1.GroupVersionKind(api.ElasticQuotaProfileKind):                     func() any { return &api.ElasticQuotaProfile{} },
	}
}
