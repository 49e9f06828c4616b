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
	}
	of.pods++
	of.sum.add(one.charge)
	for _, q := range a.path(key) {
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
	}
	for _, q := range a.path(key) {
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
	for _, q := range a.path(one.pod.BindingKey()) {
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
func (a *accounts) path(key quota.BindingKey) []*quota.Quota {
	if a.tree == nil {
		return nil
	}
	return a.tree.Path(a.tree.Bind(key, a.labelOnly).Name)
}
