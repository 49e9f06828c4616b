package quota

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
)

// FlawKind is one of the Flaw constants.
type FlawKind string

// The kinds of flaws that a stored tree may have: the webhook was off for a while, or two replicas each admitted one of
// two conflicting changes.
const (
	FlawDouble    FlawKind = "double-name"
	FlawContested FlawKind = "contested-namespace"
	FlawCycle     FlawKind = "cycle"
	FlawNoParent  FlawKind = "unknown-parent"
	FlawLeaf      FlawKind = "parent-is-leaf"
	FlawTree      FlawKind = "tree-id"
	FlawSum       FlawKind = "min-sum"
)

// Flaw is an inconsistency of a stored tree.
type Flaw struct {
	Kind FlawKind
	// Quotas are the names of the quotas involved.
	Quotas []string
	text   string
}

// Error returns the description of the flaw.
func (f *Flaw) Error() string { return f.text }

// first returns the quota that names a cycle.
func (f *Flaw) first() string { return f.Quotas[len(f.Quotas)-1] }

// A site is one of these, and a name: what a flaw depends on.
const (
	atName      = "name "
	atNamespace = "namespace "
	atChild     = "child "
	atParent    = "parent "
	atCycle     = "cycle " // and its first quota
)

// Problems returns the flaws of the tree, sorted; each is a *Flaw.
func (t *Tree) Problems() []error {
	var flaws []*Flaw
	for _, found := range t.flaws.All() {
		flaws = append(flaws, found...)
	}
	sortFlaws(flaws)
	list := make([]error, len(flaws))
	for i, flaw := range flaws {
		list[i] = flaw
	}
	return list
}

// FlawsOf returns the flaws that involve a quota, sorted.
func (t *Tree) FlawsOf(name string) (list []*Flaw) {
	if t.flaws.Len() == 0 {
		return nil
	}
	for _, site := range t.sites(name) {
		found, _ := t.flaws.Get(site)
		for _, flaw := range found {
			if slices.Contains(flaw.Quotas, name) {
				list = append(list, flaw)
			}
		}
	}
	sortFlaws(list)
	return list
}

// sites returns where the flaws of a quota may be, each once.
func (t *Tree) sites(name string) []string {
	sites := []string{atName + name, atChild + name, atParent + name}
	for _, child := range t.Children(name) {
		sites = append(sites, atChild+child)
	}
	q := t.quota(name)
	for _, namespace := range q.namespaces() {
		sites = append(sites, atNamespace+namespace)
	}
	if path := t.Path(name); len(path) > 0 {
		sites = append(sites, atParent+q.Parent, atCycle+path[len(path)-1].Name)
	}
	slices.Sort(sites)
	return slices.Compact(sites) // a quota may be its own parent
}

func sortFlaws(flaws []*Flaw) {
	slices.SortFunc(flaws, func(a, b *Flaw) int { return cmp.Compare(a.text, b.text) })
}

func flaw(kind FlawKind, quotas []string, format string, args ...any) *Flaw {
	return &Flaw{kind, quotas, fmt.Sprintf(format, args...)}
}

// doubles finds the quotas that have the name of an older one.
func (t *Tree) doubles(name string) (flaws []*Flaw) {
	named, _ := t.named.Get(name)
	for _, q := range named.others {
		flaws = append(flaws, flaw(FlawDouble, []string{name}, "elastic quota %s is in namespace %s and in namespace %s, but names are global: the "+
			"one in %s, which is older, counts; delete the other",
			name, named.first.Namespace, q.Namespace, named.first.Namespace))
	}
	return flaws
}

// contested finds the quotas that list the same namespace as an older one.
func (t *Tree) contested(namespace string) (flaws []*Flaw) {
	listing, _ := t.listing.Get(namespace)
	for _, q := range listing.others {
		flaws = append(flaws, flaw(FlawContested, []string{listing.first.Name, q.Name},
			"elastic quotas %s and %s both list namespace %s: its pods count against %s, which is older; take it out of one",
			listing.first.Name, q.Name, namespace, listing.first.Name))
	}
	return flaws
}

