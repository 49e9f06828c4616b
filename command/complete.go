package command

import (
	"github.com/spf13/cobra"

	"usher.dev/usher/command/flags"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/callers"
	"usher.dev/usher/server/webhooks"
)

// completion says how a shell completes the values of flags.
func (p Program) completion() cli.Completion {
	return cli.Completion{Flags: map[string]cobra.CompletionFunc{
		"suite": cli.Values(p.Suites.Names()...), "fail-open": flags.CompletePaths(p.Suites), "fail-closed": flags.CompletePaths(p.Suites),
		"feature-gates": flags.CompleteGates(p.Suites), "require-sections": flags.CompleteSections(p.Suites),
		"exclude-namespace": flags.CompleteNamespaces,
		"cluster":           cli.Values("files", "api"), "certs": cli.Values("local", "managed"), "log-format": cli.Values("auto", "json", "text"),
		"auth": cli.Values(callers.Off, callers.Log, callers.Enforce), "inject": cli.Values(webhooks.CertManager, webhooks.OpenShift),
		"config": cli.Manifests, "compare": cli.Manifests,
		"cluster-dir": cli.Directories, "out": cli.Directories, "state-dir": cli.Directories, "cert-dir": cli.Directories, "static-dir": cli.Directories,
	}, Outputs: map[string]cobra.CompletionFunc{"init": cli.Values("files", "secret")}}
}
