package rules

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/quantity"
)

// Rules are the rules that a change of an elastic quota must keep: what Koordinator's webhook asks of one, with all problems told at
// once. An update is judged only for what it changes: whoever takes a finalizer off a quota, or mends one mistake of two, is not
// stopped by what is wrong beside it.
type Rules struct {
	// UpdateResourceKey (gate ElasticQuotaEnableUpdateResourceKey) lets a quota's max name fewer resources than its parent's.
	UpdateResourceKey bool
	// GuaranteeUsage (gate ElasticQuotaGuaranteeUsage) asks that the tree guarantees the min of a quota.
	GuaranteeUsage bool
	// HasPods gives the pods that are bound to a quota, as Tree.Bind tells, and hold something still: some of them, as namespace/name,
	// and how many there are.
	HasPods func(quota string) (names []string, total int)
	// NamespaceDeleting reports whether a namespace is on its way out, and what is in it must go.
	NamespaceDeleting func(namespace string) (bool, error)
}

// Change is what a request does to a quota. Old is nil on CREATE, New on DELETE.
type Change struct{ Old, New *quota.Quota }

// Identity is that of the quota. A name says which quota is meant, but an object has a namespace too.
func (c Change) Identity() types.NamespacedName {
	if c.New != nil {
		return c.New.Identity()
	}
	return c.Old.Identity()
}

// Verdict is what the rules say of a change. Without problems it is allowed.
type Verdict struct {
	Problems field.ErrorList // sorted by field; at most maxProblems, of which the last says how many more there are
	Warnings []string        // at most maxWarnings, and one that says how many more there are
}

// How much is told at most. A quota may name thousands of resources and namespaces, with a problem each, and nobody reads an answer of
// megabytes.
const maxProblems, maxWarnings = 20, 10

// Judge applies the rules to a change of a tree, which may or may not show the change already. An error is that of a question.
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

// firstProblems sorts problems, and leaves no more than anybody reads.
func firstProblems(problems field.ErrorList) field.ErrorList {
	texts := make(map[*field.Error]string, len(problems)) // made once each: there may be very many
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

// firstWarnings leaves no more warnings than anybody reads.
func firstWarnings(warnings []string) []string {
	if more := len(warnings) - maxWarnings; more > 0 {
		return append(slices.Clone(warnings[:maxWarnings]), fmt.Sprintf("and %d more warnings about this quota", more))
	}
	return warnings
}

// judge is one creation or update while the rules look at it.
type judge struct {
	Rules
	Verdict
	tree     *quota.Tree
	old, new *quota.Quota // old is empty on CREATE
	create   bool
}

func (j *judge) refuse(at *field.Path, value any, format string, args ...any) {
	j.Problems = append(j.Problems, field.Invalid(at, value, fmt.Sprintf(format, args...)))
}

func (j *judge) warn(at *field.Path, format string, args ...any) {
	j.Warnings = append(j.Warnings, at.String()+": "+fmt.Sprintf(format, args...))
}

// moved reports whether the quota comes to another parent.
func (j *judge) moved() bool { return j.create || j.old.Parent != j.new.Parent }

// exempt reports whether sums and guarantees are not checked. A label that comes with the request counts only on CREATE: else
// whoever may change a quota could exempt the very change.
func (j *judge) exempt() bool { return j.new.Exempt() && (j.create || j.old.Exempt()) }

// unexempted reports whether an exemption ends, so that all must be checked that was not.
func (j *judge) unexempted() bool { return j.old.Exempt() && !j.new.Exempt() }

// The field paths of what the rules look at.
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

// part is a part of a quota that rules depend on.
type part struct {
	path *field.Path
	same func(a, b *quota.Quota) bool
}

// parts are what users write; what the scheduler writes, guaranteed and used, is not of them.
var parts = []part{
	{parentPath, func(a, b *quota.Quota) bool {
		return a.Parent == b.Parent && (a.ParentLabel == b.ParentLabel || !fixed(a.Name)) // the root quota has no parent, but a label
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

// same reports whether two quotas are the same to the rules, but for what the scheduler writes.
func same(a, b *quota.Quota) bool {
	return !slices.ContainsFunc(parts, func(p part) bool { return !p.same(a, b) })
}

// fixed reports whether a quota is one of those that nobody may change: the scheduler computes them.
func fixed(name string) bool { return name == api.RootQuota || name == api.SystemQuota }

// checkFixed refuses changes of the root and the system quota (U2), but for labels and annotations that the rules do not know.
func (j *judge) checkFixed() {
	for _, p := range parts {
		if !p.same(j.old, j.new) || j.old.ProblemAt(p.path) != j.new.ProblemAt(p.path) {
			j.Problems = append(j.Problems, field.Forbidden(p.path, j.new.Name+" is the scheduler's own quota: its labels, annotations and spec may not be modified"))
		}
	}
}

// checkAnnotations refuses annotations that do not parse. Koordinator reads them as if they were empty, and then counts wrong.
func (j *judge) checkAnnotations() {
	for _, problem := range j.new.Problems {
		if !slices.ContainsFunc(j.old.Problems, func(known *field.Error) bool { return known.Error() == problem.Error() }) {
			j.Problems = append(j.Problems, problem)
		}
	}
}

// warnOfFlaws tells what stays wrong with the quota in the tree after the change. A new one has no part in anything yet.
func (j *judge) warnOfFlaws(c Change) {
	if j.create || len(j.Problems) > 0 || len(j.tree.FlawsOf(j.new.Name)) == 0 {
		return
	}
	for _, flaw := range j.tree.With(map[types.NamespacedName]*quota.Quota{c.Identity(): j.new}).FlawsOf(j.new.Name) {
		j.Warnings = append(j.Warnings, flaw.Error())
	}
}

// names is a plain list of resources, for a message.
func names(list corev1.ResourceList) string { return admit.SomeOrNothing(quantity.Names(list)) }

// firstResources are the names in a list as the value of a problem: no more than anybody reads.
func firstResources(list corev1.ResourceList) []corev1.ResourceName {
	names := quantity.Names(list)
	if len(names) > maxProblems {
		names = append(names[:maxProblems], "...")
	}
	return names
}

// set is a list to look things up in, which may be long.
func set[T comparable](list []T) map[T]bool {
	all := make(map[T]bool, len(list))
	for _, one := range list {
		all[one] = true
	}
	return all
}
