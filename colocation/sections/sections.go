// Package sections holds the sections of the policy file that are the colocation suite's, and what they say about a node or a user.
package sections

import (
	_ "embed"

	"usher.dev/usher/config"
)

// Default is what the suite adds to the policy that is used without a file, in YAML.
//
//go:embed default.yaml
var Default string

// All returns the sections by their names in the file.
func All() map[string]func() config.Section {
	return map[string]func() config.Section{
		"nodeAmplification": func() config.Section { return &NodeAmplification{} },
		"binding":           func() config.Section { return &Binding{} },
	}
}
