package admit

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/internal/nearest"
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

// JSONSchema is a mode in schemas.
func (Mode) JSONSchema() string { return `{"enum":["enforce","warn","dryrun","off",false]}` }

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

// CheckSteps returns the problems of modes of steps that do not exist. steps are all steps.
func (m Modes) CheckSteps(steps []string, at *field.Path) (problems field.ErrorList) {
	for name := range m {
		if slices.Contains(steps, name) {
			continue
		}
		problems = append(problems, NoStep(name, steps, at))
	}
	slices.SortFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return problems
}

// NoStep returns the problem of a name that no step has.
func NoStep(name string, steps []string, at *field.Path) *field.Error {
	if best := nearest.Of(name, steps); best != "" {
		return field.Invalid(at, name, "is not a step; did you mean "+best+"?")
	}
	return field.NotSupported(at, name, steps)
}
