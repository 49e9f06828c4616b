package command

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"usher.dev/usher/command/saved"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/internal/wholefile"
)

// webhooksSaveCommand is `usher webhooks save`.
func (p Program) webhooksSaveCommand() *cobra.Command {
	var o reachFlags
	var out string
	c := &cobra.Command{Use: "save [flags]", Args: noArgs,
		Short: "save all webhook configurations and admission policies of a cluster to a file, for a bad day",
		Example: `  # of the cluster that kubectl uses
  usher webhooks save --out admission.yaml`,
		Long: `Save all webhook configurations and admission policies of a cluster to a file, including those of others, with their bindings and without
the fields that the API server sets. Objects that a policy reads as parameters are not saved. usher webhooks restore puts back what is missing.`}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does, or as a pod of the cluster)")
	c.Flags().StringVar(&out, "out", "", "file to write (default: standard output)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, host, err := o.client()
		if err != nil {
			return err
		}
		all, err := saved.Read(c.Context(), client)
		if err != nil {
			return err
		}
		text, err := saved.YAML(all)
		if err != nil {
			return err
		}
		if out == "" {
			_, err = p.Out.Write(text)
			return err
		}
		if err := wholefile.Write(out, text, 0o600); err != nil {
			return err
		}
		p.say(fmt.Sprintf("%s: %d objects of %s", out, len(all), host))
		return nil
	}
	return c
}

// webhooksRestoreCommand is `usher webhooks restore`.
func (p Program) webhooksRestoreCommand() *cobra.Command {
	var o reachFlags
	var force, dryRun bool
	c := &cobra.Command{Use: "restore [flags] FILE", Args: cobra.ExactArgs(1),
		Short: "restore what is missing from the cluster, from a file of usher webhooks save",
		Example: `  # what is missing?
  usher webhooks restore --dry-run admission.yaml`,
		Long: `Restore what is missing from the cluster, from a file of usher webhooks save: show it, ask, and create it. Without --force, objects that differ
are left alone, and a webhook with failurePolicy Fail whose Service has no ready endpoint is not restored: requests would be refused. A
registered caBundle is never replaced.

The exit code is 0 if nothing in the file is missing or different any more, 1 if the answer was no, if --dry-run finds anything to change, or if
something was left out, and 2 for an error.`}
	c.Flags().SortFlags = false
	o.addTo(c.Flags())
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would change; the exit code is 1 if anything would")
	c.Flags().BoolVar(&force, "force", false, "also replace objects that differ, and restore webhooks that nothing answers")
	c.RunE = func(c *cobra.Command, args []string) error {
		content, err := os.ReadFile(args[0])
		if err != nil {
			return err
		}
		all, err := saved.Parse(args[0], content)
		if err != nil {
			return err
		}
		client, host, err := o.client()
		if err != nil {
			return err
		}
		plan, err := saved.Compare(c.Context(), client, all, force)
		if err != nil {
			return err
		}
		return p.restore(c.Context(), client, plan, dryRun, o.yes, host)
	}
	return c
}

// restore shows a plan, asks, and carries it out.
func (p Program) restore(ctx context.Context, client apiserver.Client, plan saved.Plan, dryRun, yes bool, host string) error {
	p.say(plan.Changes...)
	p.say(plan.Left...)
	if len(plan.Left) > 0 {
		p.say("to restore these, too: the same command with --force")
	}
	switch {
	case len(plan.Changes) == 0 && len(plan.Left) == 0:
		p.say("nothing to do: nothing is missing, and nothing differs")
		return nil
	case len(plan.Changes) == 0 || dryRun:
		return errDenied
	}
	if err := p.confirm(yes, "Restore this at "+host+"?"); err != nil {
		return err
	}
	if err := plan.Restore(ctx, client); err != nil {
		return err
	}
	p.say(fmt.Sprintf("restored: %d objects", len(plan.Changes)))
	if len(plan.Left) > 0 {
		return errDenied
	}
	return nil
}
