package ledger

import (
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/colocation/quota"
)

// sum is an amount of each resource.
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

// plus adds to one resource.
func (s sum) plus(name corev1.ResourceName, q quota.Amount) {
	total := s[name].DeepCopy() // a copy of a quantity may share its digits with the original
	total.Add(q)
	s[name] = total
}

// minus takes from one resource.
func (s sum) minus(name corev1.ResourceName, q quota.Amount) {
	left := s[name].DeepCopy()
	left.Sub(q)
	s[name] = left
}

// raise lifts every resource to at least what the list has of it.
func (s sum) raise(list corev1.ResourceList) {
	for name, q := range list {
		if now, ok := s[name]; !ok || q.Cmp(now) > 0 {
			s[name] = q
		}
	}
}

// covers reports whether a list holds at least what another does.
func covers(list, other corev1.ResourceList) bool {
	for name, q := range other {
		if q.Cmp(list[name]) > 0 {
			return false
		}
	}
	return true
}
