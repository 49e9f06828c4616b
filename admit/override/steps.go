package override

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/selector"
)

// CheckSteps returns the problems of overrides with steps that do not exist, or that their conditions never match, and of
// those by which the author of an object could make it an exception. steps are all steps, and clusterScoped those that are
// about objects outside of namespaces only, and optIn are the labels that the namespaces have for which usher is called.
func (all List) CheckSteps(steps, clusterScoped []string, optIn []admit.Label, modes admit.Modes, at *field.Path) (problems field.ErrorList) {
	made := all.Compile()
	for i := range all {
		at := at.Index(i)
		for n, step := range all[i].Steps {
			if at := at.Child("steps").Index(n); !slices.Contains(steps, step) {
				problems = append(problems, admit.NoStep(step, steps, at))
			} else if slices.Contains(clusterScoped, step) && all[i].inNamespaces() {
				problems = append(problems, field.Invalid(at, step, "is about objects outside of namespaces, which conditions on "+
					"namespaces never match; select by users, groups or labels of the object, or leave the step out"))
			}
		}
		if problem := exemptsItself(made, i, all[i].narrows(optIn), modes, at); problem != nil {
			problems = append(problems, problem)
		}
	}
	return problems
}

// inNamespaces reports whether the override has a condition on namespaces.
func (o *Spec) inNamespaces() bool {
	return len(o.Namespaces) > 0 || !selector.Empty(o.NamespaceSelector)
}

// narrows reports whether the override names namespaces, or asks them for a label that not each namespace has for which usher is called.
func (o *Spec) narrows(optIn []admit.Label) bool {
	if len(o.Namespaces) > 0 {
		return true
	}
	return slices.ContainsFunc(selector.Of(o.NamespaceSelector), func(c selector.Constraint) bool {
		everywhere := func(l admit.Label) bool { return l.Key == c.Key && c.Allows(l.Value) }
		return !c.Absent && !(c.Except && c.Key == corev1.LabelMetadataName) && !slices.ContainsFunc(optIn, everywhere)
	})
}

// exemptsItself returns the problem of an override that loosens a step by labels alone, which the author of the object
// writes. narrow says that it is for some namespaces only.
func exemptsItself(all []admit.Override, i int, narrow bool, modes admit.Modes, at *field.Path) *field.Error {
	o := all[i]
	if o.Selector == nil || narrow {
		return nil
	}
	loosened := slices.IndexFunc(o.Steps, func(step string) bool { return loosens(all, i, step, modes.Of(step)) })
	if loosened < 0 {
		return nil
	}
	subjects := slices.Concat(o.Users, o.Groups)
	why, anyone := "anyone can write labels", slices.IndexFunc(subjects, actsForAnyone)
	way := "; name the namespaces as well, or users or groups"
	switch {
	case anyone >= 0:
		why, way = subjects[anyone]+" sends the objects of all users", "; name the namespaces as well"
	case len(subjects) > 0:
		return nil
	}
	if o.NamespaceSelector != nil {
		why += ", and namespaceSelector " + o.NamespaceSelector.String() + " selects every namespace that usher is called for, or all but a few"
		way += ", or select namespaces by a label and its value, such as team=web, which only some of them have"
	}
	return field.Forbidden(at.Child("selector"), fmt.Sprintf(
		"%s would be %s for every object with these labels, and %s%s", o.Steps[loosened], o.Mode, why, way))
}

// actsForAnyone reports whether a user or group of this name sends requests on behalf of all users, as controllers do:
// they create what the authors of other objects ask for.
func actsForAnyone(name string) bool {
	if account, ok := strings.CutPrefix(name, "system:serviceaccount:kube-system:"); ok {
		return strings.HasSuffix(account, "-controller")
	}
	return slices.Contains([]string{"system:authenticated", "system:unauthenticated", "system:anonymous", "system:serviceaccounts",
		"system:serviceaccounts:kube-system", "system:kube-controller-manager"}, name)
}
