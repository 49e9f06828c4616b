package ledger

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/colocation/api"
)

// demand is the sum of the requests of the pods that this replica recently admitted to a quota: in the current period of
// grantUse and in the one before.
type demand struct {
	since       time.Time
	now, before sum
	pods, last  int // in the same periods
}

// add counts the request of one pod.
func (d *demand) add(at time.Time, request api.ResourceList) {
	d.rotate(at)
	if d.now == nil {
		d.now = sum{}
	}
	d.now.add(corev1.ResourceList(request))
	d.pods++
}

// rotate begins a new period if the current one is over.
func (d *demand) rotate(at time.Time) {
	switch past := at.Sub(d.since); {
	case past > -grantUse && past < grantUse: // a write may have begun before the current period
		return
	case past >= grantUse && past < 2*grantUse:
		d.before, d.last = d.now, d.pods
	default:
		d.before, d.last = nil, 0
	}
	d.since, d.now, d.pods = at, nil, 0
}

func (d *demand) total() sum {
	all := sum{}
	all.add(corev1.ResourceList(d.before))
	all.add(corev1.ResourceList(d.now))
	return all
}

// copy returns a demand that shares nothing.
func (d demand) copy() demand {
	d.now, d.before = maps.Clone(d.now), maps.Clone(d.before)
	return d
}
