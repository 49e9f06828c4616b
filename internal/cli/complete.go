package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Completion says how a shell completes what is typed.
type Completion struct {
	Flags     map[string]cobra.CompletionFunc // values of flags, by their names
	Outputs   map[string]cobra.CompletionFunc // values of --output, by the names of commands
	Arguments map[string]cobra.CompletionFunc // arguments, by the names of commands
}

// AddTo adds the completions to a command and those below it.
func (c Completion) AddTo(root *cobra.Command) {
	for _, below := range root.Commands() {
		c.AddTo(below)
	}
	root.ValidArgsFunction = c.Arguments[root.Name()]
	register := func(f *pflag.Flag) {
		values := c.Flags[f.Name]
		if special := c.Outputs[root.Name()]; special != nil && f.Name == "output" {
			values = special
		}
		if values != nil {
			_ = root.RegisterFlagCompletionFunc(f.Name, values)
		}
	}
	root.Flags().VisitAll(register)
	root.PersistentFlags().VisitAll(register)
}

// CheckShells makes `completion` reject unknown shells.
func CheckShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil {
		return
	}
	var shells []string
	for _, c := range completion.Commands() {
		shells = append(shells, c.Name())
	}
	completion.Args = nil
	completion.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("completion %s: must be one of %s", args[0], strings.Join(shells, ", "))
		}
		return c.Help()
	}
}

// Values completes fixed values.
func Values(all ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)
}

// Manifests completes files that may have manifests, and directories.
func Manifests(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// Directories completes directories.
func Directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}
