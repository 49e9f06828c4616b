package cluster

import (
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/poddefaults"
)

// LimitRanges is the collection of all LimitRanges, by namespace. It is declared here because the core suite has no room
// of its own for collections.
var LimitRanges = &Compiled[*corev1.LimitRange, map[string][]*corev1.LimitRange]{
	Collection: Collection[*corev1.LimitRange]{
		Name: admit.CollectionLimitRanges, Kind: corev1.SchemeGroupVersion.WithKind("LimitRange"), Resource: "limitranges", Namespaced: true,
		Keep: Keep(func(o *corev1.LimitRange) *corev1.LimitRange {
			kept := &corev1.LimitRange{Spec: o.Spec}
			kept.Name, kept.Namespace = o.Name, o.Namespace
			poddefaults.LimitRange(kept) // files lack what an API server sets
			return kept
		}),
	},
	Compile: func(all Objects[*corev1.LimitRange]) (byNamespace map[string][]*corev1.LimitRange, _ []error, _ error) {
		byNamespace = map[string][]*corev1.LimitRange{}
		for _, o := range all.Sorted() {
			byNamespace[o.Namespace] = append(byNamespace[o.Namespace], o)
		}
		return byNamespace, nil, nil
	},
}

// LimitRanges returns the LimitRanges of a namespace, sorted by name, with their specs and the defaults of those. They must not be modified.
func (r Reader) LimitRanges(namespace string) ([]*corev1.LimitRange, error) {
	byNamespace, err := LimitRanges.Get(r.Now())
	return byNamespace[namespace], err
}
