// Package quota is the tree of elastic quotas: what it is made of, which quota a pod belongs to, and the rules that a change must
// keep. It is pure: a Tree is an immutable picture, and every rule a function of it. What happens at admission (who fits, now) is
// the business of quota/ledger.
package quota

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// Quota is what the rules and the ledger need of an ElasticQuota. Quotas are known by their name alone, as Koordinator's scheduler knows
// them: two of the same name in two namespaces are a mistake.
type Quota struct {
	Namespace, Name string
	UID             types.UID
	Created         time.Time
	// Deleting: it is on its way out, and only waits for its finalizers.
	Deleting bool
	// Parent is the name of the parent quota: api.RootQuota where the label does not say. Only the root quota has none.
	Parent string
	// ParentLabel is the label as it stands, also on the root quota.
	ParentLabel string
	TreeID      string
	// IsParent: it has children and no pods. IsRoot: it roots a tree. Force: sums and guarantees are not checked.
	IsParent, IsRoot, Force bool
	Min, Max                corev1.ResourceList
	// Namespaces are those whose pods count against the quota, in the order of the annotation.
	Namespaces []string
	// Admission are the limits that replace Max at admission, resource by resource.
	Admission corev1.ResourceList
	// Guaranteed is what the scheduler guarantees to the quota and all below it.
	Guaranteed corev1.ResourceList
	// SharedWeight is the weight in sharing what is idle.
	SharedWeight corev1.ResourceList
	// StrictKeys are the resources of which Max may not fall below Used, which is status.used.
	StrictKeys []corev1.ResourceName
	Used       corev1.ResourceList
	// Problems are the annotations that do not parse; each then counts as if it were missing.
	Problems field.ErrorList
}

// Of reads an ElasticQuota.
func Of(q *api.ElasticQuota) *Quota {
	made := &Quota{
		Namespace: q.Namespace, Name: q.Name, UID: q.UID, Created: q.CreationTimestamp.Time, Deleting: q.DeletionTimestamp != nil,
		Parent: q.Labels[api.LabelQuotaParent], ParentLabel: q.Labels[api.LabelQuotaParent], TreeID: q.Labels[api.LabelQuotaTreeID],
		IsParent: q.Labels[api.LabelQuotaIsParent] == "true", IsRoot: q.Labels[api.LabelQuotaIsRoot] == "true",
		Force: q.Labels[api.LabelQuotaAllowForceUpdate] == "true",
		Min:   corev1.ResourceList(q.Spec.Min), Max: corev1.ResourceList(q.Spec.Max), Used: corev1.ResourceList(q.Status.Used),
	}
	if made.Name == api.RootQuota {
		made.Parent = "" // whatever its label says
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

// parse reads the JSON text of an annotation; an empty one counts as missing.
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

// Limit is the most of a resource that pods of the quota may ask for together, and where that stands: the annotation for admission, or
// spec.max. What neither names is not limited. Koordinator lets the annotation replace spec.max as a whole, so that naming one
// resource there lifts the limits of all others.
func (q *Quota) Limit(name corev1.ResourceName) (limit Amount, source string, limited bool) {
	if Larger, ok := q.Admission[name]; ok {
		return Larger, "annotation " + api.AnnotationQuotaAdmission, true
	}
	Larger, ok := q.Max[name]
	return Larger, "spec.max", ok
}

// BrokenLimits reports whether the annotation of the limits at admission does not parse, so that Max alone limits.
func (q *Quota) BrokenLimits() bool {
	if len(q.Problems) == 0 {
		return false
	}
	at := admit.AnnotationPath(api.AnnotationQuotaAdmission).String()
	return slices.ContainsFunc(q.Problems, func(problem *field.Error) bool { return problem.Field == at })
}

func (q *Quota) Identity() types.NamespacedName {
	return types.NamespacedName{Namespace: q.Namespace, Name: q.Name}
}

func (q *Quota) Exempt() bool { return q.Force || q.IsRoot }

// ProblemAt is what is wrong with the text of an annotation; empty if nothing is.
func (q *Quota) ProblemAt(at *field.Path) string {
	for _, problem := range q.Problems {
		if problem.Field == at.String() {
			return problem.Error()
		}
	}
	return ""
}
