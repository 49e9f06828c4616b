package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
)

// MaxTolerations is the number of tolerations that are compared with others: of a pod, of those that an update adds, and
// of an annotation. Each is compared with each, so an object of the largest size would take minutes. Real pods have a
// dozen.
const MaxTolerations = 500

// MemoryPressure is the toleration that pods get which request resources: nodes under memory pressure evict pods
// without requests first.
var MemoryPressure = corev1.Toleration{
	Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
}

// Merge returns how the tolerations of a pod change when others are added: the places of those to remove and the ones to
// append. A toleration that another one covers is left out; of equal ones the first is kept.
func Merge(pod, add []corev1.Toleration) (remove []int, added []corev1.Toleration) {
	all := slices.Concat(pod, add)
	var kept []corev1.Toleration
	for i, t := range all {
		covers := func(by corev1.Toleration) bool { return Covers(by, t) }
		differs := func(by corev1.Toleration) bool { return !same(by, t) && Covers(by, t) }
		switch left := !slices.ContainsFunc(kept, covers) && !slices.ContainsFunc(all[i+1:], differs); {
		case left:
			kept = append(kept, t)
			if i >= len(pod) {
				added = append(added, t)
			}
		case i < len(pod):
			remove = append(remove, i)
		}
	}
	return remove, added
}

// Covers reports whether a toleration tolerates everything that another one does. As in the API server's plugin, a
// missing operator of the other one is covered only by the same toleration, or by operator Exists.
func Covers(t, other corev1.Toleration) bool {
	if same(t, other) {
		return true
	}
	allKeys := t.Key == "" && t.Operator == corev1.TolerationOpExists
	if !allKeys && t.Key != other.Key || t.Effect != "" && t.Effect != other.Effect || !asLong(t, other) {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return other.Operator == corev1.TolerationOpEqual && other.Value == t.Value
	}
	return false
}

// asLong reports whether t tolerates a NoExecute taint for as long as other does; no seconds are forever.
func asLong(t, other corev1.Toleration) bool {
	if t.Effect != corev1.TaintEffectNoExecute || t.TolerationSeconds == nil {
		return true
	}
	return other.TolerationSeconds != nil && *other.TolerationSeconds <= *t.TolerationSeconds
}

// Added returns the tolerations that were not there before, by their place.
func Added(before, now []corev1.Toleration) map[int]corev1.Toleration {
	stored, added := map[identity]bool{}, map[int]corev1.Toleration{}
	for _, t := range before {
		stored[identityOf(t)] = true
	}
	for i, t := range now {
		if !stored[identityOf(t)] {
			added[i] = t
		}
	}
	return added
}

// identity is a toleration in a form that == compares.
type identity struct {
	corev1.Toleration
	seconds int64
	limited bool
}

func identityOf(t corev1.Toleration) identity {
	id := identity{Toleration: t, limited: t.TolerationSeconds != nil}
	if id.limited {
		id.seconds, id.TolerationSeconds = *t.TolerationSeconds, nil
	}
	return id
}

func same(a, b corev1.Toleration) bool { return identityOf(a) == identityOf(b) }

// maxText is the maximum length of a list of tolerations in a message, in characters.
const maxText = 300

// Text returns tolerations as kubectl writes taints, such as gpu=true:NoSchedule. A long list is cut.
func Text(all ...corev1.Toleration) string {
	var texts []string
	for _, t := range all[:min(len(all), maxText)] {
		text := cmp.Or(t.Key, "every taint")
		if t.Operator != corev1.TolerationOpExists {
			text += "=" + t.Value
		}
		if t.Effect != "" {
			text += ":" + string(t.Effect)
		}
		if t.TolerationSeconds != nil {
			text += fmt.Sprintf(" for %d s", *t.TolerationSeconds)
		}
		texts = append(texts, text)
	}
	return admit.Shorten(strings.Join(texts, ", "), maxText)
}
