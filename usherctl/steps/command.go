// Package steps is `usherctl steps`: it lists routes, their steps and the modes that these have, also for one request.
package steps

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/policyfile"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/tool"
)

// options are the flags of usherctl steps.
type options struct {
	output, config string
	suites         []string
	effective      effectiveOptions
}

// Command is `usherctl steps`.
func Command(env tool.Env) *cobra.Command {
	var o options
	c := &cobra.Command{Use: "steps [STEP...]", Short: "list routes and their steps, in order",
		Example: `  # what is checked and changed, in which order
  usherctl steps
  # the same in the other suite
  usherctl steps --suite colocation
  # the mode of a step under a policy, for a namespace
  usherctl steps --effective -n batch --cluster-dir samples/cluster --config samples/policies/overrides.yaml denied-names`}
	c.Flags().SortFlags = false
	c.Flags().StringVarP(&o.output, "output", "o", "text", "output format: text or json")
	c.Flags().StringSliceVar(&o.suites, "suite", env.Suites.Names()[:1],
		"suites whose routes are listed; a STEP is looked up in all: "+env.Suites.Describe())
	c.Flags().StringVar(&o.config, "config", "", "policy file whose modes are shown (default: the embedded policy)")
	o.effective.addTo(c.Flags())
	listGates := c.Flags().Bool("gates", false, "list the feature gates of all suites instead of the steps")
	featureGates := c.Flags().String("feature-gates", "", "feature gates to set, such as A=true,B=false; --gates lists them")
	c.RunE = func(c *cobra.Command, names []string) error {
		gates, err := env.Suites.ParseGates(*featureGates)
		switch {
		case err != nil:
			return err
		case o.output != "text" && o.output != "json":
			return fmt.Errorf("-o %s: must be text or json", o.output)
		case *listGates:
			return printGates(env, gates, o.output)
		}
		if err := o.effective.check(c.Flags()); err != nil {
			return err
		}
		if len(names) > 0 && !c.Flags().Changed("suite") {
			o.suites = env.Suites.Names()
		}
		return printSteps(c.Context(), env, gates, o, names)
	}
	return c
}

// Complete completes the name of a step.
func Complete(suites suite.List) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		steps, _ := suites.Steps()
		return steps, cobra.ShellCompDirectiveNoFileComp
	}
}

// printSteps prints every route, or the routes of the named steps, with its steps in order, as text or JSON.
func printSteps(ctx context.Context, env tool.Env, gates gate.Set, o options, names []string) error {
	steps, _ := env.Suites.Steps()
	for _, name := range names {
		if !slices.Contains(steps, name) {
			return fmt.Errorf("there is no step %s%s; `usherctl steps` lists them", name, nearest.Question(name, steps))
		}
	}
	listed, err := env.Suites.Named(o.suites)
	if err != nil {
		return err
	}
	policy, err := policyfile.Load(ctx, o.config, env.Suites.Schema())
	if err != nil {
		return err
	}
	env.WarnOfPolicy(cmp.Or(o.config, "embedded default"), policy)
	if o.effective.on {
		return printEffective(env, gates, listed, policy, o, names)
	}
	rows := slices.DeleteFunc(stepRows(listed, policy, gates), func(r stepRow) bool { return len(names) > 0 && !slices.Contains(names, r.Step) })
	if o.output == "json" {
		return report.WriteJSON(env.Out, rows)
	}
	printText(env.Out, rows)
	for _, other := range env.Suites.Names() {
		if !slices.Contains(o.suites, other) {
			_, _ = fmt.Fprintf(env.Out, "`usherctl steps --suite %s` lists those of the suite %s\n", other, other)
		}
	}
	printEnds(env, policy)
	return nil
}

// stepRow is one step as `usherctl steps -o json` prints it.
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

func stepRows(listed suite.List, policy *config.Policy, gates gate.Set) []stepRow {
	rows, overrides, now := []stepRow{}, config.SectionOf[override.List](policy).Compile(), time.Now()
	for _, r := range listed.Table(policy, gates) {
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

func printText(to io.Writer, rows []stepRow) {
	path, n := "", 0
	for _, s := range rows {
		if s.Path != path {
			path, n = s.Path, 0
			gate := ""
			if s.RouteGate != "" {
				gate = ", gate: " + s.RouteGate
			}
			_, _ = fmt.Fprintf(to, "%s  %s%s\n", s.Path, s.Suite, gate)
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
func printGates(env tool.Env, gates gate.Set, output string) error {
	type row struct {
		Gate    string `json:"gate"`
		Doc     string `json:"doc"`
		Default bool   `json:"default"`
		On      bool   `json:"on"`
	}
	var rows []row
	for _, g := range env.Suites.Gates() {
		rows = append(rows, row{string(g.Name), g.Doc, g.Default, gates.On(g.Name)})
	}
	if output == "json" {
		return report.WriteJSON(env.Out, rows)
	}
	for _, r := range rows {
		_, _ = fmt.Fprintf(env.Out, "%-40s %-5v (default %v)\n    %s\n", r.Gate, r.On, r.Default, r.Doc)
	}
	return nil
}
