package webhooks

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
)

// notExempting is a CEL expression that excludes updates of a Namespace that change only the label usher.dev/exempt, by
// users who may delete usher's configurations. They could end every check anyhow, and while usher is unavailable they
// need this label to free a namespace. The authorizer is asked last, because it costs most. The expression cannot fail,
// which would refuse the request.
var notExempting = fmt.Sprintf(`!(request.operation == "UPDATE" && !has(request.subResource) &&
request.resource.group == "" && request.resource.resource == "namespaces" &&
has(object.metadata.labels) && has(oldObject.metadata.labels) && object.metadata.labels != oldObject.metadata.labels &&
object.metadata.labels.all(key, key == %[1]q ||
key in oldObject.metadata.labels && oldObject.metadata.labels[key] == object.metadata.labels[key]) &&
oldObject.metadata.labels.all(key, key == %[1]q || key in object.metadata.labels) &&
!(%[2]s) &&
%[3]s &&
%[4]s)`,
	admit.ExemptLabel, changed([]string{"metadata.annotations", "metadata.finalizers", "metadata.ownerReferences", "spec"}),
	mayDelete("mutatingwebhookconfigurations"), mayDelete("validatingwebhookconfigurations"))

// mayDelete is the CEL expression for users who may delete usher's configuration of a kind.
func mayDelete(resource string) string {
	return fmt.Sprintf("authorizer.group(%q).resource(%q).name(%q).check(\"delete\").allowed()", "admissionregistration.k8s.io", resource, Name)
}

// aboutUpdatesOfNamespaces reports whether an entry is for updates of Namespaces.
func (e Entry) aboutUpdatesOfNamespaces() bool {
	update := &admit.Request{Operation: admissionv1.Update, Name: "a", Namespace: "a",
		Kind:     metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace")),
		Resource: metav1.GroupVersionResource(corev1.SchemeGroupVersion.WithResource("namespaces"))}
	return slices.ContainsFunc(e.For, func(m admit.Match) bool {
		m.Names = nil // updates of some Namespaces
		return m.Covers(update)
	})
}
