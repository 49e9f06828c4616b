package profile

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"usher.dev/usher/internal/labelindex"
)

// index files each profile once: under a label of the pod if its selector requires one, otherwise under a label of the
// namespace.
func (s *Set) index() {
	var byPod, byNamespace []int
	for i, p := range s.profiles {
		if len(required(p.selector)) > 0 || p.namespaces == nil {
			byPod = append(byPod, i)
		} else {
			byNamespace = append(byNamespace, i)
		}
	}
	s.pods = newIndex(byPod, func(i int) labels.Selector { return s.profiles[i].selector })
	s.spaces = newIndex(byNamespace, func(i int) labels.Selector { return s.profiles[i].namespaces })
}

func newIndex(numbers []int, selector func(int) labels.Selector) labelindex.Index {
	return labelindex.New(func(yield func(int, []labelindex.Requirement) bool) {
		for _, i := range numbers {
			if !yield(i, required(selector(i))) {
				return
			}
		}
	})
}

// required returns the requirements that an object can only satisfy with a certain label.
func required(selector labels.Selector) (found []labelindex.Requirement) {
	if selector == nil {
		return nil
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			found = append(found, labelindex.Requirement{Key: r.Key(), Values: r.Values().List()})
		case selection.Exists:
			found = append(found, labelindex.Requirement{Key: r.Key(), Any: true})
		}
	}
	return found
}

// candidates appends the numbers of the profiles that may match.
func candidates(into []int, x *labelindex.Index, object labels.Set) []int {
	into = append(into, x.Always()...)
	for key, value := range object {
		into = x.Append(into, key, value)
	}
	return into
}
