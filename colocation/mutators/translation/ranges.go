package translation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/colocation/api"
)

// gave reports whether LimitRanges gave a container that amount, as far as LimitRanger has said so. It says only what it did last, and
// for one LimitRange: a container that it does not name, and any if there are several, has it from them if one of them gives as much.
func (t *translation) gave(list amounts, name corev1.ResourceName, amount resource.Quantity) bool {
	switch said, named := t.filled[list.of]; {
	case len(t.filled) == 0 || !t.give(list, name, amount):
		return false
	case len(t.Ranges) > 1 || !named:
		return true
	default:
		return slices.Contains(said, list.list+" "+string(name))
	}
}

// give reports whether a LimitRange gives containers that amount.
func (t *translation) give(list amounts, name corev1.ResourceName, amount resource.Quantity) bool {
	return slices.ContainsFunc(t.Ranges, func(r *corev1.LimitRange) bool {
		return slices.ContainsFunc(r.Spec.Limits, func(item corev1.LimitRangeItem) bool {
			given, is := list.defaults(item)[name]
			return is && given.Cmp(amount) == 0
		})
	})
}

// refusedByRanges refuses a pod if a LimitRange demands cpu or memory, which the pods of the class have under another name. The
// API server would refuse it as well, although its user has set an amount.
func (t *translation) refusedByRanges() error {
	for _, r := range t.Ranges {
		for _, native := range nativeResources {
			if bound := boundOn(native, r); bound != "" {
				name, _ := api.Translate(t.Class, native)
				return field.Forbidden(field.NewPath("spec", "containers"), fmt.Sprintf(
					"LimitRange %s has a %s, and pods of class %s have %s instead; bound that in the LimitRange, or use another namespace",
					r.Name, bound, t.Class, name))
			}
		}
	}
	return nil
}

// boundOn describes a bound of a LimitRange that demands an amount of a resource; "" if there is none.
func boundOn(name corev1.ResourceName, r *corev1.LimitRange) string {
	for _, item := range r.Spec.Limits {
		if item.Type != corev1.LimitTypeContainer && item.Type != corev1.LimitTypePod {
			continue
		}
		for i, of := range []corev1.ResourceList{item.Min, item.Max, item.MaxLimitRequestRatio} {
			if _, bounded := of[name]; bounded {
				return fmt.Sprintf("%s of %s for each %s", [...]string{"min", "max", "maxLimitRequestRatio"}[i], name, item.Type)
			}
		}
	}
	return ""
}
