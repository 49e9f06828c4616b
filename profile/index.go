package profile

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// index finds the selectors that may match an object by the labels that it has, so that the others cost nothing. A
// selector is filed under one requirement that it cannot match without.
type index struct {
	values map[Pair][]int   // a label with this value is required
	keys   map[string][]int // a label with any value is required
	always []int            // nothing is required that could be looked up
}

// index files each profile once: by the pod's labels if its selector requires one, else by those of the namespace.
func (s *Set) index() {
	var byPod, byNamespace, all []int
	for i, p := range s.profiles {
		switch {
		case len(required(p.selector)) > 0:
			byPod = append(byPod, i)
		case p.namespaces != nil:
			byNamespace = append(byNamespace, i)
		default:
			all = append(all, i)
		}
	}
	s.pods = newIndex(byPod, func(i int) labels.Selector { return s.profiles[i].selector })
	s.pods.always = append(s.pods.always, all...)
	s.spaces = newIndex(byNamespace, func(i int) labels.Selector { return s.profiles[i].namespaces })
}

func newIndex(numbers []int, selector func(int) labels.Selector) index {
	x := index{map[Pair][]int{}, map[string][]int{}, nil}
	popular := map[Pair]int{} // how many selectors require a label
	for _, i := range numbers {
		for _, r := range required(selector(i)) {
			for _, pair := range pairsOf(r) {
				popular[pair]++
			}
		}
	}
	for _, i := range numbers {
		x.file(i, required(selector(i)), popular)
	}
	return x
}

// file files a selector under the requirement that it shares with the fewest others.
func (x *index) file(i int, requirements []labels.Requirement, popular map[Pair]int) {
	if len(requirements) == 0 {
		x.always = append(x.always, i)
		return
	}
	best, least := requirements[0], -1
	for _, r := range requirements {
		most := 0
		for _, pair := range pairsOf(r) {
			most = max(most, popular[pair])
		}
		if least < 0 || most < least {
			best, least = r, most
		}
	}
	pairs := pairsOf(best)
	for _, pair := range pairs {
		if pair.Value == anyValue {
			x.keys[pair.Key] = append(x.keys[pair.Key], i)
		} else {
			x.values[pair] = append(x.values[pair], i)
		}
	}
}

// anyValue is no label value.
const anyValue = "*"

// pairsOf are the labels of which a requirement requires one.
func pairsOf(r labels.Requirement) (pairs []Pair) {
	if r.Operator() == selection.Exists {
		return []Pair{{r.Key(), anyValue}}
	}
	for value := range r.Values() {
		pairs = append(pairs, Pair{r.Key(), value})
	}
	return pairs
}

// required are the requirements that only an object with a certain label fulfils.
func required(selector labels.Selector) (found []labels.Requirement) {
	if selector == nil {
		return nil
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals, selection.Exists:
			found = append(found, r)
		}
	}
	return found
}

// candidates appends the numbers of what may match.
func (x *index) candidates(into []int, object Labels) []int {
	into = append(into, x.always...)
	if len(x.values)+len(x.keys) == 0 {
		return into
	}
	for _, label := range object {
		into = append(into, x.values[label]...)
		into = append(into, x.keys[label.Key]...)
	}
	return into
}

func (x *index) empty() bool { return len(x.values)+len(x.keys)+len(x.always) == 0 }
