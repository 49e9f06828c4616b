package rules

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"usher.dev/usher/admit"
)

// checkNames refuses a name or a namespace that belongs to another quota, and texts that name no namespace.
func (j *judge) checkNames() {
	if other, ok := j.tree.Get(j.new.Name); ok && j.create && other.Namespace != j.new.Namespace {
		j.refuse(admit.NamePath, j.new.Name, "names of elastic quotas are global: %s exists in namespace %s; choose another name",
			other.Name, other.Namespace)
	}
	known := sets.New(j.old.Namespaces...)
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(j.new.Namespaces))) {
		holds := j.tree.HolderOf(namespace)
		switch {
		case known.Has(namespace):
			continue
		case len(validation.IsDNS1123Label(namespace)) > 0:
			j.refuse(namespacesPath, namespace, "is not the name of a namespace, and patterns mean nothing here; list each namespace")
			continue
		case holds == nil || holds.Identity() == j.new.Identity():
			continue
		}
		j.refuse(namespacesPath, namespace,
			"pods of this namespace count against quota %s already; take it out of that quota's annotation first", holds.Name)
	}
}
