package colocation

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

const create, update = admissionv1.Create, admissionv1.Update

func nodes(on ...admissionv1.Operation) []admit.Match {
	return admit.ClusterScoped(corev1.SchemeGroupVersion.WithKind("Node"), on, "nodes")
}

func configMaps(on ...admissionv1.Operation) []admit.Match {
	return admit.Namespaced(corev1.SchemeGroupVersion.WithKind("ConfigMap"), on, "configmaps")
}

func podsAndResizes(on ...admissionv1.Operation) []admit.Match {
	return admit.Namespaced(corev1.SchemeGroupVersion.WithKind("Pod"), on, "pods", "pods/resize")
}

func podStatus() []admit.Match {
	return admit.Namespaced(corev1.SchemeGroupVersion.WithKind("Pod"), []admissionv1.Operation{update}, "pods/status")
}

func bindings(on ...admissionv1.Operation) []admit.Match {
	return admit.Namespaced(corev1.SchemeGroupVersion.WithKind("Binding"), on, "pods/binding", "bindings")
}

func elasticQuotas(on ...admissionv1.Operation) []admit.Match {
	return admit.Namespaced(api.ElasticQuotaKind, on, "elasticquotas")
}

func reservations(on ...admissionv1.Operation) []admit.Match {
	return admit.ClusterScoped(api.ReservationKind, on, "reservations")
}

func profiles(on ...admissionv1.Operation) []admit.Match {
	return admit.ClusterScoped(api.ClusterColocationProfileKind, on, "clustercolocationprofiles")
}

func quotaProfiles(on ...admissionv1.Operation) []admit.Match {
	return admit.Namespaced(api.ElasticQuotaProfileKind, on, api.ElasticQuotaProfileResource.Resource)
}

// statusReads returns the fields of a pod's status write that could bypass what was admitted: labels; annotations,
// which may authorize bindings or say what the pod counts for; and for quotas the phase, because an ended pod may run
// again, and what the node has allocated. The conditions, which schedulers write often, are not among them.
func statusReads(gates gate.Set) []string {
	reads := []string{"metadata.labels"}
	quotas, counting := gates.On(api.GateEnableQuotaAdmission), quota.CountingOf(gates)
	if gates.On(api.GateBindingAdmissionWebhook) || quotas && counting.Replace || counting.Devices {
		reads = append(reads, "metadata.annotations")
	}
	if quotas {
		reads = append(reads, "status.phase")
	}
	if quotas && counting.Allocated {
		reads = append(reads, "status.containerStatuses", "status.initContainerStatuses", "status.resources", "status.allocatedResources")
	}
	return reads
}

// notByKubelets is the match condition that excludes requests of kubelets.
func notByKubelets() []registration.MatchCondition {
	return []registration.MatchCondition{{Name: "not-a-kubelet", Expression: `!(request.userInfo.username.startsWith("system:node:") && ` +
		`has(request.userInfo.groups) && "system:nodes" in request.userInfo.groups)`}}
}

// bindingConditions matches every Binding if bindings are authorized, otherwise only those that could change what their
// pod counts for.
func bindingConditions(gates gate.Set) []registration.MatchCondition {
	if gates.On(api.GateBindingAdmissionWebhook) {
		return nil
	}
	name, has := "quota-label", hasKey("labels", api.LabelQuotaName)
	if quota.CountingOf(gates).Replace {
		name, has = "quota-label-or-renaming", has+" || "+hasKey("annotations", api.AnnotationReplaceResources)
	}
	if quota.CountingOf(gates).Devices {
		name, has = name+"-or-devices", has+" || "+hasKey("annotations", api.AnnotationDeviceClaims)
	}
	return []registration.MatchCondition{{Name: name, Expression: has}}
}

// hasKey returns the CEL expression for a key in the labels or annotations of an object.
func hasKey(field, key string) string {
	return fmt.Sprintf("has(object.metadata.%s) && %q in object.metadata.%[1]s", field, key)
}

// onlyObject is the match condition for a single object, so that the API server calls the webhook for no other.
func onlyObject(name string, object types.NamespacedName) []registration.MatchCondition {
	return []registration.MatchCondition{{Name: name, Expression: fmt.Sprintf(
		"request.namespace == %q && [object, oldObject].exists(o, o != null && has(o.metadata.name) && o.metadata.name == %q)",
		object.Namespace, object.Name)}}
}

// ownPods exempts what a kubelet reports about the pods on its own node: it is the authority on them.
func ownPods(req *admit.Request) string {
	if req.ByKubeletOf(admit.AsPod(req.Object).NodeName()) {
		return "the kubelet of the pod's node"
	}
	return ""
}
