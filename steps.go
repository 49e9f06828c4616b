package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"usher.dev/usher/admit"
	"usher.dev/usher/api"
	"usher.dev/usher/config"
	"usher.dev/usher/gate"
)

// printSteps prints every route and its steps in order, as text or JSON.
func printSteps(_ context.Context, args []string, io stdio) error {
	set := flags("steps", io)
	output := set.StringP("output", "o", "text", "text or json")
	file := set.String("config", "", "policy file; the modes that it sets are shown")
	featureGates := gatesFlag(set)
	listGates := set.Bool("gates", false, "list the feature gates instead")
	if err := parseAll(set, args); err != nil {
		return err
	}
	open, err := parseGates(*featureGates)
	if err != nil {
		return err
	}
	if *listGates {
		return printGates(open, *output, io)
	}
	policy, err := config.Load(*file, policySchema())
	if err != nil {
		return err
	}
	rows := stepRows(world{policy: policy, gates: open})
	switch *output {
	case "json":
		return printJSON(io, rows)
	case "text":
		printStepsText(rows, io)
		return nil
	}
	return fmt.Errorf("-o %s: must be text or json", *output)
}

// stepRow is one step as `usher steps -o json` prints it.
type stepRow struct {
	Path      string `json:"path"`
	Suite     string `json:"suite"`
	RouteGate string `json:"routeGate,omitempty"`
	Step      string `json:"step"`
	Doc       string `json:"doc"`
	Gate      string `json:"gate,omitempty"`
	Mode      string `json:"mode"`
	On        bool   `json:"on"`
}

func stepRows(w world) []stepRow {
	rows := []stepRow{}
	for _, r := range table(w) {
		for _, s := range r.Chain.WithModes(w.policy.Modes).Steps() {
			on := w.gates.On(r.Gate) && w.gates.On(s.Gate) && s.Mode != admit.Off
			rows = append(rows, stepRow{r.Path, string(r.Suite), string(r.Gate), s.Name, s.Doc, string(s.Gate), string(s.Mode), on})
		}
	}
	return rows
}

func printStepsText(rows []stepRow, io stdio) {
	path, n := "", 0
	for _, s := range rows {
		if s.Path != path {
			path, n = s.Path, 0
			_, _ = fmt.Fprintf(io.out, "%s  %s, gate: %s\n", s.Path, s.Suite, cmp.Or(s.RouteGate, "none, always on"))
		}
		n++
		_, _ = fmt.Fprintf(io.out, "  %d. %-22s %s\n     mode: %s, gate: %s%s\n", n, s.Step, s.Doc, s.Mode, cmp.Or(s.Gate, "none"), offText(s.On))
	}
}

func offText(on bool) string {
	if on {
		return ""
	}
	return ", off"
}

// printGates lists the feature gates and how they are set.
func printGates(open gate.Set, output string, io stdio) error {
	type row struct {
		Gate    string `json:"gate"`
		Doc     string `json:"doc"`
		Default bool   `json:"default"`
		On      bool   `json:"on"`
	}
	var rows []row
	for _, g := range api.Gates() {
		rows = append(rows, row{string(g.Name), g.Doc, g.Default, open.On(g.Name)})
	}
	if output == "json" {
		return printJSON(io, rows)
	}
	for _, r := range rows {
		_, _ = fmt.Fprintf(io.out, "%-40s %-5v (default %v)\n    %s\n", r.Gate, r.On, r.Default, r.Doc)
	}
	return nil
}

func printJSON(io stdio, value any) error {
	encoder := json.NewEncoder(io.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
