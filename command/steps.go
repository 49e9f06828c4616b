package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/nearest"
)

// stepsCommand is `usher steps`.
func (p Program) stepsCommand() *cobra.Command {
	var output, file string
	var listGates bool
	var effective effectiveOptions
	c := &cobra.Command{Use: "steps [STEP...]", Short: "list all routes and their steps, in order", ValidArgsFunction: p.completeSteps}
	c.Flags().SortFlags = false
	c.Flags().StringVarP(&output, "output", "o", "text", "output format: text or json")
	c.Flags().StringVar(&file, "config", "", "policy file whose modes are shown (default: the embedded policy)")
	effective.addTo(c.Flags())
	c.Flags().BoolVar(&listGates, "gates", false, "list the feature gates instead of the steps")
	featureGates := c.Flags().String("feature-gates", "", "feature gates to set, such as A=true,B=false; --gates lists them")
	_ = c.RegisterFlagCompletionFunc("feature-gates", p.completeGates)
	c.RunE = func(_ *cobra.Command, names []string) error {
		gates, err := p.Suites.ParseGates(*featureGates)
		switch {
		case err != nil:
			return err
		case output != "text" && output != "json":
			return fmt.Errorf("-o %s: must be text or json", output)
		case listGates:
			return p.printGates(gates, output)
		}
		if err := effective.check(c.Flags()); err != nil {
			return err
		}
		return p.printSteps(gates, output, file, names, effective)
	}
	return c
}

// printSteps prints every route, or the routes of the named steps, with its steps in order, as text or JSON.
func (p Program) printSteps(gates gate.Set, output, file string, names []string, effective effectiveOptions) error {
	steps, _ := p.Suites.Steps()
	for _, name := range names {
		if !slices.Contains(steps, name) {
			return fmt.Errorf("there is no step %s%s; `usher steps` lists them", name, nearest.Question(name, steps))
		}
	}
	policy, err := config.Load(file, p.Suites.Schema())
	if err != nil {
		return err
	}
	if effective.on {
		return p.printEffective(gates, policy, effective, output, names)
	}
	rows := slices.DeleteFunc(p.stepRows(policy, gates), func(r stepRow) bool { return len(names) > 0 && !slices.Contains(names, r.Step) })
	if output == "json" {
		return printJSON(p.Out, rows)
	}
	printStepsText(p.Out, rows)
	p.printEnds(policy)
	return nil
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
	Idle      bool   `json:"idle,omitempty"` // the policy has nothing for it to do
	// Overrides are the overrides of the policy that are about the step, in order.
	Overrides []overrideRow `json:"overrides,omitempty"`
}

func (p Program) stepRows(policy *config.Policy, gates gate.Set) []stepRow {
	rows, overrides, now := []stepRow{}, config.SectionOf[admit.Overrides](policy).Compile(), time.Now()
	for _, r := range p.Suites.Table(policy, gates) {
		for _, s := range r.Chain.WithModes(config.SectionOf[admit.Modes](policy)).Steps() {
			on := gates.On(r.Gate) && gates.On(s.Gate) && s.Mode != admit.Off
			row := stepRow{r.Path, r.Suite, string(r.Gate), s.Name, s.Doc, string(s.Gate), string(s.Mode), on, s.Idle, nil}
			for i := range overrides {
				if overrides[i].Concerns(s.Name) {
					row.Overrides = append(row.Overrides, rowOf(&overrides[i], now))
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func printStepsText(to io.Writer, rows []stepRow) {
	path, n := "", 0
	for _, s := range rows {
		if s.Path != path {
			path, n = s.Path, 0
			_, _ = fmt.Fprintf(to, "%s  %s%s\n", s.Path, s.Suite, gateText(s.RouteGate))
		}
		n++
		_, _ = fmt.Fprintf(to, "  %d. %-22s %s\n", n, s.Step, s.Doc)
		if details := s.details(); details != "" {
			_, _ = fmt.Fprintf(to, "     %s\n", details)
		}
		for _, o := range s.Overrides {
			_, _ = fmt.Fprintf(to, "     %s\n", o.text(true))
		}
	}
}

func gateText(name string) string {
	if name == "" {
		return ""
	}
	return ", gate: " + name
}

// details says what is not as usual with a step: enforced, and always on.
func (r stepRow) details() string {
	var parts []string
	if r.Mode != string(admit.Enforce) {
		parts = append(parts, "mode: "+r.Mode)
	}
	if r.Gate != "" {
		parts = append(parts, "gate: "+r.Gate)
	}
	if !r.On {
		parts = append(parts, "off")
	}
	if r.Idle {
		parts = append(parts, "idle: the policy has nothing for it to do")
	}
	return strings.Join(parts, ", ")
}

// printGates lists the feature gates and how they are set.
func (p Program) printGates(gates gate.Set, output string) error {
	type row struct {
		Gate    string `json:"gate"`
		Doc     string `json:"doc"`
		Default bool   `json:"default"`
		On      bool   `json:"on"`
	}
	var rows []row
	for _, g := range p.Suites.Gates() {
		rows = append(rows, row{string(g.Name), g.Doc, g.Default, gates.On(g.Name)})
	}
	if output == "json" {
		return printJSON(p.Out, rows)
	}
	for _, r := range rows {
		_, _ = fmt.Fprintf(p.Out, "%-40s %-5v (default %v)\n    %s\n", r.Gate, r.On, r.Default, r.Doc)
	}
	return nil
}

func printJSON(to io.Writer, value any) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
