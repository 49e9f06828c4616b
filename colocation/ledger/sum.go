package ledger

import (
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/colocation/quota"
)

// sum is a total for each resource.
type sum map[corev1.ResourceName]quota.Amount

func (s sum) add(list corev1.ResourceList) {
	for name, q := range list {
		s.plus(name, q)
	}
}

func (s sum) sub(list corev1.ResourceList) {
	for name, q := range list {
		s.minus(name, q)
	}
}

// plus adds q to one resource.
func (s sum) plus(name corev1.ResourceName, q quota.Amount) {
	total := s[name].DeepCopy() // copies of a quantity may share their digits with the original
	total.Add(q)
	s[name] = total
}

// minus subtracts q from one resource.
func (s sum) minus(name corev1.ResourceName, q quota.Amount) {
	left := s[name].DeepCopy()
	left.Sub(q)
	s[name] = left
}

// raise sets each resource to the larger of its amount and the list's.
func (s sum) raise(list corev1.ResourceList) {
	for name, q := range list {
		if now, ok := s[name]; !ok || q.Cmp(now) > 0 {
			s[name] = q
		}
	}
}

// sumOf returns the sum of a quota, to be changed.
func sumOf(all map[string]sum, name string) sum {
	of := all[name]
	if of == nil {
		of = sum{}
		all[name] = of
	}
	return of
}
