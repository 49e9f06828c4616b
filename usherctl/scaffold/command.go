package scaffold

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/usherctl/tool"
)

const help = `Write a new step of the core suite into a checkout: the step, its test, its line in the list and a sample, ready to compile. The step
is about a label until you write it; what there is to write is marked TODO. Then make golden writes the goldens.

With --section the step has settings in the policy file, and does nothing without them: make golden STEP=NAME writes its goldens, in
seconds. Without, it runs for every pod, and may change the goldens of all samples.`

// options are the flags of usherctl new step.
type options struct {
	dir                          string
	section, validator, noGolden bool
}

// Command is `usherctl new`, which has the commands step and webhook.
func Command(env tool.Env) *cobra.Command {
	var o options
	c := &cobra.Command{Use: "new", Short: "write a new step into a checkout, or a webhook of your own", Args: cli.NoArgs,
		Example: "  # a mutator with settings\n  usherctl new step team-label --section --no-golden",
		RunE: func(*cobra.Command, []string) error {
			return errors.New("usage: usherctl new step NAME, or usherctl new webhook DIR; `usherctl new step --help` lists the flags")
		}}
	step := &cobra.Command{Use: "step NAME", Short: "write a mutator or validator, with its test, sample and section", Long: help,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		Example: `  # a validator of pods, with settings; without --no-golden its goldens are written, too
  usherctl new step host-names --validator --section --no-golden`,
		RunE: func(c *cobra.Command, names []string) error { return run(env, c, o, names[0]) }}
	step.Flags().SortFlags = false
	step.Flags().BoolVar(&o.section, "section", false, "give it settings, in a section of the policy file")
	step.Flags().BoolVar(&o.validator, "validator", false, "write a validator (default: a mutator)")
	step.Flags().StringVar(&o.dir, "dir", ".", "root of the checkout")
	step.Flags().BoolVar(&o.noGolden, "no-golden", false, "do not run make golden")
	c.AddCommand(step, WebhookCommand(env.Say))
	return c
}

// run writes a step, and then the goldens.
func run(env tool.Env, c *cobra.Command, o options, name string) error {
	if steps, _ := env.Suites.Steps(); slices.Contains(steps, name) {
		return fmt.Errorf("there is a step %s: choose another name", name)
	}
	step, err := New(o.dir, name, o.section, o.validator)
	if err != nil {
		return err
	}
	if o.section && slices.Contains(env.Suites.Schema().Names(), step.Key()) {
		return fmt.Errorf("the policy has a section %s: choose another name", step.Key())
	}
	files, err := step.Write(o.dir)
	if err != nil {
		return err
	}
	env.Say(files...)
	golden := []string{"golden"}
	if o.section {
		golden = append(golden, "STEP="+name)
	}
	goldens := "make " + strings.Join(golden, " ")
	if !o.noGolden {
		env.Say(goldens + ": compiles the step and writes its goldens")
		run := exec.CommandContext(c.Context(), "make", append([]string{"-C", o.dir}, golden...)...)
		run.Stdout, run.Stderr = env.Err, env.Err
		if err := run.Run(); err != nil {
			return fmt.Errorf("%s: %w", goldens, err)
		}
	}
	env.Say("Now fill in what is marked TODO, run " + goldens + ", and read its diff; docs/writing-a-step.md explains it.")
	return nil
}
