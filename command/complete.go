package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/learn"
	"usher.dev/usher/server/callers"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
)

// complete makes a shell complete the values of flags, by their names, and the arguments of the commands below root.
func (p Program) complete(root *cobra.Command) {
	flags := map[string]cobra.CompletionFunc{
		"suite": values(p.Suites.Names()...), "path": p.completePaths, "fail-open": p.completePaths, "fail-closed": p.completePaths,
		"feature-gates": p.completeGates, "require-sections": p.completeSections,
		"namespace": completeNamespaces, "exclude-namespace": completeNamespaces,
		"output": values("text", "json", "junit"), "operation": values("CREATE", "UPDATE", "DELETE", "CONNECT"),
		"cluster": values("files", "api"), "certs": values("local", "managed"), "log-format": values("auto", "json", "text"),
		"auth": values(callers.Off, callers.Log, callers.Enforce), "inject": values(webhooks.CertManager, webhooks.OpenShift),
		"config": manifests, "filename": manifests, "old": manifests, "compare": manifests,
		"cluster-dir": directories, "dir": directories, "out": directories, "export": directories, "state-dir": directories, "cert-dir": directories,
		"static-dir": directories,
	}
	outputs := map[string]cobra.CompletionFunc{
		"review": values("text", "patch", "json", "junit", "review"), "steps": values("text", "json"), "init": values("files", "secret"),
	}
	arguments := map[string]cobra.CompletionFunc{
		"review": manifests, "doctor": manifests, "test": directories, "steps": p.completeSteps,
		"learn": completeLessons, "check": completeLessons, "hint": completeLessons, "reset": completeLessons, "solution": completeLessons,
	}
	for _, c := range root.Commands() {
		p.complete(c)
	}
	root.ValidArgsFunction = arguments[root.Name()]
	register := func(f *pflag.Flag) {
		values := flags[f.Name]
		if special := outputs[root.Name()]; special != nil && f.Name == "output" {
			values = special
		}
		if values != nil {
			_ = root.RegisterFlagCompletionFunc(f.Name, values)
		}
	}
	root.Flags().VisitAll(register)
	root.PersistentFlags().VisitAll(register)
}

// checkShells makes `usher completion` reject unknown shells.
func checkShells(root *cobra.Command) {
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

func values(all ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)
}

// manifests completes files that may have manifests, and directories.
func manifests(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completeNamespaces completes a namespace of --cluster-dir or, without, of the cluster that kubectl uses.
func completeNamespaces(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	dir, _ := c.Flags().GetString("cluster-dir")
	kubeconfig, _ := c.Flags().GetString("kubeconfig")
	from := clusterFlags{source: "api", dir: dir, kubeconfig: kubeconfig}
	if dir != "" {
		from.source = "files"
	}
	ctx, cancel := context.WithTimeout(c.Context(), 2*time.Second)
	defer cancel()
	names := map[string]bool{}
	if source, err := from.openSource(); err == nil {
		list, err := source.List(ctx, reader.NewKind("", "v1", "Namespace", "namespaces"), "")
		all, _ := reader.All[corev1.Namespace](list, err)
		for _, namespace := range all {
			names[namespace.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), cobra.ShellCompDirectiveNoFileComp
}

// completeLessons completes the name of a lesson.
func completeLessons(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	lessons, _ := learn.Lessons()
	for _, l := range lessons {
		if len(args) == 0 {
			names = append(names, l.Name+"\t"+l.Title)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeSections completes the name of a section of the policy.
func (p Program) completeSections(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return p.Suites.Schema().Names(), cobra.ShellCompDirectiveNoFileComp
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
