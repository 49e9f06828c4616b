package admit

// Mode says what a step may do; the policy file sets it by the step's name.
type Mode string

const (
	// Enforce lets the step change and refuse requests. It is the default.
	Enforce Mode = "enforce"
	// Warn lets the step change the object; where it would refuse, the request is allowed with a warning.
	Warn Mode = "warn"
	// DryRun lets the step do nothing: what it would have done is logged, counted and audited.
	DryRun Mode = "dryrun"
	// Off skips the step.
	Off Mode = "off"
)

// Modes maps steps to their modes; steps that are not listed are in mode Enforce.
type Modes map[string]Mode

// Of returns the mode of a step.
func (m Modes) Of(step string) Mode {
	if mode, ok := m[step]; ok {
		return mode
	}
	return Enforce
}