// cycles finds the cycles that some quotas are in or below, each once: it walks up from every quota until it reaches a
// quota that was visited before.
func (t *Tree) cycles(from []string) (flaws []*Flaw) {
	walk := make(map[string]string, len(from)) // by name: the start of the walk that visited the quota first
	for _, start := range from {
		if walk[start] != "" {
			continue
		}
		name := start
		for q := t.quota(name); q != nil && walk[name] == ""; q = t.quota(name) {
			walk[name] = start
			name = q.Parent
		}
		if t.quota(name) == nil || walk[name] != start {
			continue
		}
		var members []string
		for _, q := range t.Path(name) {
			members = append(members, q.Name)
		}
		flaws = append(flaws, flaw(FlawCycle, members, "elastic quotas stand below themselves: %s; give one of them another parent", t.cycleText(members)))
	}
	return flaws
}

// cycleText describes a cycle as the path up from its first name.
func (t *Tree) cycleText(members []string) string {
	first := slices.Min(members)
	text := []string{first}
	for name := t.quota(first).Parent; name != first && len(text) <= admit.MaxNames; name = t.quota(name).Parent {
		text = append(text, name)
	}
	if len(text) <= admit.MaxNames {
		text = append(text, first)
	} else {
		text = append(text, "...")
	}
	return strings.Join(text, " -> ")
}

// badParent finds what is wrong between a quota and its parent: it does not exist, is not marked as a parent, or is in
// another tree.
func (t *Tree) badParent(child string) (flaws []*Flaw) {
	q := t.quota(child)
	if q == nil || q.Parent == "" || q.Parent == api.RootQuota {
		return nil
	}
	name, both := q.Parent, []string{child, q.Parent}
	parent := t.quota(name)
	if parent == nil {
		return []*Flaw{flaw(FlawNoParent, []string{child}, "elastic quota %s: its parent %s does not exist; create that, or give it another", child, name)}
	}
	if !parent.IsParent {
		flaws = append(flaws, flaw(FlawLeaf, both, "elastic quota %s: its parent %s has no label %s=true; set it", child, name, api.LabelQuotaIsParent))
	}
	if parent.TreeID != q.TreeID {
		flaws = append(flaws, flaw(FlawTree, both,
			"elastic quota %s: its tree id %q is not that of its parent %s, which is %q", child, q.TreeID, name, parent.TreeID))
	}
	return flaws
}

// excessiveSum finds that the min of a quota's children adds up to more than its own, computed as in rules.checkSum.
func (t *Tree) excessiveSum(name string) (flaws []*Flaw) {
	parent, children := t.quota(name), t.Children(name)
	if parent == nil || name == api.RootQuota || parent.Exempt() || len(children) == 0 {
		return nil
	}
	if sum, _ := t.sums.Get(name); len(quantity.Exceeding(sum, parent.Min)) == 0 {
		return nil // the usual case, however many children there are
	}
	sum := corev1.ResourceList{} // added up in order, which determines the format
	for _, child := range children {
		quantity.AddTo(sum, t.quota(child).Min)
	}
	for _, resource := range quantity.Exceeding(sum, parent.Min) {
		flaws = append(flaws, flaw(FlawSum, append([]string{name}, children...),
			"elastic quota %s: the min of its children makes %s %s, more than its own %s; raise it, or lower theirs (%s)",
			name, quantity.AmountOf(sum, resource), resource, quantity.AmountOf(parent.Min, resource), admit.SomeNames(children)))
	}
	return flaws
}

// SumOfMin returns the sum of the min of some quotas.
func SumOfMin(quotas []*Quota) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, q := range quotas {
		quantity.AddTo(sum, q.Min)
	}
	return sum
}
