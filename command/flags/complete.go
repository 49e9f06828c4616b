package flags

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/server/suite"
)

// CompleteSections completes the name of a section of the policy.
func CompleteSections(suites suite.List) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return suites.Schema().Names(), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteGates completes the last item of a list such as A=true,B=.
func CompleteGates(suites suite.List) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		var all []string
		for _, g := range suites.Gates() {
			all = append(all, fmt.Sprintf("%s%s=%t\t%s", before, g.Name, !g.Default, g.Doc))
		}
		return all, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
}

// CompletePaths completes the path of a route.
func CompletePaths(suites suite.List) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) (all []string, _ cobra.ShellCompDirective) {
		for _, r := range suites.Table(suite.NoPolicy, gate.Defaults(suites.Gates())) {
			all = append(all, r.Path)
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}
