package admit

import (
	"fmt"
	"slices"
	"strings"
)

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

// UnmarshalJSON reads a mode. YAML reads the word off, without quotes, as false.
func (m *Mode) UnmarshalJSON(raw []byte) error {
	mode := Off
	if string(raw) != "false" {
		if mode = Mode(strings.Trim(string(raw), `"`)); !slices.Contains(AllModes, mode) {
			return fmt.Errorf("must be one of %v", AllModes)
		}
	}
	*m = mode
	return nil
}

// AllModes are the modes, from the strictest.
var AllModes = []Mode{Enforce, Warn, DryRun, Off}

// Modes maps steps to their modes; steps that are not listed are in mode Enforce.
type Modes map[string]Mode

// Of returns the mode of a step.
func (m Modes) Of(step string) Mode {
	if mode, ok := m[step]; ok {
		return mode
	}
	return Enforce
}
