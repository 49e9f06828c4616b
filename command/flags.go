package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/server/suite"
)

// suiteFlags are the flags that suites add to a command. In its help they stand below the command's own, under a heading for each suite.
type suiteFlags struct {
	suites suite.List
	gates  string
	names  []string // of the suites that have flags
	sets   []*pflag.FlagSet
}

// addSuiteFlags adds the flags of all suites to a command, and --feature-gates.
func (p Program) addSuiteFlags(c *cobra.Command, serving bool) *suiteFlags {
	f := &suiteFlags{suites: p.Suites}
	c.Flags().StringVar(&f.gates, "feature-gates", "",
		"switch feature gates, such as BindingAdmissionWebhook=true,TopologyValidation=false; usher steps --gates lists them")
	_ = c.RegisterFlagCompletionFunc("feature-gates", p.completeGates)
	for _, suite := range p.Suites {
		set := pflag.NewFlagSet(suite.Name, pflag.ContinueOnError)
		set.SortFlags = false
		if suite.Flags != nil {
			suite.Flags(set)
		}
		if serving && suite.ServeFlags != nil {
			suite.ServeFlags(set)
		}
		if set.HasFlags() {
			f.names, f.sets = append(f.names, suite.Name), append(f.sets, set)
		}
	}
	own := pflag.NewFlagSet("own", pflag.ContinueOnError)
	own.SortFlags = false
	own.AddFlagSet(c.Flags())
	c.SetUsageFunc(func(used *cobra.Command) error {
		text := f.usage(used, own)
		if used != c { // a command below it, without flags of suites
			text = (&suiteFlags{}).usage(used, used.Flags())
		}
		_, err := fmt.Fprint(used.OutOrStderr(), text)
		return err
	})
	for _, set := range f.sets {
		c.Flags().AddFlagSet(set)
	}
	return f
}

// usage is the usage line and the flags, in groups.
func (f *suiteFlags) usage(c *cobra.Command, own *pflag.FlagSet) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", c.UseLine())
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n\nAvailable Commands:\n", c.CommandPath())
		for _, below := range c.Commands() {
			fmt.Fprintf(&b, "  %-*s %s\n", below.NamePadding(), below.Name(), below.Short)
		}
	}
	fmt.Fprintf(&b, "\nFlags:\n%s", own.FlagUsages())
	for i, set := range f.sets {
		fmt.Fprintf(&b, "\nFlags of the suite %s:\n%s", f.names[i], set.FlagUsages())
	}
	return b.String()
}

// parsed returns the gates, and checks the flags of the suites. source is where the cluster comes from: files or api.
func (f *suiteFlags) parsed(source string) (gate.Set, error) {
	for _, suite := range f.suites {
		if suite.Check != nil {
			if err := suite.Check(source); err != nil {
				return gate.Set{}, err
			}
		}
	}
	return f.suites.ParseGates(f.gates)
}

// completeGates completes the last item of a list such as A=true,B=.
func (p Program) completeGates(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndex(typed, ",")+1]
	var all []string
	for _, g := range p.Suites.Gates() {
		all = append(all, fmt.Sprintf("%s%s=%t\t%s", before, g.Name, !g.Default, g.Doc))
	}
	return all, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// completePaths completes the path of a route.
func (p Program) completePaths(*cobra.Command, []string, string) (all []string, _ cobra.ShellCompDirective) {
	for _, r := range p.Suites.Table(suite.NoPolicy, gate.Defaults(p.Suites.Gates())) {
		all = append(all, r.Path)
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completeSteps completes the name of a step.
func (p Program) completeSteps(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	steps, _ := p.Suites.Steps()
	return steps, cobra.ShellCompDirectiveNoFileComp
}

// completeSuites completes the name of a suite.
func (p Program) completeSuites(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return p.Suites.Names(), cobra.ShellCompDirectiveNoFileComp
}
