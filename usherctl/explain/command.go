package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/command/flags"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/tool"
)

// options are the flags of usherctl explain.
type options struct {
	Options
	logs                    []string
	namespace, uid, refusal string
	kind, output            string
	config, service         string
	gates                   gate.Set
	gatesSet                bool // by --feature-gates
	clusterSource           flags.Cluster
}

// Command is `usherctl explain`.
func Command(env tool.Env) *cobra.Command {
	o := options{clusterSource: flags.Cluster{Source: "files"}}
	c := &cobra.Command{Use: "explain [flags] [NAMESPACE/NAME | KIND NAME | MESSAGE | -]",
		Short: "explain who changed an object, why the pods of a workload do not appear, or what a refusal means", Long: help,
		Example: `  # why do the pods of a Deployment not appear?
  usherctl explain --cluster=api deployment/web
  # who changed a pod, and who refused it?
  usherctl explain --audit-log samples/audit/audit.log apps/offensive-web`}
	o.addTo(c.Flags())
	suites := flags.AddSuites(c, env.Suites, false, env.Err)
	env.Suites = suites.List
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if o.gates, err = suites.Parsed(o.clusterSource.Source); err != nil {
			return err
		}
		o.gatesSet = c.Flags().Changed("feature-gates")
		o.Steps, _ = env.Suites.Steps()
		if err := o.check(args); err != nil {
			return err
		}
		return run(c.Context(), env, o, args)
	}
	return c
}

const help = `Explain why an object is as it is, or why it does not exist.

With --audit-log FILE, print who changed an object, in which order, from the audit events of the API server: all webhooks, including those
of others. NAMESPACE/NAME or --uid names the object; without either, all requests that create, change or delete are shown.

With --cluster=api, explain why no pods appear: KIND NAME, or KIND/NAME, names the workload, such as deployment/web. The newest failure of its
pods is found and explained, and the pod is reviewed as of now. A plain NAME, or pod NAME, is a pod, or the workload that would create it.

With MESSAGE, explain the text of a refusal, as kubectl or an event shows it; - reads it from standard input. With --audit-log, the requests
that were refused with its id are also listed.

Values of environment variables and annotations, and the data of Secrets, are hidden unless --show-values is set.

The exit code is 0 if all is explained and nothing was refused, 1 if a request was refused or failed, or would be refused now, or the workload is
paused, and 2 if something could not be judged, such as a line that cannot be read.`

func (o *options) addTo(set *pflag.FlagSet) {
	set.SortFlags = false
	set.StringArrayVar(&o.logs, "audit-log", nil, "file with audit events of the API server, or lines of usher's own audit log, possibly compressed "+
		"with gzip; - is standard input; may be repeated, for several API servers")
	set.StringVar(&o.uid, "uid", "", "UID of the object whose requests are shown")
	set.StringVar(&o.refusal, "refusal", "", "id of the refusal whose requests are shown, such as 1f0c9a3e: a refusal's message ends with it")
	set.StringVar(&o.kind, "kind", "", "resource or kind of the objects whose requests are shown, such as pods or pods/status")
	set.StringVarP(&o.namespace, "namespace", "n", "",
		"namespace of the object, or of the requests that are shown (default: for a workload, that of kubectl)")
	set.BoolVar(&o.Blame, "blame", false, "list the fields that webhooks changed, each with its last writer and earlier ones")
	set.BoolVar(&o.Documents, "documents", false, "print the object after each webhook, as far as it is known")
	set.BoolVar(&o.ShowValues, "show-values", false, "show values of environment variables and annotations, and the data of Secrets")
	set.StringVarP(&o.output, "output", "o", "text", "text, json or junit")
	set.StringVar(&o.config, "config", "", "policy file that refusals are explained by (default: with --cluster=api that of the installed usher, "+
		"else the embedded policy)")
	set.StringVar(&o.service, "service", "usher/usher", "Service of the installed usher, as namespace/name: its Deployment names the policy")
	o.clusterSource.AddTo(set)
	o.clusterSource.AddStaticTo(set, "with a cluster, ")
}

