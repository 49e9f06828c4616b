package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"usher.dev/usher/api"
	"usher.dev/usher/gate"
)

func gatesFlag(set *pflag.FlagSet) *string {
	return set.String("feature-gates", "", "switch feature gates, such as BindingAdmissionWebhook=true,TopologyValidation=false; usher steps --gates lists them")
}

// parseGates reads --feature-gates, such as A=true,B=false.
func parseGates(text string) (gate.Set, error) {
	set, err := gate.Parse(text, api.Gates())
	if err != nil {
		return gate.Set{}, fmt.Errorf("--feature-gates: %w", err)
	}
	return set, nil
}

// defaultGates are the gates as they are by default.
func defaultGates() gate.Set { return gate.Defaults(api.Gates()) }
