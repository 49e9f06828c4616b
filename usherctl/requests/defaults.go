package requests

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	registration "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/internal/poddefaults"
	"usher.dev/usher/internal/resources"
	"usher.dev/usher/validators/workload"
)

// WithDefaults returns a review with the fields filled in that an API server fills in before it calls validating webhooks, and
// without those that it drops.
func WithDefaults(body []byte) []byte {
	changed := false
	with, err := EditRequest(body, func(request map[string]json.RawMessage) {
		for _, member := range []string{"object", "oldObject"} {
			if filled := filled(request[member]); filled != nil {
				request[member], changed = filled, true
			}
		}
	})
	if err != nil || !changed {
		return body
	}
	return with
}

// filled returns an object as the API server has it, or nil if its kind has no type here or it cannot be decoded.
func filled(raw json.RawMessage) json.RawMessage {
	var is metav1.TypeMeta
	if json.Unmarshal(raw, &is) != nil {
		return nil
	}
	object, fill := any(nil), defaults[is.GroupVersionKind()]
	if Typed().Recognizes(is.GroupVersionKind()) {
		object, _ = Typed().New(is.GroupVersionKind())
	} else if fill != nil {
		object = &map[string]any{}
	}
	if object == nil || Decode(raw, object) != nil {
		return nil
	}
	if fill != nil {
		fill(object)
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil
	}
	if _, pod := object.(*corev1.Pod); pod {
		return EditJSON(text, func(d *document.Document) { workload.FillNew(admit.AsPod(d), nil) })
	}
	return text
}

// Filled returns an object with the fields that an API server fills in. known reports whether these are known for its kind; one that is
// absent has none.
func Filled(object json.RawMessage) (filledIn json.RawMessage, known bool) {
	if len(object) == 0 || string(object) == "null" {
		return object, true
	}
	if with := filled(object); with != nil {
		return with, true
	}
	return object, false
}

// Unfilled says what is not known of an object of a kind of Kubernetes that has neither a type nor defaults here, or "".
func Unfilled(kind metav1.GroupVersionKind) string {
	gvk := schema.GroupVersionKind(kind)
	if Typed().Recognizes(gvk) || defaults[gvk] != nil ||
		!slices.ContainsFunc(resources.Kinds(), func(k resources.Kind) bool { return k.GroupKind == gvk.GroupKind() }) {
		return ""
	}
	return fmt.Sprintf("the fields that an API server fills in for %s of %s", gvk.Kind, gvk.GroupVersion())
}

