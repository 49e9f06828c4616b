package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

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

func same(a, b corev1.Toleration) bool { return equality.Semantic.DeepEqual(a, b) }

// Text returns tolerations as kubectl writes taints, such as gpu=true:NoSchedule.
func Text(all ...corev1.Toleration) string {
	var texts []string
	for _, t := range all {
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
	return strings.Join(texts, ", ")
}
