package ledger

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/quota"
)

// candidate is a pod that requests a reservation. It is read once and placed anew in the tree of each attempt.
type candidate struct {
	pod    *quota.Pod
	charge corev1.ResourceList
	// stored is the pod as stored; nil for a new one.
	stored       *quota.Pod
	storedCharge corev1.ResourceList
	from         string // the version of stored
}

// placement is a candidate in one tree, with everything that a decision about it needs from the tree.
type placement struct {
	*candidate
	tree *quota.Tree
	// verdict is complete except for Excess.
	verdict quota.PodVerdict
	path    []*quota.Quota // from the pod's own quota up to the top
	// before is the binding of the stored pod, and beforeCharge what it is charged for there; both are nil for a new
	// pod.
	before       *quota.Binding
	beforeCharge corev1.ResourceList
	// top is the quota whose object holds the record that the decision needs. It is empty if verdict is final.
	top string
}

func (l *Ledger) read(r quota.Request) *candidate {
	c := &candidate{}
	if l.Shared() { // the versions of files, and of their pods, are others
		c.from = r.From
	}
	c.pod, c.stored = r.Read()
	c.charge = l.options.Counting.Charge(c.pod)
	if c.stored != nil {
		c.storedCharge = l.options.Counting.Charge(c.stored)
	}
	return c
}

// place binds a candidate in the tree and finds the top of its path.
func (l *Ledger) place(tree *quota.Tree, c *candidate) placement {
	p := placement{candidate: c, tree: tree}
	p.verdict.Binding = tree.Bind(c.pod.BindingKey(), l.options.LabelOnly)
	if c.stored != nil {
		before := tree.Bind(c.stored.BindingKey(), l.options.LabelOnly)
		p.before = &before
		if limits(before) {
			p.beforeCharge = c.storedCharge
		}
	}
	if !limits(p.verdict.Binding) || !p.grows() {
		return p
	}
	if p.verdict.Unknown = p.verdict.Binding.Unknown(); p.verdict.Unknown {
		return p
	}
	p.path = tree.Path(p.verdict.Binding.Name)
	for _, q := range p.path {
		if q.BrokenLimits() {
			p.verdict.BrokenLimits = append(p.verdict.BrokenLimits, q.Name)
		}
	}
	if p.judgedAnywhere() {
		p.top = p.path[len(p.path)-1].Name
	}
	return p
}

// limits reports whether a binding matters: its quota may limit the pod, or does not exist.
func limits(b quota.Binding) bool { return b.Quota != nil || b.Unknown() }

// own reports whether the pod belongs to the quota of its namespace, by no label.
func (p *placement) own() bool { return p.pod.Label == "" }

// grows reports whether the pod moves to another quota or is charged for more than before. A pod that gives up resources need not fit
// into a quota that has since become too small for it.
func (p *placement) grows() bool {
	return p.before == nil || p.moves() || !quantity.Covers(p.beforeCharge, p.charge)
}

// judged returns the limit of a quota that applies to the pod's request for a resource. ok is false if there is no
// limit, or if the pod requests no more than it already had there.
func (p *placement) judged(q *quota.Quota, name corev1.ResourceName) (limit quota.Amount, source string, ok bool) {
	want := p.charge[name]
	if want.Sign() <= 0 {
		return limit, "", false
	}
	if limit, source, ok = q.Limit(name); !ok {
		return limit, "", false
	}
	if p.before != nil && want.Cmp(p.beforeCharge[name]) <= 0 &&
		slices.ContainsFunc(p.tree.Path(p.before.Name), func(above *quota.Quota) bool { return above.Name == q.Name }) {
		return limit, "", false
	}
	return limit, source, true
}

// judgedAnywhere reports whether any limit on the path applies to the pod. For a pod that moves, those that it is in already are
// included: only the record shows whether its former quota is still below them.
func (p *placement) judgedAnywhere() bool {
	moves := p.moves()
	for _, q := range p.path {
		for name, want := range p.charge {
			if _, _, ok := p.judged(q, name); ok {
				return true
			}
			if moves && want.Sign() > 0 {
				if _, _, limited := q.Limit(name); limited {
					return true
				}
			}
		}
	}
	return false
}

// moves reports whether an update gives the pod another quota, or may: where another label leads to the same quota, only the record
// shows whether that is still so. Without other replicas there is no doubt, and from is empty.
func (p *placement) moves() bool {
	return p.before != nil && (p.before.Name != p.verdict.Binding.Name || p.from != "" && p.stored.Label != p.pod.Label)
}
