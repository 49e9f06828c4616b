package ledger

import (
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/colocation/quota"
)

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
		a.bind(key, of)
	}
	of.pods++
	of.sum.add(one.charge)
	for _, q := range a.path(of) {
		sumOf(a.used, q.Name).add(one.charge)
	}
	a.chargeApart(of, one, sum.add)
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
		a.unbind(key, of)
	}
	for _, q := range a.path(of) {
		sumOf(a.used, q.Name).sub(one.charge)
	}
	a.chargeApart(of, one, sum.sub)
	one.charge = nil
}

// chargeApart adds what the spec of a pod does not request to the sums of its quotas, or subtracts it.
func (a *accounts) chargeApart(of *held, one *account, change func(sum, corev1.ResourceList)) {
	apart := corev1.ResourceList(a.apartOf(one.pod, one.charge))
	if len(apart) == 0 {
		return
	}
	if of.apart == nil {
		of.apart = sum{}
	}
	change(of.apart, apart)
	for _, q := range a.path(of) {
		change(sumOf(a.apart, q.Name), apart)
	}
}

// apartOf returns the part of a pod's charge that its spec does not request; nil for nearly all pods.
func (a *accounts) apartOf(pod *quota.Pod, charge corev1.ResourceList) sum {
	if pod.Held == nil && !pod.Unreported || !a.counting.Allocated {
		return nil
	}
	apart := sum{}
	apart.add(charge)
	apart.sub(a.counting.Asked(pod))
	return apart
}

// path returns the quotas that the pods of a key are charged to, in the tree of the last refresh.
func (a *accounts) path(of *held) []*quota.Quota {
	if a.tree == nil {
		return nil
	}
	return a.tree.Path(of.quota)
}

// bind finds the quota that the pods of a key belong to in the tree, and notes that it has the key.
func (a *accounts) bind(key quota.BindingKey, of *held) {
	if a.tree == nil {
		return
	}
	of.quota = a.tree.Bind(key, a.labelOnly).Name
	keys := a.keysOf[of.quota]
	if keys == nil {
		keys = map[quota.BindingKey]bool{}
		a.keysOf[of.quota] = keys
	}
	keys[key] = true
}

// unbind takes a key from its quota.
func (a *accounts) unbind(key quota.BindingKey, of *held) {
	keys := a.keysOf[of.quota]
	if delete(keys, key); len(keys) == 0 {
		delete(a.keysOf, of.quota)
	}
}

// move charges the pods to the quotas of another tree. Its cost grows with the pods that count elsewhere there; the first tree moves all.
func (a *accounts) move(tree *quota.Tree) {
	var names, namespaces map[string]bool
	moving := a.byKey
	if a.tree != nil {
		names, namespaces = tree.Moved(a.tree)
		moving = a.moving(names, namespaces)
	}
	for key, of := range moving {
		a.chargeAll(of, sum.sub)
		a.unbind(key, of)
	}
	a.tree = tree
	for key, of := range moving {
		a.bind(key, of)
		a.chargeAll(of, sum.add)
	}
	a.forget(names)
}

// forget drops the sums of those named quotas that do not exist any more.
func (a *accounts) forget(names map[string]bool) {
	for name := range names {
		if _, exists := a.tree.Get(name); !exists {
			delete(a.used, name)
			delete(a.apart, name)
		}
	}
}

// moving returns the keys that belong to the named quotas, and those of the pods without a label, or with an empty one, in the named
// namespaces.
func (a *accounts) moving(names, namespaces map[string]bool) map[quota.BindingKey]*held {
	keys := map[quota.BindingKey]*held{}
	for name := range names {
		for key := range a.keysOf[name] {
			keys[key] = a.byKey[key]
		}
	}
	for namespace := range namespaces {
		for _, labelled := range []bool{false, true} { // without a label, and with an empty one
			key := quota.BindingKey{Namespace: namespace, Labelled: labelled}
			if of := a.byKey[key]; of != nil {
				keys[key] = of
			}
		}
	}
	return keys
}

// chargeAll adds the charges of a key to the sums of its quotas, or subtracts them.
func (a *accounts) chargeAll(of *held, change func(sum, corev1.ResourceList)) {
	for _, q := range a.path(of) {
		change(sumOf(a.used, q.Name), corev1.ResourceList(of.sum))
		if len(of.apart) > 0 {
			change(sumOf(a.apart, q.Name), corev1.ResourceList(of.apart))
		}
	}
}
