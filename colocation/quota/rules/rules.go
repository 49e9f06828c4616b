// Package rules judges changes of elastic quotas.
package rules

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// Rules are the rules of Koordinator's webhook for changes of elastic quotas, but they report all problems at once. An
// update is judged only for what it changes: removing a finalizer, or fixing one of two mistakes, is not blocked by
// other mistakes of the quota.
type Rules struct {
	// UpdateResourceKey (gate ElasticQuotaEnableUpdateResourceKey) lets a quota's max name fewer resources than its
	// parent's.
	UpdateResourceKey bool
	// GuaranteeUsage (gate ElasticQuotaGuaranteeUsage) requires that the tree guarantees the min of a quota.
	GuaranteeUsage bool
	// HasPods returns the pods that are bound to a quota by Tree.Bind and have not ended: some of their names, as
	// namespace/name, and their number.
	HasPods func(quota string) (names []string, total int)
	// NamespaceDeleting reports whether a namespace is being deleted, so that its content must be deletable.
	NamespaceDeleting func(namespace string) (bool, error)
	// HasNamespace reports whether there is a namespace with a name. Only Overreach asks it.
	HasNamespace func(name string) (bool, error)
}

// Change is a change of a quota. Old is nil on CREATE, New on DELETE.
type Change struct{ Old, New *quota.Quota }

// Identity returns the namespace and name of the quota. Quotas are identified by name, but objects by namespace and
// name.
func (c Change) Identity() types.NamespacedName {
	if c.New != nil {
		return c.New.Identity()
	}
	return c.Old.Identity()
}

// Verdict is the result of the rules. A change without problems is allowed.
type Verdict struct {
	Problems field.ErrorList // sorted by field; at most maxProblems, of which the last may count the rest
	Warnings []string        // at most maxWarnings, plus one that counts the rest
}

// The limits of an answer. A quota may name thousands of resources and namespaces with a problem each, and an answer of
// megabytes helps no one.
const maxProblems, maxWarnings = 20, 10

// Judge applies the rules to a change of a tree, which may or may not already include the change. An error is one of
// NamespaceDeleting.
func (r Rules) Judge(t *quota.Tree, c Change) (Verdict, error) {
	if c.New == nil {
		return r.judgeDeletion(t, c.Old)
	}
	j := &judge{Rules: r, tree: t, old: c.Old, new: c.New, create: c.Old == nil}
	if j.create {
		j.old = &quota.Quota{}
	}
	if !j.create && fixed(j.new.Name) {
		j.checkFixed()
	} else {
		j.checkAnnotations()
		j.checkSelf()
		j.checkNames()
		j.checkTopology()
	}
	j.warnOfFlaws(c)
	return Verdict{firstProblems(j.Problems), firstWarnings(j.Warnings)}, nil
}

// firstProblems sorts problems and returns the first maxProblems.
func firstProblems(problems field.ErrorList) field.ErrorList {
	texts := make(map[*field.Error]string, len(problems)) // computed once each: there may be very many
	for _, problem := range problems {
		texts[problem] = problem.Error()
	}
	slices.SortStableFunc(problems, func(a, b *field.Error) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(texts[a], texts[b]))
	})
	if len(problems) <= maxProblems {
		return problems
	}
	last := *problems[maxProblems-1]
	last.Detail = fmt.Sprintf("%s (and %d more problems)", last.Detail, len(problems)-maxProblems)
	return append(slices.Clone(problems[:maxProblems-1]), &last)
}

// firstWarnings returns the first maxWarnings warnings.
func firstWarnings(warnings []string) []string {
	if more := len(warnings) - maxWarnings; more > 0 {
		return append(slices.Clone(warnings[:maxWarnings]), fmt.Sprintf("and %d more warnings about this quota", more))
	}
	return warnings
}

// judge is the state of the rules while they check a creation or update.
type judge struct {
	Rules
	Verdict
	tree     *quota.Tree
	old, new *quota.Quota // old is zero on CREATE
	create   bool
}

func (j *judge) refuse(at *field.Path, value any, format string, args ...any) {
	j.Problems = append(j.Problems, field.Invalid(at, value, fmt.Sprintf(format, args...)))
}

func (j *judge) warn(at *field.Path, format string, args ...any) {
	j.Warnings = append(j.Warnings, at.String()+": "+fmt.Sprintf(format, args...))
}

// moved reports whether the quota gets another parent.
func (j *judge) moved() bool { return j.create || j.old.Parent != j.new.Parent }

// exempt reports whether sums and guarantees are not checked. A label that the request adds counts only on CREATE:
// otherwise a user who may change a quota could exempt that very change.
func (j *judge) exempt() bool { return j.new.Exempt() && (j.create || j.old.Exempt()) }

// unexempted reports whether an exemption ends, so that everything it covered must be checked.
func (j *judge) unexempted() bool { return j.old.Exempt() && !j.new.Exempt() }

