package admit

// Mode is how seriously a step is taken; the policy file sets it by the step's name.
type Mode string

const (
	// Enforce lets the step change and refuse. It is the default.
	Enforce Mode = "enforce"
	// Warn lets the step change; where it would refuse, the request is allowed with a warning.
	Warn Mode = "warn"
	// DryRun lets the step do nothing: what it would have done is logged, counted and audited.
	DryRun Mode = "dryrun"
	// Off leaves the step out.
	Off Mode = "off"
)

// Modes holds the mode of steps by name; a step that is not there is enforced.
type Modes map[string]Mode

// Of is the mode of a step.
func (m Modes) Of(step string) Mode {
	if mode, ok := m[step]; ok {
		return mode
	}
	return Enforce
}
