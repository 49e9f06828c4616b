// Package quota models the tree of elastic quotas: what a quota contains, and which quota a pod belongs to. It is pure:
// a Tree is an immutable snapshot. The rules for changes of quotas are in quota/rules; the admission of pods is in
// quota/ledger.
package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// Quota is the part of an ElasticQuota that the rules and the ledger depend on. A quota is identified by its name
// alone, as in Koordinator's scheduler: two of the same name in two namespaces are a mistake.
type Quota struct {
	Namespace, Name string
	UID             types.UID
	Created         time.Time
	// Deleting reports that the quota has a deletion timestamp and waits for its finalizers.
	Deleting bool
	// Parent is the name of the parent quota; api.RootQuota if the label is not set. Only the root quota has none.
	Parent string
	// ParentLabel is the value of the label, also on the root quota.
	ParentLabel string
	TreeID      string
	// IsParent: it has children and no pods. IsRoot: it is the root of a tree. Force: sums and guarantees are not
	// checked.
	IsParent, IsRoot, Force bool
	Min, Max                corev1.ResourceList
	// Namespaces are the namespaces whose pods belong to the quota, in the order of the annotation.
	Namespaces []string
	// Admission holds the limits that replace Max at admission, resource by resource.
	Admission corev1.ResourceList
	// Guaranteed holds the resources that the scheduler guarantees to the quota and its descendants.
	Guaranteed corev1.ResourceList
	// SharedWeight is the weight for sharing idle resources.
	SharedWeight corev1.ResourceList
	// StrictKeys are the resources whose Max may not fall below Used, which is status.used.
	StrictKeys []corev1.ResourceName
	Used       corev1.ResourceList
	// Problems are the annotations that do not parse; each is treated as missing.
	Problems field.ErrorList
}

// Of converts an ElasticQuota.
func Of(q *api.ElasticQuota) *Quota {
	made := &Quota{
		Namespace: q.Namespace, Name: q.Name, UID: q.UID, Created: q.CreationTimestamp.Time, Deleting: q.DeletionTimestamp != nil,
		Parent: q.Labels[api.LabelQuotaParent], ParentLabel: q.Labels[api.LabelQuotaParent], TreeID: q.Labels[api.LabelQuotaTreeID],
		IsParent: q.Labels[api.LabelQuotaIsParent] == "true", IsRoot: q.Labels[api.LabelQuotaIsRoot] == "true",
		Force: q.Labels[api.LabelQuotaAllowForceUpdate] == "true",
		Min:   corev1.ResourceList(q.Spec.Min), Max: corev1.ResourceList(q.Spec.Max), Used: corev1.ResourceList(q.Status.Used),
	}
	if made.Name == api.RootQuota {
		made.Parent = "" // whatever its label is
	} else if made.Parent == "" {
		made.Parent = api.RootQuota
	}
	made.Namespaces = parse[[]string](made, q.Annotations, api.AnnotationQuotaNamespaces, `["team-a"]`)
	made.Admission = corev1.ResourceList(parse[api.ResourceList](made, q.Annotations, api.AnnotationQuotaAdmission, `{"cpu":"4"}`))
	made.Guaranteed = corev1.ResourceList(parse[api.ResourceList](made, q.Annotations, api.AnnotationQuotaGuaranteed, `{"cpu":"4"}`))
	made.SharedWeight = corev1.ResourceList(parse[api.ResourceList](made, q.Annotations, api.AnnotationQuotaSharedWeight, `{"cpu":"4"}`))
	made.StrictKeys = parse[[]corev1.ResourceName](made, q.Annotations, api.AnnotationQuotaMaxStrictCheck, `["cpu"]`)
	return made
}

// parse decodes the JSON of an annotation; an empty value counts as missing.
func parse[T any](q *Quota, annotations map[string]string, key, example string) T {
	text := annotations[key]
	if text == "" {
		return *new(T)
	}
	value, err := api.ParseJSONText[T](text)
	if err != nil {
		q.Problems = append(q.Problems, field.Invalid(admit.AnnotationPath(key), admit.Shorten(text, 200), err.Error()+"; write JSON such as "+example))
	}
	return value
}

// Limit returns how much of a resource the pods of the quota may request together, and the field that sets the limit:
// the annotation for admission, or spec.max. A resource that neither names is not limited. In Koordinator the
// annotation replaces spec.max as a whole, so naming one resource there lifts the limits of all others.
func (q *Quota) Limit(name corev1.ResourceName) (limit Amount, source string, limited bool) {
	if limit, ok := q.Admission[name]; ok {
		return limit, "annotation " + api.AnnotationQuotaAdmission, true
	}
	limit, limited = q.Max[name]
	return limit, "spec.max", limited
}

// BrokenLimits reports whether the annotation with the admission limits does not parse, so that only Max limits.
func (q *Quota) BrokenLimits() bool {
	return len(q.Problems) > 0 && q.ProblemAt(admit.AnnotationPath(api.AnnotationQuotaAdmission)) != ""
}

// Identity returns the namespace and the name of the quota object.
func (q *Quota) Identity() types.NamespacedName {
	return types.NamespacedName{Namespace: q.Namespace, Name: q.Name}
}

// Exempt reports whether sums and guarantees are not checked for the quota.
func (q *Quota) Exempt() bool { return q.Force || q.IsRoot }

// ProblemAt returns what is wrong with the value of an annotation; empty if nothing is.
func (q *Quota) ProblemAt(at *field.Path) string {
	for _, problem := range q.Problems {
		if problem.Field == at.String() {
			return problem.Error()
		}
	}
	return ""
}
