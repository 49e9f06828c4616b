// Package flags has the flags that the commands of usher's programs share: those of the suites, and of the cluster.
package flags

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
)

// Suites are the flags that suites add to a command. In its help they stand below the command's own, under a heading for
// each suite; those of other suites than the first only if they are asked for.
type Suites struct {
	List  suite.List // with the flags as their options
	Gates string     // the value of --feature-gates
	err   io.Writer  // for warnings
}

// AddSuites adds the flags of suites to a command, and --feature-gates, which is of the first suite that has gates. Serving adds those
// of serve, too. Warnings are written to warn.
func AddSuites(c *cobra.Command, suites suite.List, serving bool, warn io.Writer) *Suites {
	f := &Suites{List: slices.Clone(suites), err: warn}
	c.Flags().StringVar(&f.Gates, "feature-gates", "",
		"switch feature gates, such as BindingAdmissionWebhook=true,TopologyValidation=false; usherctl steps --gates lists them")
	for _, suite := range suites {
		if len(suite.Gates) > 0 {
			cli.SetSuite(c.Flags(), "feature-gates", suite.Name)
			break
		}
	}
	cli.AddHelpAll(c)
	for i, suite := range suites {
		if suite.NewOptions == nil {
			continue
		}
		options := suite.NewOptions()
		f.List[i] = suite.With(options)
		set := pflag.NewFlagSet(suite.Name, pflag.ContinueOnError)
		set.SortFlags = false
		options.AddFlags(set)
		if serving {
			options.AddServeFlags(set)
		}
		set.VisitAll(func(flag *pflag.Flag) { cli.SetSuite(set, flag.Name, suite.Name) })
		c.Flags().AddFlagSet(set)
	}
	return f
}

// Only restricts the flags to those of the named suites, which it returns.
func (f *Suites) Only(set *pflag.FlagSet, names []string) (chosen suite.List, err error) {
	if f.List, err = f.List.Named(names); err != nil {
		return nil, err
	}
	if len(f.List) == 0 {
		return nil, errors.New("--suite: name a suite, or leave it out")
	}
	set.Visit(func(flag *pflag.Flag) {
		if of := cli.SuiteOf(flag); of != "" && !slices.Contains(names, of) && err == nil {
			err = fmt.Errorf("--%s is for the suite %s, which --suite leaves out", flag.Name, of)
		}
	})
	return f.List, err
}

// Parsed returns the gates, and checks the flags of the suites. source is where the cluster comes from: files or api.
func (f *Suites) Parsed(source string) (gate.Set, error) {
	for _, suite := range f.List {
		if suite.Options != nil {
			if err := suite.Options.Check(source); err != nil {
				return gate.Set{}, err
			}
		}
	}
	gates, err := f.List.ParseGates(f.Gates)
	for _, text := range gates.Warnings() {
		_, _ = fmt.Fprintln(f.err, "warning: "+text)
	}
	return gates, err
}
