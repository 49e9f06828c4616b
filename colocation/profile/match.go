package profile

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/selector"
)

// Subject is the object that profiles are matched with: a pod or a reservation as submitted.
type Subject struct {
	Labels labels.Set
	// Workload returns the workload of the subject. It is called only for profiles with a probability between 0 and
	// 100; nil means the empty workload.
	Workload func() admit.Origin
	// Namespaces returns the labels of the namespaces of the subject: a pod's own, or the namespaces of a reservation's
	// owners. A profile with a namespaceSelector must match all of them; it does not match an empty list, as for an
	// unknown namespace. Namespaces is called at most once, and only if a profile that might match has a
	// namespaceSelector. nil means a subject without namespaces.
	Namespaces func() ([]labels.Set, error)
}

// Matches are the profiles that match a subject, in order.
type Matches struct {
	// Applied are the profiles to apply.
	Applied []*Profile
	// Broken are the profiles that cannot be evaluated, but match as far as they can be.
	Broken []*Profile
}

// Match returns the profiles that match a subject. It fails if Namespaces fails.
func (s *Set) Match(subject Subject) (m Matches, err error) {
	if s == nil {
		return m, nil
	}
	found := s.pods.Candidates(nil, subject.Labels)
	ask := asker{ask: subject.Namespaces}
	if !s.spaces.Empty() {
		spaces, err := ask.namespaces()
		if err != nil {
			return m, err
		}
		if len(spaces) > 0 {
			found = s.spaces.Candidates(found, spaces[0])
		}
	}
	slices.Sort(found)
	for _, i := range found {
		p := s.profiles[i]
		outcome, err := p.judge(subject, &ask)
		switch {
		case err != nil:
			return m, err
		case outcome == Applied:
			m.Applied = append(m.Applied, p)
		case outcome == Broken:
			m.Broken = append(m.Broken, p)
		}
	}
	return m, nil
}

// asker calls Namespaces at most once.
type asker struct {
	ask   func() ([]labels.Set, error)
	asked bool
	found []labels.Set
	err   error
}

func (a *asker) namespaces() ([]labels.Set, error) {
	if !a.asked && a.ask != nil {
		a.found, a.err = a.ask()
	}
	a.asked = true
	return a.found, a.err
}

// judge matches a profile with a subject. The namespace comes last, because it may have to be fetched.
func (p *Profile) judge(subject Subject, ask *asker) (Outcome, error) {
	switch {
	case p.selector != nil && !p.selector.Matches(subject.Labels):
		return OtherLabels, nil
	case !p.draws(subject):
		return NotDrawn, nil
	case p.namespaces != nil:
		if outcome, err := judgeNamespaces(p.namespaces, ask); outcome != "" || err != nil {
			return outcome, err
		}
	}
	if len(p.problems) > 0 {
		return Broken, nil
	}
	return Applied, nil
}

// judgeNamespaces returns no outcome if all namespaces match.
func judgeNamespaces(selector labels.Selector, ask *asker) (Outcome, error) {
	spaces, err := ask.namespaces()
	if err != nil {
		return "", err
	}
	if len(spaces) == 0 {
		return NoNamespace, nil
	}
	for _, space := range spaces {
		if !selector.Matches(space) {
			return OtherNamespace, nil
		}
	}
	return "", nil
}

// draws reports whether the profile applies to the workload of a subject.
func (p *Profile) draws(s Subject) bool {
	return p.percent == 100 || p.percent > 0 && s.workload().Draw(p.Name) < p.percent
}

func (s Subject) workload() admit.Origin {
	if s.Workload == nil {
		return admit.Origin{}
	}
	return s.Workload()
}

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
