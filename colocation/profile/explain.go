package profile

import "fmt"

// Outcome is the result of matching a profile with a subject.
type Outcome string

// The outcomes.
const (
	Applied        Outcome = "applied"
	OtherLabels    Outcome = "selector"         // the selector does not match
	OtherNamespace Outcome = "namespace"        // the namespaceSelector does not match
	NoNamespace    Outcome = "namespace-absent" // there is a namespaceSelector, and no known namespace
	NotDrawn       Outcome = "probability"      // the workload is outside the probability
	Broken         Outcome = "broken"           // the profile cannot be evaluated
)

// Explanation says why a profile applies to a subject, or why not.
type Explanation struct {
	Profile string  `json:"profile"`
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail"`
}

// Explain explains each profile of the set, in order, for one subject.
func (s *Set) Explain(subject Subject) ([]Explanation, error) {
	ask := asker{ask: subject.Namespaces}
	var all []Explanation
	for _, p := range s.Profiles() {
		outcome, err := p.judge(subject, &ask)
		if err != nil {
			return nil, err
		}
		all = append(all, Explanation{p.Name, outcome, p.detail(outcome, subject)})
	}
	return all, nil
}

func (p *Profile) detail(outcome Outcome, subject Subject) string {
	switch outcome {
	case OtherLabels:
		return fmt.Sprintf("spec.selector wants %s", p.selector)
	case OtherNamespace:
		return fmt.Sprintf("spec.namespaceSelector wants %s", p.namespaces)
	case NoNamespace:
		return fmt.Sprintf("spec.namespaceSelector wants %s, and the namespace is not known", p.namespaces)
	case Broken:
		return p.problems[0].Err.Error()
	}
	if p.percent == 100 {
		return "all parts match"
	}
	w := subject.workload()
	rule := map[bool]string{true: "is below", false: "is not below"}[outcome == Applied]
	return fmt.Sprintf("%s %s/%s draws %d, which %s spec.probability %d%%",
		w.Kind, w.Namespace, w.Name, w.Draw(p.Name), rule, p.percent)
}
