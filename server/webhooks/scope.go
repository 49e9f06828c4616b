package webhooks

import (
	"fmt"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"usher.dev/usher/admit"
)

// Namespaces returns the namespaceSelector. It keeps every route away from kube-system and usher's own namespace, so
// that no failure can lock the cluster or usher itself, and from namespaces that are exempt. Of cluster-scoped objects it
// has an effect on Namespaces only, which the policy may name; an update could exempt a Namespace from its own check, so
// that label is not asked for.
func (e Entry) Namespaces(at Address) *metav1.LabelSelector {
	left := []string{"kube-system", at.Namespace}
	if e.Scope == registration.ClusterScope {
		if e.byPolicy() {
			return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{notIn(corev1.LabelMetadataName, left...)}}
		}
		return nil
	}
	if e.mayBeExcluded() {
		left = append(left, at.Excluded...)
	}
	return &metav1.LabelSelector{MatchLabels: e.OptIn.AsMap(),
		MatchExpressions: []metav1.LabelSelectorRequirement{notIn(corev1.LabelMetadataName, left...), notIn(admit.ExemptLabel, "true")}}
}

// notIn returns the requirement that a label has none of some values, which it sorts.
func notIn(key string, values ...string) metav1.LabelSelectorRequirement {
	values = slices.Compact(slices.Sorted(slices.Values(values)))
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values}
}

// mayBeExcluded reports whether --exclude-namespace keeps a route away from a namespace: a route about pods or templates of
// pods, which a cluster lacks while a webhook is away, or about what namespaces opt in for. Objects that configure usher, such as
// quotas and the SLO configuration, are checked there too: excluding a scheduler's namespace must not leave its quotas
// unguarded.
func (e Entry) mayBeExcluded() bool {
	return e.OptIn != (admit.Label{}) || e.aboutTemplates() || slices.ContainsFunc(e.For, func(m admit.Match) bool {
		return slices.ContainsFunc(m.Resources, func(resource string) bool { return resource == "pods" || strings.HasPrefix(resource, "pods/") })
	})
}

// CheckExcluded checks the names of --exclude-namespace.
func CheckExcluded(names []string) error {
	for _, name := range names {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("--exclude-namespace %q: no namespace has such a name: %s", name, strings.Join(problems, "; "))
		}
	}
	return nil
}

// changed is the CEL expression for requests that are not updates, and for updates that change one of the fields, such
// as metadata.labels. It cannot fail, which would refuse the request: the API server sets metadata, and whether
// anything else is there is asked first.
func changed(fields []string) string {
	clauses := []string{`request.operation != "UPDATE"`}
	for _, field := range fields {
		now, was := "object."+field, "oldObject."+field
		clauses = append(clauses, fmt.Sprintf("%[1]s != %[2]s || %[1]s && %[3]s != %[4]s", present(now), present(was), now, was))
	}
	return strings.Join(clauses, " ||\n")
}

// present is the CEL expression for a field that is there, such as object.spec. Only metadata is always there.
func present(field string) string {
	parent := field[:strings.LastIndex(field, ".")]
	if !strings.Contains(parent, ".") || strings.HasSuffix(parent, ".metadata") {
		return "has(" + field + ")"
	}
	return "(has(" + parent + ") && has(" + field + "))"
}