// The field paths that the rules report.
var (
	minPath        = field.NewPath("spec", "min")
	maxPath        = field.NewPath("spec", "max")
	parentPath     = admit.LabelPath(api.LabelQuotaParent)
	treePath       = admit.LabelPath(api.LabelQuotaTreeID)
	isParentPath   = admit.LabelPath(api.LabelQuotaIsParent)
	isRootPath     = admit.LabelPath(api.LabelQuotaIsRoot)
	forcePath      = admit.LabelPath(api.LabelQuotaAllowForceUpdate)
	namespacesPath = admit.AnnotationPath(api.AnnotationQuotaNamespaces)
	weightPath     = admit.AnnotationPath(api.AnnotationQuotaSharedWeight)
	admissionPath  = admit.AnnotationPath(api.AnnotationQuotaAdmission)
	strictPath     = admit.AnnotationPath(api.AnnotationQuotaMaxStrictCheck)
)

// part is a part of a quota that the rules depend on.
type part struct {
	path *field.Path
	same func(a, b *quota.Quota) bool
}

// parts are the parts that users write, without the scheduler's: guaranteed and used.
var parts = []part{
	{parentPath, func(a, b *quota.Quota) bool {
		// The root quota has no parent, but may have a label.
		return a.Parent == b.Parent && (a.ParentLabel == b.ParentLabel || !fixed(a.Name))
	}},
	{treePath, func(a, b *quota.Quota) bool { return a.TreeID == b.TreeID }},
	{isParentPath, func(a, b *quota.Quota) bool { return a.IsParent == b.IsParent }},
	{isRootPath, func(a, b *quota.Quota) bool { return a.IsRoot == b.IsRoot }},
	{forcePath, func(a, b *quota.Quota) bool { return a.Force == b.Force }},
	{namespacesPath, func(a, b *quota.Quota) bool { return slices.Equal(a.Namespaces, b.Namespaces) }},
	{weightPath, func(a, b *quota.Quota) bool { return quantity.SameList(a.SharedWeight, b.SharedWeight) }},
	{admissionPath, func(a, b *quota.Quota) bool { return quantity.SameList(a.Admission, b.Admission) }},
	{strictPath, func(a, b *quota.Quota) bool { return slices.Equal(a.StrictKeys, b.StrictKeys) }},
	{minPath, func(a, b *quota.Quota) bool { return quantity.SameList(a.Min, b.Min) }},
	{maxPath, func(a, b *quota.Quota) bool { return quantity.SameList(a.Max, b.Max) }},
}

// same reports whether two quotas are equal to the rules, apart from what the scheduler writes.
func same(a, b *quota.Quota) bool {
	return !slices.ContainsFunc(parts, func(p part) bool { return !p.same(a, b) })
}

// fixed reports whether a quota is computed by the scheduler, so that users may not change it.
func fixed(name string) bool { return name == api.RootQuota || name == api.SystemQuota }

// checkFixed refuses changes of the root and the system quota, except for labels and annotations that the rules do not
// use.
func (j *judge) checkFixed() {
	for _, p := range parts {
		if !p.same(j.old, j.new) || j.old.ProblemAt(p.path) != j.new.ProblemAt(p.path) {
			j.Problems = append(j.Problems, field.Forbidden(p.path,
				j.new.Name+" is the scheduler's own quota: its labels, annotations and spec may not be modified"))
		}
	}
}

// checkAnnotations refuses annotations that do not parse. Koordinator treats them as empty and then computes wrong
// results.
func (j *judge) checkAnnotations() {
	for _, problem := range j.new.Problems {
		if !slices.ContainsFunc(j.old.Problems, func(known *field.Error) bool { return known.Error() == problem.Error() }) {
			j.Problems = append(j.Problems, problem)
		}
	}
}

// warnOfFlaws warns of the flaws of the tree that still involve the quota after the change. A new quota can only be
// involved in those of its parent.
func (j *judge) warnOfFlaws(c Change) {
	stored := j.new.Name
	if j.create {
		stored = j.new.Parent
	}
	if len(j.Problems) > 0 || len(j.tree.FlawsOf(stored)) == 0 {
		return
	}
	for _, flaw := range j.tree.With(map[types.NamespacedName]*quota.Quota{c.Identity(): j.new}).FlawsOf(j.new.Name) {
		j.Warnings = append(j.Warnings, flaw.Error())
	}
}

// names formats the resources of a list for a message.
func names(list corev1.ResourceList) string { return admit.SomeOrNothing(quantity.Names(list)) }

// firstResources returns the first names of a list, as the value of a problem.
func firstResources(list corev1.ResourceList) []corev1.ResourceName {
	names := quantity.Names(list)
	if len(names) > maxProblems {
		names = append(names[:maxProblems], "...")
	}
	return names
}
