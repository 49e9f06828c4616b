package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"usher.dev/usher/config"
)

// printSteps prints every route and its steps in order, as text or JSON.
func printSteps(_ context.Context, args []string, io stdio) error {
	set := flags("steps", io)
	output := set.StringP("output", "o", "text", "text or json")
	file := set.String("config", "", "policy file; the modes that it sets are shown")
	if err := parseAll(set, args); err != nil {
		return err
	}
	policy, _, err := config.Load(*file, stepNames())
	if err != nil {
		return err
	}
	switch *output {
	case "json":
		return printStepsJSON(policy, io)
	case "text":
		printStepsText(policy, io)
		return nil
	}
	return fmt.Errorf("-o %s: must be text or json", *output)
}

func printStepsText(policy *config.Policy, io stdio) {
	for _, r := range routes(policy) {
		_, _ = fmt.Fprintf(io.out, "%s  %s, gate: %s\n", r.Path, r.Suite, cmp.Or(r.Gate, "none, always on"))
		for i, s := range r.Chain.Steps() {
			_, _ = fmt.Fprintf(io.out, "  %d. %-14s %s\n     mode: %s, gate: %s\n", i+1, s.Name, s.Doc, s.Mode, cmp.Or(s.Gate, "none"))
		}
	}
}

func printStepsJSON(policy *config.Policy, io stdio) error {
	type step struct {
		Path string `json:"path"`
		Step string `json:"step"`
		Doc  string `json:"doc"`
		Gate string `json:"gate,omitempty"`
		Mode string `json:"mode"`
	}
	list := []step{}
	for _, r := range routes(policy) {
		for _, s := range r.Chain.Steps() {
			list = append(list, step{r.Path, s.Name, s.Doc, s.Gate, string(s.Mode)})
		}
	}
	encoder := json.NewEncoder(io.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(list)
}
