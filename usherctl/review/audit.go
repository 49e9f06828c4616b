package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/tool"
)

// AuditLogs says which audit logs are reviewed, and how: usherctl review --audit-log.
type AuditLogs struct {
	Files       []string
	Config, Was string // files of the policies; Was "": the new one is compared with what the logs have
	Suites      []string
	Gates       gate.Set
	Cluster     suite.Source
	Namespaces  Namespaces
	Output      string // text or json
	Strict      bool
}

// LogReviewer reviews the requests of audit logs: package replay, which stands on explain, and that on this package.
type LogReviewer func(context.Context, tool.Env, AuditLogs) error

// Namespaces are the Namespaces that files have, with their labels.
type Namespaces map[string]labels.Set

// NotCalled returns a function that returns why the shipped webhook configurations keep a request from a route, or "". Namespaces that are not
// known count as selected.
func (n Namespaces) NotCalled(routes []admit.Route) func(admit.Route, *admit.Request) string {
	return unregistered{registered: webhooks.OneAmplifier(routes), labels: n}.why
}

// withLogs are the flags that go with --audit-log, beside those of the suites.
var withLogs = []string{"audit-log", "was", "config", "suite", "feature-gates", "cluster-dir", "output", "strict"}

// reviewLogs reviews the requests of audit logs.
func (o *options) reviewLogs(ctx context.Context, env tool.Env, set *pflag.FlagSet, review LogReviewer) error {
	var wrong error
	set.Visit(func(f *pflag.Flag) {
		if !slices.Contains(withLogs, f.Name) && cli.SuiteOf(f) == "" {
			wrong = fmt.Errorf("--%s does not go with --audit-log", f.Name)
		}
	})
	switch {
	case wrong != nil:
		return wrong
	case len(o.Files) > 0:
		return fmt.Errorf("%s: with --audit-log, no other files are reviewed; --cluster-dir has what counts as stored", o.Files[0])
	case o.config == "":
		return errors.New("--audit-log: --config names the policy under which its requests are reviewed")
	case o.output != "text" && o.output != "json":
		return fmt.Errorf("-o %s: with --audit-log, must be text or json", o.output)
	}
	known, err := namespaceLabels(o.clusterSource.Dir, nil)
	if err != nil {
		return err
	}
	run := reviewing{Env: env, o: *o}
	if err := run.readDir(); err != nil {
		return err
	}
	err = review(ctx, env, AuditLogs{Files: o.logs, Config: o.config, Was: o.was, Suites: o.suites, Gates: o.gates, Cluster: o.clusterSource.From(),
		Namespaces: known, Output: o.output, Strict: o.strict})
	return cmp.Or(err, run.slipped())
}
