package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/doctor"
	"usher.dev/usher/command/explain"
	"usher.dev/usher/command/installed"
	"usher.dev/usher/command/review"
	"usher.dev/usher/command/webhookmatch"
	"usher.dev/usher/internal/apiserver"
)

// explainOptions are the flags of usher explain.
type explainOptions struct {
	explain.Options
	logs                    []string
	namespace, uid, refusal string
	kind, output            string
	config, service         string
	gates                   gate.Set
	gatesSet                bool // by --feature-gates
	clusterSource           clusterFlags
}

// explainCommand is `usher explain`.
func (p Program) explainCommand() *cobra.Command {
	o := explainOptions{clusterSource: clusterFlags{source: "files"}}
	c := &cobra.Command{Use: "explain [flags] [NAMESPACE/NAME | KIND NAME | MESSAGE | -]",
		Short: "explain who changed an object, why the pods of a workload do not appear, or what a refusal means", Long: explainHelp,
		Example: `  # why do the pods of a Deployment not appear?
  usher explain --cluster=api deployment/web
  # who changed a pod, and who refused it?
  usher explain --audit-log samples/audit/audit.log apps/offensive-web`}
	o.addTo(c.Flags())
	suites := p.addSuiteFlags(c, false)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if o.gates, err = suites.parsed(o.clusterSource.source); err != nil {
			return err
		}
		o.gatesSet = c.Flags().Changed("feature-gates")
		o.Steps, _ = p.Suites.Steps()
		if err := o.check(args); err != nil {
			return err
		}
		return p.explain(c.Context(), o, args)
	}
	return c
}

const explainHelp = `Explain why an object is as it is, or why it does not exist.

With --audit-log FILE, print who changed an object, in which order, from the audit events of the API server: all webhooks, including those
of others. NAMESPACE/NAME or --uid names the object; without either, all requests that create, change or delete are shown.

With --cluster=api, explain why no pods appear: KIND NAME, or KIND/NAME, names the workload, such as deployment/web. The newest failure of its
pods is found and explained, and the pod is reviewed as of now. A plain NAME, or pod NAME, is a pod, or the workload that would create it.

With MESSAGE, explain the text of a refusal, as kubectl or an event shows it; - reads it from standard input. With --audit-log, the requests
that were refused with its id are also listed.

Values of environment variables and annotations, and the data of Secrets, are hidden unless --show-values is set.

The exit code is 0 if all is explained and nothing was refused, 1 if a request was refused or failed, or would be refused now, or the workload is
paused, and 2 if something could not be judged, such as a line that cannot be read.`

func (o *explainOptions) addTo(set *pflag.FlagSet) {
	set.SortFlags = false
	set.StringArrayVar(&o.logs, "audit-log", nil, "file with audit events of the API server, or lines of usher's own audit log, possibly compressed with gzip; - is standard input; may be repeated, for several API servers")
	set.StringVar(&o.uid, "uid", "", "UID of the object whose requests are shown")
	set.StringVar(&o.refusal, "refusal", "", "id of the refusal whose requests are shown, such as 1f0c9a3e: a refusal's message ends with it")
	set.StringVar(&o.kind, "kind", "", "resource or kind of the objects whose requests are shown, such as pods or pods/status")
	set.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the object, or of the requests that are shown (default: for a workload, that of kubectl)")
	set.BoolVar(&o.Blame, "blame", false, "list the fields that webhooks changed, each with its last writer and earlier ones")
	set.BoolVar(&o.Documents, "documents", false, "print the object after each webhook, as far as it is known")
	set.BoolVar(&o.ShowValues, "show-values", false, "show values of environment variables and annotations, and the data of Secrets")
	set.StringVarP(&o.output, "output", "o", "text", "text, json or junit")
	set.StringVar(&o.config, "config", "", "policy file that refusals are explained by (default: with --cluster=api that of the installed usher, else the embedded policy)")
	set.StringVar(&o.service, "service", "usher/usher", "Service of the installed usher, as namespace/name: its Deployment names the policy")
	o.clusterSource.addTo(set)
	o.clusterSource.addStaticTo(set, "with a cluster, ")
}

func (o *explainOptions) check(args []string) error {
	switch {
	case !slices.Contains([]string{"text", "json", "junit"}, o.output):
		return fmt.Errorf("-o %s: must be text, json or junit", o.output)
	case len(args) == 0 && len(o.logs) == 0:
		return errors.New("name an audit log with --audit-log FILE, a workload such as deployment/web with --cluster=api, or the message of a refusal; " +
			"`usher explain --help` has more")
	case len(args) > 2:
		return errors.New("quote the message of a refusal as one argument, or pass - and paste it")
	case slices.Contains(o.logs, "-") && slices.Contains(args, "-"):
		return errors.New("--audit-log=- and - both read standard input: save one of them to a file")
	case len(o.clusterSource.static) > 0 && !o.inCluster():
		return errors.New("--static-dir goes with --cluster=api or --cluster-dir: an audit log alone names no file of the API server")
	}
	return o.clusterSource.check()
}

