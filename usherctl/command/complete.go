package command

import (
	"github.com/spf13/cobra"

	"usher.dev/usher/command/flags"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/usherctl/learn"
	"usher.dev/usher/usherctl/steps"
	"usher.dev/usher/usherctl/tool"
)

// completion says how a shell completes the values of flags, and the arguments of commands.
func completion(env tool.Env) cli.Completion {
	values := map[string]cobra.CompletionFunc{
		"suite": cli.Values(env.Suites.Names()...), "path": flags.CompletePaths(env.Suites), "feature-gates": flags.CompleteGates(env.Suites),
		"namespace": flags.CompleteNamespaces,
		"output":    cli.Values("text", "json", "junit"), "operation": cli.Values("CREATE", "UPDATE", "DELETE", "CONNECT"),
		"cluster": cli.Values("files", "api"), "type": cli.Values("mutating", "validating"), "sample": cli.Manifests, "ca-file": cli.Manifests,
		"config": cli.Manifests, "filename": cli.Manifests, "old": cli.Manifests,
		"cluster-dir": cli.Directories, "dir": cli.Directories, "export": cli.Directories, "static-dir": cli.Directories,
	}
	outputs := map[string]cobra.CompletionFunc{
		"review": cli.Values("text", "patch", "json", "junit", "review"), "steps": cli.Values("text", "json"),
	}
	arguments := map[string]cobra.CompletionFunc{
		"review": cli.Manifests, "doctor": cli.Manifests, "test": cli.Directories, "steps": steps.Complete(env.Suites),
		"learn": learn.Complete, "check": learn.Complete, "hint": learn.Complete, "reset": learn.Complete, "solution": learn.Complete,
	}
	return cli.Completion{Flags: values, Outputs: outputs, Arguments: arguments}
}
