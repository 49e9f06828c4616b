package profile

import (
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/internal/selector"
)

// index files each profile once: under a label of the pod if its selector requires one, otherwise under a label of the
// namespace.
func (s *Set) index() {
	var byPod, byNamespace []int
	for i, p := range s.profiles {
		if len(selector.Terms(p.selector)) > 0 || p.namespaces == nil {
			byPod = append(byPod, i)
		} else {
			byNamespace = append(byNamespace, i)
		}
	}
	s.pods = newIndex(byPod, func(i int) labels.Selector { return s.profiles[i].selector })
	s.spaces = newIndex(byNamespace, func(i int) labels.Selector { return s.profiles[i].namespaces })
}

func newIndex(numbers []int, selects func(int) labels.Selector) selector.Index[string] {
	return selector.NewIndex(func(yield func(int, []selector.Term[string]) bool) {
		for _, i := range numbers {
			if !yield(i, selector.Terms(selects(i))) {
				return
			}
		}
	})
}