// inCluster reports whether there is a cluster to ask.
func (o *explainOptions) inCluster() bool {
	return o.clusterSource.source == "api" || o.clusterSource.dir != ""
}

// isMessage reports whether arguments are the text of a refusal, and not the name of an object.
func isMessage(args []string) bool {
	return len(args) == 1 && (args[0] == "-" || strings.ContainsAny(args[0], " \n"))
}

// explain explains what the arguments name.
func (p Program) explain(ctx context.Context, o explainOptions, args []string) error {
	var reports []review.Report
	var err error
	switch {
	case isMessage(args):
		reports, err = p.explainMessage(ctx, o, args[0])
	case len(args) > 0 && o.clusterSource.source == "api":
		reports, err = p.explainWorkload(ctx, o, args)
	default:
		reports, err = p.explainObject(o, args)
	}
	if err != nil {
		return err
	}
	return p.printExplained(o, reports)
}

// explainMessage explains the text of a refusal by the policy, and lists the requests with its id.
func (p Program) explainMessage(ctx context.Context, o explainOptions, text string) ([]review.Report, error) {
	if text == "-" {
		raw, err := io.ReadAll(io.LimitReader(p.In, 1<<20))
		if err != nil {
			return nil, err
		}
		text = string(raw)
	}
	refusals := explain.ParseRefusals(text)
	if len(refusals) == 0 {
		return nil, errors.New(`the text is not that of a refusal: paste the whole line that kubectl, an event or usher prints, such as "admission webhook ... denied the request: ..."`)
	}
	if slices.Contains(o.logs, "-") && len(refusals) > 1 {
		return nil, errors.New("--audit-log=-: the log is read once for each of the refusals; save it to a file")
	}
	if err := o.checkMessage(refusals); err != nil {
		return nil, err
	}
	by, err := p.knownPolicy(ctx, o, refusals)
	if err != nil {
		return nil, err
	}
	return explain.Messages(refusals, by, o.Options, p.requestsOf(o),
		explain.Filter{Namespace: o.namespace, Kind: o.kind, UID: o.uid})
}

