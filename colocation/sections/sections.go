// Package sections has the colocation suite's sections of the policy file, and evaluates them for nodes and users.
package sections

import (
	_ "embed"

	"usher.dev/usher/config"
)

// Default is the suite's part of the policy that is used without a file, in YAML.
//
//go:embed default.yaml
var Default string

// All returns the sections by their names in the file.
func All() map[string]func() config.Section {
	return map[string]func() config.Section{
		"nodeAmplification": func() config.Section { return &NodeAmplification{} },
		"binding":           func() config.Section { return &Binding{} },
		"quotas":            func() config.Section { return &Quotas{} },
	}
}
