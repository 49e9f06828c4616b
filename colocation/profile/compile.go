package profile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document/strategic"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/internal/selector"
)

// Compile prepares profiles, in any order. A profile that cannot be evaluated is never applied. It remains in the set,
// so that the objects that it might match get a warning, and its errors are returned as problems. Compile retains the
// maps of the profiles: they must not be modified afterwards.
func Compile(profiles []api.ClusterColocationProfile) (*Set, []Problem) {
	set := &Set{}
	var problems []Problem
	for i := range profiles {
		set.profiles = append(set.profiles, compile(&profiles[i]))
	}
	slices.SortStableFunc(set.profiles, func(a, b *Profile) int { return cmp.Compare(a.Name, b.Name) })
	for i, p := range set.profiles {
		if i > 0 && set.profiles[i-1].Name == p.Name {
			p.broken(field.Duplicate(field.NewPath("metadata", "name"), p.Name))
		}
		problems = append(problems, p.problems...)
	}
	set.index()
	return set, problems
}

var specPath = field.NewPath("spec")

func compile(from *api.ClusterColocationProfile) *Profile {
	spec := from.Spec
	p := &Profile{
		Name: from.Name, Spec: &spec,
		Labels: Sorted(spec.Labels), Annotations: Sorted(spec.Annotations), LabelSuffixes: Sorted(spec.LabelSuffixes),
		LabelKeysMapping: Sorted(spec.LabelKeysMapping), AnnotationKeysMapping: Sorted(spec.AnnotationKeysMapping),
	}
	p.namespaces = p.compileSelector("namespaceSelector", spec.NamespaceSelector)
	p.selector = p.compileSelector("selector", spec.Selector)
	p.compileProbability(spec.Probability)
	p.compilePatch(&spec)
	_, skips := from.Annotations[api.AnnotationSkipUpdateResources]
	p.RequestsClass = !skips && p.setsClass()
	return p
}

func (p *Profile) broken(err *field.Error) { p.problems = append(p.problems, Problem{p.Name, err}) }

// compileSelector returns nil for a selector that selects everything: a missing or empty one, and a broken one,
// which might have matched any object.
func (p *Profile) compileSelector(name string, from *metav1.LabelSelector) labels.Selector {
	if selector.Empty(from) {
		return nil
	}
	path, before := specPath.Child(name), len(p.problems)
	for _, label := range Sorted(from.MatchLabels) {
		for _, err := range checkLabel(path.Child("matchLabels").Key(label.Key), label) {
			p.broken(err)
		}
	}
	expressions := metav1.LabelSelector{MatchExpressions: from.MatchExpressions}
	for _, err := range metavalidation.ValidateLabelSelector(&expressions, metavalidation.LabelSelectorValidationOptions{}, path) {
		if strings.HasSuffix(err.Field, ".operator") {
			err.Detail = "must be In, NotIn, Exists or DoesNotExist; until it is, the profile is applied to nobody"
		}
		p.broken(err)
	}
	compiled, err := metav1.LabelSelectorAsSelector(from)
	switch {
	case err == nil:
		return compiled
	case len(p.problems) == before:
		p.broken(field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
	return nil
}

// checkLabel checks the syntax of a label's key and value.
func checkLabel(path *field.Path, label Pair) field.ErrorList {
	problems := metavalidation.ValidateLabelName(label.Key, path)
	for _, rule := range validation.IsValidLabelValue(label.Value) {
		problems = append(problems, field.Invalid(path, label.Value, rule))
	}
	return problems
}

// compileProbability accepts what Koordinator accepts, except for numbers that are not percentages.
func (p *Profile) compileProbability(probability *intstr.IntOrString) {
	p.percent = 100
	if probability == nil {
		return
	}
	percent := int(probability.IntVal)
	if probability.Type == intstr.String {
		digits, ok := strings.CutSuffix(probability.StrVal, "%")
		number, err := strconv.ParseUint(digits, 10, 31)
		if !ok || err != nil {
			percent = -1
		} else {
			percent = int(number)
		}
	}
	if percent < 0 || percent > 100 {
		p.broken(field.Invalid(specPath.Child("probability"), probability.String(),
			`must be a whole percentage, 0 to 100 or "0%" to "100%"; leave it out for all`))
		percent = 100 // for the warnings to the objects that the profile might match
	}
	p.percent = percent
}

func (p *Profile) compilePatch(spec *api.ClusterColocationProfileSpec) {
	if !spec.HasPatch() {
		return
	}
	patch, err := strategic.Parse(spec.Patch, corev1.Pod{})
	if err != nil {
		p.broken(field.Invalid(specPath.Child("patch"), field.OmitValueType{},
			fmt.Sprintf("%v; it must be a strategic merge patch for a Pod, such as {metadata: {labels: {tier: batch}}}", err)))
		return
	}
	members := patch.Members("spec")
	for _, f := range ownedFields {
		if slices.Contains(members, f.name) && !slices.Contains(members, f.follows) {
			patch = patch.Without("spec", f.name)
			p.LeftOut = append(p.LeftOut, field.Forbidden(specPath.Child("patch", "spec", f.name), f.instead))
		}
	}
	p.Patch = patch
}

// setsClass reports whether a profile writes anything that determines a QoS or priority class.
func (p *Profile) setsClass() bool {
	if p.Spec.QoSClass != "" || p.Spec.PriorityClassName != "" || p.written("label").HasAny(api.LabelQoSClass, api.LabelPriorityClass) {
		return true
	}
	return p.Patch != nil && (p.Patch.Sets("spec", "priority") || p.Patch.Sets("spec", "priorityClassName"))
}