// checkMessage returns an error for flags of the audit log that have no effect with a message.
func (o *explainOptions) checkMessage(refusals []explain.Refusal) error {
	withID := slices.ContainsFunc(refusals, func(r explain.Refusal) bool { return r.ID != "" })
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

// knownPolicy returns what refusals are explained by: the policy, which only those of usher need, and the webhooks of the cluster, if
// there is one.
func (p Program) knownPolicy(ctx context.Context, o explainOptions, refusals []explain.Refusal) (by explain.Policy, err error) {
	var source reader.Source
	if o.inCluster() {
		if source, err = o.clusterSource.openSource(); err != nil {
			return by, err
		}
	}
	var policy policyFile
	if o.clusterSource.source == "api" {
		policy, err = p.policyOf(ctx, &o, source)
	} else {
		policy, err = p.readPolicy(o.config)
	}
	switch {
	case err == nil:
		by = p.explainedBy(policy, o.gates)
	case slices.ContainsFunc(refusals, func(r explain.Refusal) bool { return r.By == explain.ByUsher }) || o.config != "":
		return by, fmt.Errorf("the policy could not be read: %w; --config FILE names it, --service the installed usher", err)
	}
	if o.inCluster() {
		by.Hooks = hooksOf(ctx, source)
	}
	return by, nil
}

// hooksOf returns the webhooks of a cluster, as far as they can be read.
func hooksOf(ctx context.Context, source reader.Source) func() []webhookmatch.Hook {
	return func() []webhookmatch.Hook {
		hooks, _ := doctor.Hooks(ctx, source) // without, a command is printed that lists them
		return hooks
	}
}

// explainedBy returns a policy as refusals are explained by it.
func (p Program) explainedBy(policy policyFile, gates gate.Set) explain.Policy {
	return explain.Policy{Policy: policy.Policy, Routes: p.Suites.Table(policy.Policy, gates), Line: policy.line,
		Override: func(o *admit.Override) string { return rowOf(o, time.Now()).text(true) }}
}

// explainWorkload explains why the pods of a workload do not come, or who changed a pod that exists.
func (p Program) explainWorkload(ctx context.Context, o explainOptions, args []string) ([]review.Report, error) {
	from, err := apiserver.LoadConfig(o.clusterSource.kubeconfig, "")
	if err != nil {
		return nil, fmt.Errorf("--cluster=api: %w; pass --kubeconfig FILE", err)
	}
	client, err := apiserver.New(from)
	if err != nil {
		return nil, err
	}
	namespace, err := o.clusterSource.namespaceOr(o.namespace)
	if err != nil {
		return nil, err
	}
	source, err := reader.API(client).WithStatic(o.clusterSource.static...)
	if err != nil {
		return nil, err
	}
	in := explain.Cluster{Options: o.Options, Source: source, Namespace: namespace, Requests: p.requestsOf(o), UID: o.uid}
	in.Policy = func(ctx context.Context) (explain.Policy, error) {
		hooks := hooksOf(ctx, in.Source)
		policy, err := p.policyOf(ctx, &o, in.Source)
		if err != nil {
			return explain.Policy{Hooks: hooks}, err
		}
		by := p.explainedBy(policy, o.gates)
		by.Hooks = hooks
		return by, nil
	}
	in.Review = func(ctx context.Context, workload []byte, policy explain.Policy) ([]review.Report, error) {
		return p.reviewNow(ctx, o, in, policy.Policy, workload)
	}
	return in.Explain(ctx, args)
}

// policyOf returns the policy of --config or of the installed usher, whose gates are used unless --feature-gates is set.
func (p Program) policyOf(ctx context.Context, o *explainOptions, source reader.Source) (policyFile, error) {
	if o.config != "" {
		return p.readPolicy(o.config)
	}
	namespace, name, ok := strings.Cut(o.service, "/")
	if !ok {
		return policyFile{}, fmt.Errorf("--service %s: must be namespace/name", o.service)
	}
	usher, err := installed.Find(ctx, source, namespace, name)
	if err != nil {
		return policyFile{}, err
	}
	policy := policyFile{name: usher.Name, text: usher.Text}
	switch {
	case usher.Name != "":
		err = policy.parse(p.Suites.Schema())
	case usher.Flag("config") != "":
		return policyFile{}, errors.New("the Deployment's --config is not of a ConfigMap")
	default:
		policy, err = p.readPolicy("")
	}
	if gates := usher.Flag("feature-gates"); err == nil && gates != "" && !o.gatesSet {
		o.gates, err = p.Suites.ParseGates(gates)
	}
	return policy, err
}

// explainObject explains an object from the audit log.
func (p Program) explainObject(o explainOptions, args []string) ([]review.Report, error) {
	if len(o.logs) == 0 {
		return nil, errors.New("to explain an object, pass --audit-log FILE with the audit events of the API server, or --cluster=api for a workload without pods")
	}
	filter := explain.Filter{Namespace: o.namespace, UID: o.uid, Refusal: o.refusal, Kind: o.kind}
	switch {
	case len(args) == 2:
		filter.Kind, filter.Name = args[0], args[1]
	case len(args) == 1:
		filter.Name = args[0]
		if namespace, name, found := strings.Cut(args[0], "/"); found {
			filter.Namespace, filter.Name = namespace, name
		}
	}
	return p.requestsOf(o)(filter)
}

// requestsOf returns the search of the audit logs; nil if there are none.
func (p Program) requestsOf(o explainOptions) explain.Requests {
	if len(o.logs) == 0 {
		return nil
	}
	return func(filter explain.Filter) ([]review.Report, error) {
		log := explain.NewLog(filter)
		for _, name := range o.logs {
			if err := p.readLog(log, name); err != nil {
				return nil, err
			}
		}
		return log.Reports(o.Options), nil
	}
}

func (p Program) readLog(log *explain.Log, name string) error {
	in, err := p.openFile(name)
	if err != nil {
		return fmt.Errorf("--audit-log: %w", err)
	}
	defer func() { _ = in.Close() }()
	if name == "-" {
		name = "standard input"
	}
	if err := log.Read(name, in); err != nil {
		return fmt.Errorf("--audit-log: %w", err)
	}
	return nil
}

func (p Program) printExplained(o explainOptions, reports []review.Report) error {
	code := exit(review.ExitOf(reports), "not everything could be judged")
	if o.output != "text" {
		if err := p.printReports(o.output, "usher explain", reports); err != nil {
			return err
		}
		return code
	}
	style := p.style()
	style.Documents = o.Documents
	for i, report := range reports {
		if i > 0 {
			_, _ = fmt.Fprintln(p.Out)
		}
		report.Before, report.After = nil, nil // the steps say what changes
		review.Text(p.Out, report, style)
	}
	return code
}
