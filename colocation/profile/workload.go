package profile

import "usher.dev/usher/admit"

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
