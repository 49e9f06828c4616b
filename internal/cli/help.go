// Package cli has what the commands of usher's programs share: streams, output, help, completion and exit codes.
package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"usher.dev/usher/internal/nearest"
)

// Setup gives the command of a program its streams, its usage, and the way in which it fails.
func (s Streams) Setup(root *cobra.Command, suites []string) {
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	cobra.EnableCommandSorting = false
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetUsageFunc(func(c *cobra.Command) error { return usage(c, suites) })
	root.SetFlagErrorFunc(unknownFlag)
}

// usage prints the usage of a command: its examples, the commands below it, and its flags, those of the suites below headings of their own.
func usage(c *cobra.Command, suites []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", c.UseLine())
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	writeCommands(&b, c)
	own, of := flagsOf(c, suites)
	writeFlags(&b, "Flags", own)
	var hidden []string
	for i, name := range suites {
		switch {
		case of[i] == nil:
		case i == 0 || asksFor(c, name):
			writeFlags(&b, "Flags of the suite "+name, of[i])
		default:
			hidden = append(hidden, name)
		}
	}
	writeFlags(&b, "Flags of all these commands", c.InheritedFlags())
	if len(hidden) > 0 {
		fmt.Fprintf(&b, "\n--help-all also lists the flags of the suite %s.\n", strings.Join(hidden, ", "))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help has the flags of a command, and examples.\n", c.CommandPath())
	}
	_, err := fmt.Fprint(c.OutOrStderr(), b.String())
	return err
}

// writeCommands lists the commands below a command, by their groups.
func writeCommands(b *strings.Builder, c *cobra.Command) {
	others := "Other commands"
	if len(c.Groups()) == 0 {
		others = "Commands"
	}
	for _, group := range append(slices.Clip(c.Groups()), &cobra.Group{Title: others}) {
		title := "\n" + group.Title + ":\n"
		for _, below := range c.Commands() {
			if below.GroupID == group.ID && (below.IsAvailableCommand() || below.Name() == "help") {
				fmt.Fprintf(b, "%s  %-*s %s\n", title, below.NamePadding(), below.Name(), below.Short)
				title = ""
			}
		}
	}
}

func writeFlags(b *strings.Builder, title string, set *pflag.FlagSet) {
	if text := set.FlagUsages(); text != "" {
		fmt.Fprintf(b, "\n%s:\n%s", title, text)
	}
}

// flagsOf returns a command's own flags, and those that each suite has added, nil for none.
func flagsOf(c *cobra.Command, suites []string) (own *pflag.FlagSet, of []*pflag.FlagSet) {
	own, of = pflag.NewFlagSet("", pflag.ContinueOnError), make([]*pflag.FlagSet, len(suites))
	own.SortFlags = false
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		i := slices.Index(suites, SuiteOf(f))
		switch {
		case f.Name == "help":
		case i < 0:
			own.AddFlag(f)
		default:
			if of[i] == nil {
				of[i] = pflag.NewFlagSet("", pflag.ContinueOnError)
				of[i].SortFlags = false
			}
			of[i].AddFlag(f)
		}
	})
	return own, of
}

// asksFor reports whether the arguments ask for a suite: by --suite, or for all by --help-all.
func asksFor(c *cobra.Command, name string) bool {
	if c.Flags().Changed("help-all") {
		return true
	}
	chosen, err := c.Flags().GetStringSlice("suite")
	return err == nil && c.Flags().Changed("suite") && slices.Contains(chosen, name)
}

// AddHelpAll adds --help-all.
func AddHelpAll(c *cobra.Command) {
	c.Flags().BoolFunc("help-all", "print this help with the flags of all suites", func(string) error { return c.Flags().Set("help", "true") })
}

// unknownFlag names, in the error for an unknown flag, the one that was probably meant.
func unknownFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if best := nearest.Of(unknown.GetSpecifiedName(), known); best != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, best)
	}
	return fmt.Errorf("%w; `%s --help` lists the flags", err, c.CommandPath())
}

// NoArgs refuses arguments: if there are commands below, as an unknown one of these.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if names := NamesBelow(c); len(names) > 0 {
		return fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), nearest.Question(args[0], names))
	}
	return fmt.Errorf("%s takes no arguments, and there is %q", c.CommandPath(), args[0])
}

// NamesBelow returns the names of the commands below a command.
func NamesBelow(c *cobra.Command) (names []string) {
	for _, below := range c.Commands() {
		names = append(names, below.Name())
	}
	return names
}

// ofSuite is the annotation of a flag that a suite has added.
const ofSuite = "usher.dev/suite"

// SuiteOf returns the name of the suite that has added a flag, or "".
func SuiteOf(f *pflag.Flag) string { return strings.Join(f.Annotations[ofSuite], "") }

// SetSuite says which suite has added a flag of a set.
func SetSuite(set *pflag.FlagSet, flag, suite string) {
	_ = set.SetAnnotation(flag, ofSuite, []string{suite})
}
