package quota

import (
	"cmp"
	"fmt"
	"maps"
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

// Problems returns the flaws of the tree, sorted; each is a *Flaw. They are computed once.
func (t *Tree) Problems() []error {
	flaws := t.flaws()
	list := make([]error, len(flaws))
	for i, flaw := range flaws {
		list[i] = flaw
	}
	return list
}

// FlawsOf returns the flaws that involve a quota, sorted.
func (t *Tree) FlawsOf(name string) (list []*Flaw) {
	for _, flaw := range t.flaws() {
		if slices.Contains(flaw.Quotas, name) {
			list = append(list, flaw)
		}
	}
	return list
}

func (t *Tree) findFlaws() []*Flaw {
	flaws := slices.Concat(t.doubleNames(), t.contestedNamespaces(), t.cycles(), t.badParents(), t.excessiveSums())
	slices.SortFunc(flaws, func(a, b *Flaw) int { return cmp.Compare(a.text, b.text) })
	return flaws
}

func flaw(kind FlawKind, quotas []string, format string, args ...any) *Flaw {
	return &Flaw{kind, quotas, fmt.Sprintf(format, args...)}
}

func (t *Tree) doubleNames() (flaws []*Flaw) {
	for _, q := range t.duplicates {
		flaws = append(flaws, flaw(FlawDouble, []string{q.Name}, "elastic quota %s is in namespace %s and in namespace %s, but names are global: the one in %s, which is older, counts; delete the other",
			q.Name, t.quotas[q.Name].Namespace, q.Namespace, t.quotas[q.Name].Namespace))
	}
	return flaws
}

func (t *Tree) contestedNamespaces() (flaws []*Flaw) {
	told := map[contested]bool{}
	for _, c := range t.contested {
		if told[c] {
			continue // one list contains the namespace twice
		}
		told[c] = true
		flaws = append(flaws, flaw(FlawContested, []string{c.holds.Name, c.wants.Name}, "elastic quotas %s and %s both list namespace %s: its pods count against %s, which is older; take it out of one",
			c.holds.Name, c.wants.Name, c.namespace, c.holds.Name))
	}
	return flaws
}

// cycles finds each cycle once: it walks up from every quota until it reaches a quota that was visited before.
func (t *Tree) cycles() (flaws []*Flaw) {
	walk := make(map[string]string, len(t.quotas)) // by name: the start of the walk that visited the quota first
	for _, start := range t.Names() {
		name := start
		for t.quotas[name] != nil && walk[name] == "" {
			walk[name] = start
			name = t.quotas[name].Parent
		}
		if t.quotas[name] == nil || walk[name] != start {
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
	for name := t.quotas[first].Parent; name != first && len(text) <= admit.MaxNames; name = t.quotas[name].Parent {
		text = append(text, name)
	}
	if len(text) <= admit.MaxNames {
		text = append(text, first)
	} else {
		text = append(text, "...")
	}
	return strings.Join(text, " -> ")
}

// badParents finds children whose parent does not exist, is not marked as a parent, or is in another tree.
func (t *Tree) badParents() (flaws []*Flaw) {
	for name, children := range t.children {
		parent := t.quotas[name]
		for _, child := range children {
			both := []string{child, name}
			switch {
			case name == api.RootQuota:
			case parent == nil:
				flaws = append(flaws, flaw(FlawNoParent, []string{child}, "elastic quota %s: its parent %s does not exist; create that, or give it another", child, name))
			case !parent.IsParent:
				flaws = append(flaws, flaw(FlawLeaf, both, "elastic quota %s: its parent %s has no label %s=true; set it", child, name, api.LabelQuotaIsParent))
			}
			if parent != nil && name != api.RootQuota && parent.TreeID != t.quotas[child].TreeID {
				flaws = append(flaws, flaw(FlawTree, both, "elastic quota %s: its tree id %q is not that of its parent %s, which is %q", child, t.quotas[child].TreeID, name, parent.TreeID))
			}
		}
	}
	return flaws
}

// excessiveSums finds parents whose children's min adds up to more than their own, computed as in rules.checkSum.
func (t *Tree) excessiveSums() (flaws []*Flaw) {
	for _, name := range slices.Sorted(maps.Keys(t.children)) {
		parent := t.quotas[name]
		if parent == nil || parent.Name == api.RootQuota || parent.Exempt() {
			continue
		}
		children, sum := t.children[name], corev1.ResourceList{}
		for _, child := range children {
			quantity.AddTo(sum, t.quotas[child].Min)
		}
		for _, resource := range quantity.Exceeding(sum, parent.Min) {
			flaws = append(flaws, flaw(FlawSum, append([]string{name}, children...), "elastic quota %s: the min of its children makes %s %s, more than its own %s; raise it, or lower theirs (%s)",
				name, quantity.AmountOf(sum, resource), resource, quantity.AmountOf(parent.Min, resource), admit.SomeNames(children)))
		}
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