// defaults fill in the fields of the kinds of Kubernetes of which an API server fills in any, as SetDefaults_* in
// k8s.io/kubernetes/pkg/apis do. Fields that only a feature gate or the cluster decides about are left out.
var defaults = map[schema.GroupVersionKind]func(object any){
	corev1.SchemeGroupVersion.WithKind("Pod"):                   filling(func(p *corev1.Pod) { podSpecDefaults(&p.Spec) }),
	corev1.SchemeGroupVersion.WithKind("PodTemplate"):           filling(func(t *corev1.PodTemplate) { podSpecDefaults(&t.Template.Spec) }),
	corev1.SchemeGroupVersion.WithKind("ReplicationController"): filling(fillReplicationController),
	corev1.SchemeGroupVersion.WithKind("Namespace"):             filling(fillNamespace),
	corev1.SchemeGroupVersion.WithKind("Node"): filling(func(n *corev1.Node) {
		if n.Status.Allocatable == nil {
			n.Status.Allocatable = maps.Clone(n.Status.Capacity)
		}
	}),
	corev1.SchemeGroupVersion.WithKind("Secret"):                filling(fillSecret),
	corev1.SchemeGroupVersion.WithKind("Service"):               filling(fillService),
	corev1.SchemeGroupVersion.WithKind("Endpoints"):             filling(fillEndpoints),
	corev1.SchemeGroupVersion.WithKind("LimitRange"):            filling(poddefaults.LimitRange),
	corev1.SchemeGroupVersion.WithKind("PersistentVolume"):      filling(fillPersistentVolume),
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"): filling(fillClaim),

	appsv1.SchemeGroupVersion.WithKind("Deployment"): filling(fillDeployment),
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"): filling(func(r *appsv1.ReplicaSet) {
		poddefaults.Point(&r.Spec.Replicas, 1)
		podSpecDefaults(&r.Spec.Template.Spec)
	}),
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"): filling(fillStatefulSet),
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"):   filling(fillDaemonSet),
	batchv1.SchemeGroupVersion.WithKind("Job"):        filling(fillJob),
	batchv1.SchemeGroupVersion.WithKind("CronJob"):    filling(fillCronJob),

	autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"): filling(func(h *autoscalingv1.HorizontalPodAutoscaler) {
		poddefaults.Point(&h.Spec.MinReplicas, 1)
		if h.Annotations["autoscaling.alpha.kubernetes.io/metrics"] == "" { // other metrics
			poddefaults.Point(&h.Spec.TargetCPUUtilizationPercentage, 80)
		}
	}),
	autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"): filling(fillAutoscaler),
	networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"):            filling(fillNetworkPolicy),
	networkingv1.SchemeGroupVersion.WithKind("IngressClass"): filling(func(c *networkingv1.IngressClass) {
		if c.Spec.Parameters != nil {
			poddefaults.Point(&c.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
		}
	}),
	discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"): filling(func(s *discoveryv1.EndpointSlice) {
		for i := range s.Ports {
			poddefaults.Point(&s.Ports[i].Name, "")
			poddefaults.Point(&s.Ports[i].Protocol, corev1.ProtocolTCP)
		}
	}),
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"):        filling(func(b *rbacv1.RoleBinding) { fillBinding(&b.RoleRef, b.Subjects) }),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"): filling(func(b *rbacv1.ClusterRoleBinding) { fillBinding(&b.RoleRef, b.Subjects) }),
	schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"): filling(func(c *schedulingv1.PriorityClass) {
		poddefaults.Point(&c.PreemptionPolicy, corev1.PreemptLowerPriority)
	}),
	storagev1.SchemeGroupVersion.WithKind("StorageClass"): filling(func(c *storagev1.StorageClass) {
		poddefaults.Point(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		poddefaults.Point(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	}),
	storagev1.SchemeGroupVersion.WithKind("CSIDriver"): filling(fillDriver),
	storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"): filling(func(a *storagev1.VolumeAttachment) {
		if in := a.Spec.Source.InlineVolumeSpec; in != nil {
			fillStored(&in.PersistentVolumeSource)
		}
	}),

	registration.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"):   filling(fillMutating),
	registration.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"): filling(fillValidating),
	registration.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"): filling(func(p *registration.ValidatingAdmissionPolicy) {
		poddefaults.Point(&p.Spec.FailurePolicy, registration.Fail)
		fillResources(p.Spec.MatchConstraints)
	}),
	registration.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"): filling(func(b *registration.ValidatingAdmissionPolicyBinding) {
		fillResources(b.Spec.MatchResources)
	}),
	registration.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy"): filling(func(p *registration.MutatingAdmissionPolicy) {
		poddefaults.Point(&p.Spec.FailurePolicy, registration.Fail)
		fillResources(p.Spec.MatchConstraints)
	}),
	registration.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding"): filling(func(b *registration.MutatingAdmissionPolicyBinding) {
		fillResources(b.Spec.MatchResources)
	}),

	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}: fillDefinition,
	{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}: func(object any) {
		if service := mapping(*object.(*map[string]any), "spec", "service"); service != nil {
			absent(service, "port", int64(443))
		}
	},
}

// filling returns a function for objects of one type.
func filling[T any](of func(*T)) func(object any) {
	return func(object any) { of(object.(*T)) }
}
