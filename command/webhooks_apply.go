package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/flags"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server"
	"usher.dev/usher/server/installed"
	"usher.dev/usher/server/webhooks"
)

// applyOptions are the flags of usher webhooks apply.
type applyOptions struct {
	registrationFlags
	reachFlags
	force, dryRun bool
	asInstalled   bool
	named         []string // of the suites, by --suite
	wait          time.Duration
	awaited       bool // whether a dry run waits, too
}

// reachFlags say how the API server is reached, and whether a person is asked.
type reachFlags struct {
	kubeconfig string
	yes        bool
}

func (o *reachFlags) addTo(set *pflag.FlagSet) {
	set.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does, or as a pod of the cluster)")
	set.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
}

// client returns a client, and the address of its API server for a person to look at.
func (o *reachFlags) client() (c apiserver.Client, host string, err error) {
	config, err := apiserver.LoadConfig(o.kubeconfig, "")
	if err != nil {
		return c, "", fmt.Errorf("no API server: %w; pass --kubeconfig FILE, or set KUBECONFIG", err)
	}
	c, err = apiserver.New(config)
	return c, config.Host, err
}

// webhooksApplyCommand is `usher webhooks apply`.
func (p Program) webhooksApplyCommand() *cobra.Command {
	var o applyOptions
	c := &cobra.Command{Use: "apply [flags]", Args: cli.NoArgs, Example: `  # what would change?
  usher webhooks apply --dry-run
  # a first stage, which refuses nothing while usher is unavailable
  usher webhooks apply --fail-open all`,
		Short: "register usher at an API server: show what changes, ask, and apply it once a replica is ready",
		Long: `Register usher at an API server: show what changes, ask, and apply it once a replica is ready.

The configurations are applied by server-side apply. What other writers have set in usher's entries stays, and is
reported if it differs from what usher needs, or leaves out more requests. Entries that usher no longer needs are removed.

With --as-installed, the suites are those with at least one registered path, the policy and the feature gates are those of usher's Deployment, and
what was chosen when usher was registered stays: failurePolicy Ignore, timeouts, excluded namespaces, a URL, who fills in the caBundle. Any
other difference from what usher needs is undone, no matter who made it. What was added to selectors and conditions stays, and is named.

The exit code is 0 if what is needed is registered, 1 if the answer was no, if --dry-run finds anything to change, or if
fields of other writers still differ, and 2 for an error.`}
	c.Flags().SortFlags = false
	o.reachFlags.addTo(c.Flags())
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only show what would change; the exit code is 1 if anything would")
	c.Flags().DurationVar(&o.wait, "wait", 2*time.Minute, "how long to wait for a ready replica, and for a caBundle that a controller fills in; "+
		"if given with --dry-run: also wait for a ready replica if nothing would change")
	c.Flags().BoolVar(&o.force, "force-conflicts", false,
		"take over the fields of usher's entries that other writers have set, and a registration of another Service")
	c.Flags().BoolVar(&o.asInstalled, "as-installed", false,
		"restore what is registered, with the policy of usher's Deployment, and keep what was chosen at its registration")
	o.registrationFlags.addTo(c.Flags(), p.Suites, "ca.crt of the Secret usher-tls in the Service's namespace, or else what is registered")
	suites := flags.AddSuites(c, p.Suites, false, p.Err)
	p.Suites = suites.List
	for _, choice := range []string{"url", "inject", "exclude-namespace", "exclude-pods", "skip-kubelets", "fail-open", "fail-closed"} {
		c.MarkFlagsMutuallyExclusive("as-installed", choice)
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		gates, err := suites.Parsed("files")
		if err != nil {
			return err
		}
		o.awaited = o.dryRun && c.Flags().Changed("wait")
		if c.Flags().Changed("suite") {
			o.named = o.suites
		}
		return p.applyWebhooks(c.Context(), o, gates, c.Flags().Changed("feature-gates"))
	}
	return c
}

// applyWebhooks registers the routes. If another writer interferes, it begins again.
func (p Program) applyWebhooks(ctx context.Context, o applyOptions, gates gate.Set, gatesSet bool) error {
	r := webhooks.Registrar{Force: o.force}
	var err error
	if r.Routes, r.At, err = p.needed(o.registrationFlags, gates); err != nil {
		return err
	}
	var host string
	if r.Client, host, err = o.client(); err != nil {
		return err
	}
	if o.asInstalled {
		if r, err = p.asInstalled(ctx, r, o, gates, gatesSet); err != nil {
			return err
		}
	}
	for range 5 {
		if err = p.applyOnce(ctx, r, o, host); !errors.Is(err, webhooks.ErrChanged) {
			return err
		}
		p.streams().Say("the registration was changed at the same time: reading it again")
	}
	return err
}

