package webhooks

import (
	"fmt"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"usher.dev/usher/admit"
)

// Namespaces returns the namespaceSelector. It keeps every route away from kube-system and usher's own namespace, so
// that no failure can lock the cluster or usher itself, and routes about pods from those that are excluded or exempt
// too. Of cluster-scoped objects it has an effect on Namespaces only, which the policy may name.
func (e Entry) Namespaces(at Address) *metav1.LabelSelector {
	left := []string{"kube-system", at.Namespace}
	selector := &metav1.LabelSelector{}
	if e.Scope == registration.ClusterScope {
		if e.byPolicy() {
			selector.MatchExpressions = []metav1.LabelSelectorRequirement{notIn(metadataName, slices.Sorted(slices.Values(left))...)}
			return selector
		}
		return nil
	}
	if aboutPods(e.Route) {
		left = append(left, at.Excluded...)
		selector.MatchExpressions = []metav1.LabelSelectorRequirement{notIn(admit.ExemptLabel, "true")}
	}
	slices.Sort(left)
	selector.MatchExpressions = slices.Insert(selector.MatchExpressions, 0, notIn(metadataName, slices.Compact(left)...))
	selector.MatchLabels = e.OptIn.AsMap()
	return selector
}

// metadataName is the label of a namespace that has its name.
const metadataName = "kubernetes.io/metadata.name"

func notIn(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values}
}

// aboutPods reports whether a route is about pods, which a cluster lacks while a webhook is away. Objects that
// configure usher, such as quotas and the SLO configuration, are checked in every namespace: excluding a scheduler's
// namespace must not leave its quotas unguarded.
func aboutPods(r admit.Route) bool {
	return slices.ContainsFunc(r.For, func(m admit.Match) bool {
		return slices.ContainsFunc(m.Resources, func(resource string) bool {
			return resource == "*" || resource == "pods" || strings.HasPrefix(resource, "pods/")
		})
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