func (o *options) check(args []string) error {
	switch {
	case !slices.Contains([]string{"text", "json", "junit"}, o.output):
		return fmt.Errorf("-o %s: must be text, json or junit", o.output)
	case len(args) == 0 && len(o.logs) == 0:
		return errors.New("name an audit log with --audit-log FILE, a workload such as deployment/web with --cluster=api, or the message of a refusal; " +
			"`usherctl explain --help` has more")
	case len(args) > 2:
		return errors.New("quote the message of a refusal as one argument, or pass - and paste it")
	case slices.Contains(o.logs, "-") && slices.Contains(args, "-"):
		return errors.New("--audit-log=- and - both read standard input: save one of them to a file")
	case len(o.clusterSource.Static) > 0 && !o.inCluster():
		return errors.New("--static-dir goes with --cluster=api or --cluster-dir: an audit log alone names no file of the API server")
	}
	return o.clusterSource.Check()
}

// inCluster reports whether there is a cluster to ask.
func (o *options) inCluster() bool {
	return o.clusterSource.Source == "api" || o.clusterSource.Dir != ""
}

// run explains what the arguments name.
func run(ctx context.Context, env tool.Env, o options, args []string) error {
	var reports []report.Report
	var err error
	switch {
	case len(args) == 1 && (args[0] == "-" || strings.ContainsAny(args[0], " \n")): // the text of a refusal, not the name of an object
		reports, err = explainMessage(ctx, env, o, args[0])
	case len(args) > 0 && o.clusterSource.Source == "api":
		reports, err = explainWorkload(ctx, env, o, args)
	default:
		reports, err = explainObject(env, o, args)
	}
	if err != nil {
		return err
	}
	return printExplained(env, o, reports)
}

// printExplained prints the reports. The error, if any, ends the command with their exit code.
func printExplained(env tool.Env, o options, reports []report.Report) error {
	code := report.ExitOf(reports).Err("not everything could be judged")
	if o.output != "text" {
		if err := report.Write(env.Out, o.output, "usherctl explain", slices.Values(reports)); err != nil {
			return err
		}
		return code
	}
	style := env.Style()
	style.Documents = o.Documents
	for i, result := range reports {
		if i > 0 {
			_, _ = fmt.Fprintln(env.Out)
		}
		result.Before, result.After = nil, nil // the steps say what changes
		report.Text(env.Out, result, style)
	}
	return code
}

// explainMessage explains the text of a refusal by the policy, and lists the requests with its id.
func explainMessage(ctx context.Context, env tool.Env, o options, text string) ([]report.Report, error) {
	if text == "-" {
		raw, err := io.ReadAll(io.LimitReader(env.In, 1<<20))
		if err != nil {
			return nil, err
		}
		text = string(raw)
	}
	refusals := ParseRefusals(text)
	if len(refusals) == 0 {
		return nil, errors.New(`the text is not that of a refusal: paste the whole line that kubectl, an event or usher prints, such as "admission ` +
			`webhook ... denied the request: ..."`)
	}
	if slices.Contains(o.logs, "-") && len(refusals) > 1 {
		return nil, errors.New("--audit-log=-: the log is read once for each of the refusals; save it to a file")
	}
	if err := o.checkMessage(refusals); err != nil {
		return nil, err
	}
	by, err := knownPolicy(ctx, env, o, refusals)
	if err != nil {
		return nil, err
	}
	return Messages(refusals, by, o.Options, requestsOf(env, o),
		Filter{Namespace: o.namespace, Kind: o.kind, UID: o.uid})
}

// checkMessage returns an error for flags of the audit log that have no effect with a message.
func (o *options) checkMessage(refusals []Refusal) error {
	withID := slices.ContainsFunc(refusals, func(r Refusal) bool { return r.ID != "" })
	switch {
	case o.refusal != "":
		return fmt.Errorf("--refusal %s: the message names a refusal, too: "+
			"leave out --refusal to have the message explained, or the message to list requests", o.refusal)
	case len(o.logs) > 0 && !withID:
		return errors.New("--audit-log: the message has no id of a refusal by usher, by which requests are found: " +
			"leave out --audit-log to have the message explained, or the message to list requests")
	case len(o.logs) == 0 && (o.namespace+o.uid+o.kind != "" || o.Blame || o.Documents):
		return errors.New("-n, --uid, --kind, --blame and --documents go with --audit-log: leave them out, or name the log")
	}
	return nil
}
