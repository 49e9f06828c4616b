package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"usher.dev/usher/internal/nearest"
)

// addGroup adds commands that help lists together.
func addGroup(to *cobra.Command, title string, commands ...*cobra.Command) {
	to.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	to.AddCommand(commands...)
}

// next is what usher prints without arguments.
const next = `usher is an admission webhook service for Kubernetes. What would you like to do?

  learn what a webhook is, by tasks               usher learn 1
  see what becomes of an object, as you type it   usher playground
  see what would become of your manifests         usher review FILE
  serve the webhooks on this machine              usher serve
  find out what is wrong with those of a cluster  usher doctor

None but the last needs a cluster. usher --help lists all commands.
`

// usage prints the usage of a command: its examples, the commands below it, and its flags.
func (p Program) usage(c *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", c.UseLine())
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	writeCommands(&b, c)
	own, of := p.flagsOf(c)
	writeFlags(&b, "Flags", own)
	var hidden []string
	for i, name := range p.Suites.Names() {
		switch {
		case of[i] == nil:
		case i == 0 || p.asksFor(c, name):
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
func (p Program) flagsOf(c *cobra.Command) (own *pflag.FlagSet, of []*pflag.FlagSet) {
	own, of = pflag.NewFlagSet("", pflag.ContinueOnError), make([]*pflag.FlagSet, len(p.Suites))
	own.SortFlags = false
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		i := slices.Index(p.Suites.Names(), suiteOf(f))
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
func (p Program) asksFor(c *cobra.Command, name string) bool {
	if c.Flags().Changed("help-all") {
		return true
	}
	chosen, err := c.Flags().GetStringSlice("suite")
	return err == nil && c.Flags().Changed("suite") && slices.Contains(chosen, name)
}

// addHelpAll adds --help-all.
func addHelpAll(c *cobra.Command) {
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

// noArgs refuses arguments: if there are commands below, as an unknown one of these.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if names := namesBelow(c); len(names) > 0 {
		return fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), nearest.Question(args[0], names))
	}
	return fmt.Errorf("%s takes no arguments, and there is %q", c.CommandPath(), args[0])
}

// namesBelow returns the names of the commands below a command.
func namesBelow(c *cobra.Command) (names []string) {
	for _, below := range c.Commands() {
		names = append(names, below.Name())
	}
	return names
}
