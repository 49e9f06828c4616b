package admit

// Section is the section of the policy file that a step obeys: a config.Section, or nil for a step that has none, because it
// obeys objects of the cluster, or rules that are fixed.
type Section interface{ SectionName() string }

// SectionName returns the name of the step's section of the policy file; "" if it has none.
func (s Step) SectionName() string {
	if s.Section == nil {
		return ""
	}
	return s.Section.SectionName()
}