// asInstalled returns a registrar that restores what is registered.
func (p Program) asInstalled(ctx context.Context, r webhooks.Registrar, o applyOptions, gates gate.Set, gatesSet bool) (webhooks.Registrar, error) {
	in, err := installed.Of(ctx, reader.API(r.Client), p.Suites, r.At, o.config, gates, gatesSet)
	if err = errors.Join(err, in.Unusable, in.Unknown); err != nil {
		return r, fmt.Errorf("--as-installed: what usher's policy needs is unknown: %w", err)
	}
	return r.AsInstalled(ctx, func(registered []string) []admit.Route {
		return webhooks.OneAmplifier(server.RegisteredRoutes(in.Instance, o.named, registered))
	})
}

func (p Program) applyOnce(ctx context.Context, r webhooks.Registrar, o applyOptions, host string) error {
	plan, err := r.Plan(ctx)
	if err != nil {
		return err
	}
	if len(plan.Changes) == 0 {
		done := "nothing to do: what is registered is what is needed"
		if len(plan.Kept) > 0 {
			done += ", apart from what others have added"
		}
		p.streams().Say(done)
		p.sayKept(plan.Kept, r.At)
		if err := p.sayLeft(plan.Left); err != nil || !o.awaited {
			return err
		}
		return r.Await(ctx, o.wait, func(line string) { p.streams().Say(line) })
	}
	p.streams().Say(plan.Changes...)
	if o.dryRun {
		p.sayKept(plan.Kept, r.At)
		p.streams().Say(plan.Left...)
		return cli.ErrDenied
	}
	if err := p.streams().Confirm(o.yes, "Register this at "+host+"?"); err != nil {
		return err
	}
	if err := r.Await(ctx, o.wait, func(line string) { p.streams().Say(line) }); err != nil {
		return fmt.Errorf("%w; nothing was registered", err)
	}
	shown := plan.Changes
	if plan, err = r.Plan(ctx); err != nil { // the replicas may have created their certificate meanwhile
		return err
	}
	p.streams().Say(slices.DeleteFunc(slices.Clone(plan.Changes), func(line string) bool { return slices.Contains(shown, line) })...)
	if err := r.Claim(ctx); err != nil {
		return err
	}
	if err := r.Apply(ctx, plan, o.wait, func(line string) { p.streams().Say(line) }); err != nil {
		return err
	}
	p.streams().Say("registered")
	p.sayKept(plan.Kept, r.At)
	return p.sayLeft(plan.Left)
}

// sayKept reports what others have added, and the command that says what it does and how to undo it.
func (p Program) sayKept(kept []string, at webhooks.Address) {
	if len(kept) > 0 {
		p.streams().Say(kept...)
		p.streams().Say("what that means, and the command that undoes it: usherctl doctor --service " + at.Namespace + "/" + at.Service)
	}
}

// sayLeft reports what others have set in another way, and ends the command with exit code 1 if there is any.
func (p Program) sayLeft(left []string) error {
	if len(left) == 0 {
		return nil
	}
	p.streams().Say(left...)
	p.streams().Say("to take these fields over: usher webhooks apply --force-conflicts, with the same flags")
	return cli.ErrDenied
}

// webhooksRemoveCommand is `usher webhooks remove`.
func (p Program) webhooksRemoveCommand() *cobra.Command {
	var o reachFlags
	c := &cobra.Command{Use: "remove [flags]", Args: cli.NoArgs,
		Short: "remove usher's webhook configurations from an API server: before usher itself is removed",
		Example: `  # without a question
  usher webhooks remove --yes`}
	c.Flags().SortFlags = false
	o.addTo(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, host, err := o.client()
		if err != nil {
			return err
		}
		if others, _ := webhooks.Others(c.Context(), client); len(others) > 0 { // the right to read them may be missing
			p.streams().Say("entries that are not usher's are removed with them: " + strings.Join(others, ", "))
		}
		question := "Remove both webhook configurations named usher from " + host + ", so that it no longer calls usher?"
		if err := p.streams().Confirm(o.yes, question); err != nil {
			return err
		}
		gone, err := webhooks.Remove(c.Context(), client)
		for _, kind := range gone {
			p.streams().Say("removed: " + kind + " " + webhooks.Name)
		}
		if err == nil && len(gone) == 0 {
			p.streams().Say("nothing to do: usher is not registered")
		}
		return err
	}
	return c
}
