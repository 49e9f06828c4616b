// Package lab runs a whole API server for kubectl on this machine, in memory, with usher registered at it.
//
//	command.go  the flags
//	lab.go      starts all, tells how to reach it, and ends it
//	usher.go    usher: its rights, its server, and a registration that follows the policy
//	load.go     manifests that are in the cluster from the beginning
package lab

import (
	"strings"

	"github.com/spf13/cobra"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/command/flags"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/engine/whole"
	"usher.dev/usher/usherctl/tool"
)

// options are the flags of usherctl lab.
type options struct {
	config, version string
	suiteNames      []string
	load            []string
	verbose         bool

	suites suite.List
	gates  gate.Set
}

// Command is `usherctl lab`.
func Command(env tool.Env) *cobra.Command {
	o := options{}
	c := &cobra.Command{Use: "lab", Short: "run an API server for kubectl on this machine, with usher registered", Args: cli.NoArgs,
		Example: `  # then set KUBECONFIG in another terminal, as it says
  usherctl lab --config samples/policies/rules.yaml --load samples/cluster/namespaces.yaml`,
		Long: `Run kube-apiserver on this machine, in memory and without a container, and usher, which it calls: for trying a policy with kubectl.
The policy file is followed. There are no nodes, no scheduler, no controllers of workloads: a checkout's make cluster has them. Ctrl-C ends
it, and nothing stays.`}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&o.config, "config", "", "policy file, read again when it changes (default: the embedded policy)")
	c.Flags().StringSliceVar(&o.suiteNames, "suite", env.Suites.Names()[:1], "suites that usher serves, separated by commas: "+env.Suites.Describe())
	c.Flags().StringVar(&o.version, "kubernetes", whole.Versions()[0], "version of Kubernetes that is emulated: "+strings.Join(whole.Versions(), ", "))
	c.Flags().StringArrayVar(&o.load, "load", nil,
		"file or directory of manifests that are in the cluster before usher is, such as samples/cluster; may be repeated")
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "print usher's log, and errors of Kubernetes' code")
	suites := flags.AddSuites(c, env.Suites, false, env.Err)
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if o.gates, err = suites.Parsed("api"); err != nil {
			return err
		}
		if o.suites, err = suites.List.Named(o.suiteNames); err != nil {
			return err
		}
		return run(c.Context(), env, o)
	}
	return c
}
