package ledger

import (
	"slices"
	"sync"
)

// recall decides whether other replicas are asked for the room of their grants.
type recall struct {
	live    bool // some replica may give back a grant
	needed  bool // some pod would fit then
	before  string
	replica string
	free    func() *holdings // what counts without the grants that can be given back
	view    view
}

func (l *Ledger) newRecall(v view, a *accounts, before, next, misplaced record) *recall {
	gives := func(r *reservation) bool { // one of this replica is there only if the record cannot hold the pods that it admitted
		return r.Grant && (r.By == l.options.Replica || l.grants.live(r, v.now))
	}
	rest := slices.DeleteFunc(pointers(next.Pods), gives)
	return &recall{live: len(rest) < len(next.Pods), before: before.Recall, replica: l.options.Replica, view: v,
		free: sync.OnceValue(func() *holdings { return newHoldings(v.tree, a, rest, pointers(misplaced.Pods)) })}
}

// helps reports whether a pod that does not fit would fit without the grants that can be given back.
func (r *recall) helps(p *placement) bool {
	if !r.live || len(r.free().excess(p, r.view.latest)) > 0 {
		return false
	}
	r.needed = true
	return true
}

// by returns who needs the room; empty if nobody does, or if there are no grants.
func (r *recall) by() string {
	switch {
	case r.needed:
		return r.replica
	case r.live:
		return r.before
	}
	return ""
}
