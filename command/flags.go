package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/server/suite"
)

// suiteFlags are the flags that suites add to a command. In its help they stand below the command's own, under a heading for
// each suite; those of other suites than the first only if they are asked for.
type suiteFlags struct {
	suites suite.List
	gates  string
	err    io.Writer // for warnings
}

// ofSuite is the annotation of a flag that a suite has added.
const ofSuite = "usher.dev/suite"

// suiteOf returns the name of the suite that has added a flag, or "".
func suiteOf(f *pflag.Flag) string { return strings.Join(f.Annotations[ofSuite], "") }

// addSuiteFlags adds the flags of all suites to a command, and --feature-gates, which is of the first suite that has gates. The
// program's suites have these flags as their options afterwards.
func (p *Program) addSuiteFlags(c *cobra.Command, serving bool) *suiteFlags {
	f := &suiteFlags{err: p.Err}
	if serving {
		f.err = io.Discard // the server logs them
	}
	c.Flags().StringVar(&f.gates, "feature-gates", "",
		"switch feature gates, such as BindingAdmissionWebhook=true,TopologyValidation=false; usher steps --gates lists them")
	for _, suite := range p.Suites {
		if len(suite.Gates) > 0 {
			_ = c.Flags().SetAnnotation("feature-gates", ofSuite, []string{suite.Name})
			break
		}
	}
	addHelpAll(c)
	p.Suites = slices.Clone(p.Suites)
	for i, suite := range p.Suites {
		if suite.NewOptions == nil {
			continue
		}
		options := suite.NewOptions()
		p.Suites[i] = suite.With(options)
		set := pflag.NewFlagSet(suite.Name, pflag.ContinueOnError)
		set.SortFlags = false
		options.AddFlags(set)
		if serving {
			options.AddServeFlags(set)
		}
		set.VisitAll(func(flag *pflag.Flag) { _ = set.SetAnnotation(flag.Name, ofSuite, []string{suite.Name}) })
		c.Flags().AddFlagSet(set)
	}
	f.suites = p.Suites
	return f
}

// only restricts the flags to those of the named suites, which it returns.
func (f *suiteFlags) only(set *pflag.FlagSet, names []string) (chosen suite.List, err error) {
	if f.suites, err = f.suites.Named(names); err != nil {
		return nil, err
	}
	if len(f.suites) == 0 {
		return nil, errors.New("--suite: name a suite, or leave it out")
	}
	set.Visit(func(flag *pflag.Flag) {
		if of := suiteOf(flag); of != "" && !slices.Contains(names, of) && err == nil {
			err = fmt.Errorf("--%s is for the suite %s, which --suite leaves out", flag.Name, of)
		}
	})
	return f.suites, err
}

// parsed returns the gates, and checks the flags of the suites. source is where the cluster comes from: files or api.
func (f *suiteFlags) parsed(source string) (gate.Set, error) {
	for _, suite := range f.suites {
		if suite.Options != nil {
			if err := suite.Options.Check(source); err != nil {
				return gate.Set{}, err
			}
		}
	}
	gates, err := f.suites.ParseGates(f.gates)
	for _, text := range gates.Warnings() {
		_, _ = fmt.Fprintln(f.err, "warning: "+text)
	}
	return gates, err
}
