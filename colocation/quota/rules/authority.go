package rules

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// Overreach returns the parts of a change that only an administrator of quotas may make. Other users may divide what
// the namespace of the changed quota was given: create, change and delete quotas below quotas of that namespace. A quota
// whose parent is not of the namespace is its boundary, which they may not touch. What Judge refuses anyway, such as a
// parent that does not exist, is left to it. An error is one of NamespaceDeleting or HasNamespace.
func (r Rules) Overreach(t *quota.Tree, c Change) (field.ErrorList, error) {
	o := &overreach{tree: t, old: c.Old, new: c.New, namespace: c.Identity().Namespace}
	switch {
	case c.New == nil:
		return o.deletion(r.NamespaceDeleting)
	case c.Old == nil:
		o.old = &quota.Quota{}
		if err := o.checkName(r.HasNamespace); err != nil {
			return nil, err
		}
	case o.boundary():
		o.checkSameParts()
		return firstProblems(o.problems), nil
	}
	o.checkPlace()
	o.checkListed()
	o.checkExemptions()
	return firstProblems(o.problems), nil
}

// overreach is the state of Overreach.
type overreach struct {
	tree      *quota.Tree
	old, new  *quota.Quota // old is zero on CREATE
	namespace string
	problems  field.ErrorList
}

func (o *overreach) forbid(at *field.Path, format string, args ...any) {
	o.problems = append(o.problems, field.Forbidden(at,
		"only administrators of quotas (quotas.administrators of usher's policy) may "+fmt.Sprintf(format, args...)+"; ask one of them"))
}

// boundary reports whether the stored quota is not below a quota of its namespace.
func (o *overreach) boundary() bool {
	parent, known := o.tree.Get(o.old.Parent)
	return !known || parent.Namespace != o.namespace
}

func (o *overreach) deletion(namespaceDeleting func(string) (bool, error)) (field.ErrorList, error) {
	if !o.boundary() {
		return nil, nil
	}
	deleting, err := namespaceDeleting(o.namespace)
	if err == nil && !deleting {
		o.forbid(admit.NamePath, "delete %s, which is not below a quota of namespace %s", o.old.Name, o.namespace)
	}
	return o.problems, err
}

// checkSameParts refuses to change any part of a boundary that users write. The weight follows max by itself.
func (o *overreach) checkSameParts() {
	maxStays := quantity.SameList(o.old.Max, o.new.Max)
	for _, p := range parts {
		if !p.same(o.old, o.new) && (maxStays || p.path != weightPath) {
			o.forbid(p.path, "change %s, which is not below a quota of namespace %s", o.new.Name, o.namespace)
		}
	}
}

// checkPlace requires that a new parent is of the namespace. Quotas at the top have no limit above them, and the quotas
// of another namespace give their room to their own children.
func (o *overreach) checkPlace() {
	if o.new.Parent == o.old.Parent {
		return
	}
	parent, known := o.tree.Get(o.new.Parent)
	switch {
	case o.new.Parent == api.RootQuota:
		o.forbid(parentPath, "put a quota at the top of a tree")
	case known && parent.Namespace != o.namespace:
		o.forbid(parentPath, "put a quota below %s, which is of namespace %s", parent.Name, parent.Namespace)
	}
}

// checkListed refuses to list other namespaces: the quota would count, and could block, their pods.
func (o *overreach) checkListed() {
	known := sets.New(o.old.Namespaces...)
	for _, name := range o.new.Namespaces {
		if name != o.namespace && !known.Has(name) {
			o.forbid(namespacesPath, "list namespaces other than %s", o.namespace)
			return
		}
	}
}

// checkExemptions refuses the labels that exempt a quota from checks.
func (o *overreach) checkExemptions() {
	if o.new.Force && !o.old.Force {
		o.forbid(forcePath, "exempt a quota from the checks")
	}
	if o.new.IsRoot && !o.old.IsRoot {
		o.forbid(isRootPath, "make a quota the root of a tree")
	}
}

// checkName keeps users from taking the names of others, because names of quotas are global. A quota of namespace NS is
// named NS, or begins with NS and a hyphen, unless there is a namespace with a longer name for which the same is true.
func (o *overreach) checkName(hasNamespace func(string) (bool, error)) error {
	name := o.new.Name
	below, of := strings.CutPrefix(name, o.namespace+"-")
	switch {
	case api.ReservedQuota(name), name != o.namespace && !of:
		o.forbid(admit.NamePath, "use a name that is neither %s nor begins with %[1]s-", o.namespace)
		return nil
	case o.awaited():
		o.forbid(admit.NamePath, "use a name that quotas of other namespaces give as their parent")
		return nil
	case !of:
		return nil
	}
	for end := len(name) - len(below); end <= len(name); end++ {
		if end < len(name) && name[end] != '-' {
			continue
		}
		taken, err := hasNamespace(name[:end])
		if err != nil {
			return err
		}
		if taken {
			o.forbid(admit.NamePath, "use a name that belongs to namespace %s", name[:end])
			return nil
		}
	}
	return nil
}

// awaited reports whether a quota of another namespace has the name of the new one as its parent.
func (o *overreach) awaited() bool {
	return slices.ContainsFunc(o.tree.Children(o.new.Name), func(child string) bool {
		q, known := o.tree.Get(child)
		return known && q.Namespace != o.namespace
	})
}
