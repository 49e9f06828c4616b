package ledger

import "usher.dev/usher/colocation/quota"

// charge adds the charge of a pod to the sums of its quotas.
func (a *accounts) charge(one *account) {
	if len(one.charge) == 0 {
		return
	}
	key := one.pod.BindingKey()
	of := a.byKey[key]
	if of == nil {
		of = &held{sum: sum{}}
		a.byKey[key] = of
	}
	of.pods++
	of.sum.add(one.charge)
	for _, q := range a.path(key) {
		a.usedOf(q.Name).add(one.charge)
	}
}

// discharge subtracts the charge of a pod from the sums of its quotas.
func (a *accounts) discharge(one *account) {
	if len(one.charge) == 0 {
		return
	}
	key := one.pod.BindingKey()
	of := a.byKey[key]
	of.sum.sub(one.charge)
	if of.pods--; of.pods == 0 {
		delete(a.byKey, key)
	}
	for _, q := range a.path(key) {
		a.usedOf(q.Name).sub(one.charge)
	}
	one.charge = nil
}

// path returns the quotas that the pods of a key are charged to, in the tree of the last refresh.
func (a *accounts) path(key quota.BindingKey) []*quota.Quota {
	if a.tree == nil {
		return nil
	}
	return a.tree.Path(a.tree.Bind(key, a.labelOnly).Name)
}

func (a *accounts) usedOf(name string) sum {
	of := a.used[name]
	if of == nil {
		of = sum{}
		a.used[name] = of
	}
	return of
}
