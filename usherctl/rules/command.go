// Package rules is `usherctl rules`: it writes the rules of a policy as policies of the API server.
package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/usherctl/policyfile"
	"usher.dev/usher/usherctl/tool"
)

const help = `Print the policy's rules as ValidatingAdmissionPolicies and their bindings, for kubectl apply: an API server then judges without usher.

The bindings select what usher's webhook is called for; mode warn becomes Warn, dryrun becomes Audit. A policy of the API server reports its first
violation only, and no field. It also judges what usher's webhook leaves out: requests of usher's own ServiceAccount, and exemptions of Namespaces
by administrators. What cannot be exported, such as a rule that overrides are about, is named with the reason, in comments and on standard error, and
the exit code is 2. Kubernetes' own code checks what is printed.`

// Command is `usherctl rules`.
func Command(env tool.Env) *cobra.Command {
	const example = "  # as policies, for kubectl apply\n  usherctl rules export --config samples/policies/rules.yaml"
	file := ""
	export := &cobra.Command{Use: "export [flags]", Short: "print the rules of a policy as ValidatingAdmissionPolicies", Long: help, Args: cli.NoArgs,
		Example: example, RunE: func(c *cobra.Command, _ []string) error { return export(c.Context(), env, file) }}
	export.Flags().StringVar(&file, "config", "", "policy file (default: the embedded policy)")
	c := &cobra.Command{Use: "rules", Short: "export the policy's rules as policies of the API server", Long: help, Args: cli.NoArgs, Example: example,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(export)
	return c
}

// export prints what the rules of a policy file become.
func export(ctx context.Context, env tool.Env, file string) error {
	policy, err := policyfile.Load(ctx, file, env.Suites.Schema())
	if err != nil {
		return err
	}
	env.WarnOfPolicy(cmp.Or(file, "embedded default"), policy)
	all, err := Of(ctx, env.Suites, policy)
	switch {
	case err != nil:
		return err
	case len(all) == 0:
		return fmt.Errorf("the policy %s has no rules", cmp.Or(file, "embedded default"))
	}
	left := false
	for _, rule := range all {
		if rule.Why != "" {
			left = true
			text := printable.Line(fmt.Sprintf("rule %s is not exported: %s", rule.Name, rule.Why))
			_, _ = fmt.Fprintf(env.Out, "---\n# %s\n", text)
			_, _ = fmt.Fprintf(env.Err, "warning: %s\n", text)
		}
		for _, object := range rule.Objects {
			if _, err := fmt.Fprintf(env.Out, "---\n%s", printable.Lines(string(object))); err != nil {
				return err
			}
		}
	}
	if left {
		return errors.New("not every rule could be exported")
	}
	return nil
}
