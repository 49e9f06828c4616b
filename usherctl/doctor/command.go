package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/flags"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/live"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/tool"
)

// options are the flags of usherctl doctor.
type options struct {
	requests.Flags
	output, service string
	list            bool
	clusterSource   flags.Cluster
	examine         examineFlags
	gates           gate.Set
	gatesSet        bool
	apply           string // see applyCommand
	canary, yes     bool
	asSet           bool // flags name the user
}

const help = `Examine all webhook configurations of a cluster, including those of others.

With FILE, a manifest or an AdmissionReview, say for each webhook whether the API server would call it for that object, and if not, which
filter keeps the object away from it. Without --operation, a manifest of an object that the cluster has is the update that kubectl apply would
send. For a Deployment, or another object with a pod template, the pod that its controller would create is examined too.

With --canary, send the creation of a Pod, or of the objects of FILE, as a dry run, and say which webhooks of usher have answered. It asks
first. Nothing is stored, but the webhooks of others are also called.

Without --canary, the command only reads. It waits at most 5 s for an answer.

The exit code is 0 if there is nothing to report, 1 if there is a finding, and 2 if something could not be read or determined.`

// Command is `usherctl doctor`.
func Command(env tool.Env) *cobra.Command {
	o := options{clusterSource: flags.Cluster{Source: "api"}}
	c := &cobra.Command{Use: "doctor [flags] [FILE...]", Short: "find out what is wrong with webhook configurations, and why a webhook is not called",
		Long: help, Example: `  # what is wrong with the webhooks of the cluster that kubectl uses?
  usherctl doctor
  # would a webhook be called for these objects, and if not, why?
  usherctl doctor samples/manifests/labels.yaml --cluster-dir samples/cluster
  # is usher really called for a new pod? (asks, then sends a dry run)
  usherctl doctor --canary -n shop`}
	o.addTo(c.Flags())
	o.examine.addTo(c.Flags(), env.Suites)
	suites := flags.AddSuites(c, env.Suites, false, env.Err)
	env.Suites = suites.List
	c.RunE = func(c *cobra.Command, files []string) (err error) {
		if o.gates, err = suites.Parsed("files"); err != nil {
			return err
		}
		o.apply = applyCommand(c.Flags())
		o.gatesSet = c.Flags().Changed("feature-gates")
		o.asSet = c.Flags().Changed("as") || c.Flags().Changed("as-group")
		o.Files = append(o.Files, files...)
		if o.clusterSource.Dir != "" && !c.Flags().Changed("cluster") {
			o.clusterSource.Source = "files"
		}
		if err := o.Parse(env.Streams, c.Flags()); err != nil {
			return err
		}
		if err := cmp.Or(o.check(), o.checkCanary(c.Flags())); err != nil {
			return err
		}
		return run(c.Context(), env, o)
	}
	return c
}

func (o *options) addTo(set *pflag.FlagSet) {
	set.SortFlags = false
	o.AddFilesTo(set, "examine")
	set.StringVarP(&o.output, "output", "o", "text", "text, json or junit")
	set.BoolVar(&o.list, "list", false, "print the name, the worst severity and the meaning of each finding, as text or json, and examine nothing")
	set.BoolVar(&o.canary, "canary", false, "send a dry run that shows whether usher is called: the creation of a Pod in the "+
		"namespace of -n, or of FILE")
	set.BoolVarP(&o.yes, "yes", "y", false, "with --canary: do not ask")
	o.Flags.AddTo(set, "examine")
	set.Lookup("as").Usage = requests.AsUsage + " (with --cluster=api the default is the user of the kubeconfig)"
	set.StringVar(&o.service, "service", "usher/usher", "Service of usher, as namespace/name")
	o.clusterSource.AddTo(set)
	o.clusterSource.AddStaticTo(set, "")
}

func (o *options) check() error {
	if !slices.Contains([]string{"text", "json", "junit"}, o.output) {
		return fmt.Errorf("-o %s: must be text, json or junit", o.output)
	}
	if o.list && (len(o.Files) > 0 || o.output == "junit") {
		return errors.New("--list takes no files, and prints text or json")
	}
	if len(o.Templates) > 0 && len(o.Files) == 0 {
		return errors.New("--template-path goes with files: name the files of the custom resources, or leave it out")
	}
	return o.clusterSource.Check()
}

// run examines the cluster, or what it does with some objects.
func run(ctx context.Context, env tool.Env, o options) error {
	if o.list {
		return printChecks(env, o.output)
	}
	examine := examineCluster
	ofObjects := len(o.Files) > 0 || o.canary
	switch {
	case o.canary:
		examine = sendCanaries
	case ofObjects:
		examine = examineRequests
	}
	reports, err := examine(ctx, env, o)
	if err != nil {
		return err
	}
	reports = append(reports, slipsIn(env, o.clusterSource)...)
	switch {
	case o.output != "text":
		if err := report.Write(env.Out, o.output, "usherctl doctor", slices.Values(reports)); err != nil {
			return err
		}
	case ofObjects:
		for _, result := range reports {
			report.Text(env.Out, result, env.Style())
			_, _ = fmt.Fprintln(env.Out)
		}
	default:
		report.Findings(env.Out, reports, env.Style())
		for _, r := range reports {
			if r.Hint != "" {
				_, _ = fmt.Fprintln(env.Out, r.Hint)
			}
		}
		_, _ = fmt.Fprintln(env.Out, Summary(reports))
	}
	return report.ExitOf(reports).Err("something could not be examined")
}

// slipsIn returns reports of what is not looked at in the files that stand for the cluster, such as misspelt kinds.
func slipsIn(env tool.Env, from flags.Cluster) (all []report.Report) {
	if from.Source != "files" {
		return nil
	}
	found, err := manifest.ReadDir(from.Dir)
	if err != nil {
		return nil // opening the files has told it
	}
	slips := requests.SlipsIn(found, env.Suites)
	for _, line := range slips.Lines() {
		severity := report.Unknown
		if line == slips.Unread && !slices.ContainsFunc(slips.Undefined, func(kind schema.GroupVersionKind) bool { return needed(kind, found) }) {
			severity = report.Info
		}
		all = append(all, report.Examined(report.Subject{Source: "--cluster-dir"}, report.Finding{ID: "not-readable", Severity: severity, Message: line}))
	}
	return all
}

// needed reports whether a rule of a webhook names resources of the group of a kind, or an admission policy has it as its parameters.
func needed(kind schema.GroupVersionKind, found []manifest.Object) bool {
	return slices.ContainsFunc(found, func(o manifest.Object) bool {
		var asks struct {
			Webhooks []struct {
				Rules []registration.RuleWithOperations
			}
			Spec struct{ ParamKind registration.ParamKind }
		}
		if o.GroupVersionKind().Group != registrationGroup || json.Unmarshal(o.JSON, &asks) != nil {
			return false
		}
		for _, w := range asks.Webhooks {
			if slices.ContainsFunc(w.Rules, func(r registration.RuleWithOperations) bool { return slices.Contains(r.APIGroups, kind.Group) }) {
				return true
			}
		}
		params := asks.Spec.ParamKind
		return schema.FromAPIVersionAndKind(params.APIVersion, params.Kind).GroupKind() == kind.GroupKind()
	})
}

// printChecks prints what doctor looks for, in the order of its findings' weight.
func printChecks(env tool.Env, output string) error {
	if output == "json" {
		return report.WriteJSON(env.Out, Checks())
	}
	table := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
	for _, c := range Checks() {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", c.ID, c.Severity, c.Doc)
	}
	_ = table.Flush()
	return nil
}

// examineRequests examines for each object which webhooks are called.
func examineRequests(ctx context.Context, env tool.Env, o options) ([]report.Report, error) {
	source, err := o.clusterSource.OpenSource()
	if err != nil {
		return nil, err
	}
	usher, err := usherIn(ctx, env, source, o)
	if err != nil {
		return nil, err
	}
	examiner, err := ExaminerOf(ctx, env.Suites, source)
	if err != nil {
		return nil, err
	}
	usher = examiner.Settle(usher)
	who, err := o.sender(ctx, source, examiner)
	if err != nil {
		return nil, err
	}
	documents := requests.ReadFiles(env.Streams, o.Files, o.Recursive)
	if source.Live() && o.Applies() {
		documents = live.Applied(ctx, source, documents, o.Namespace)
	}
	documents, err = withPods(documents, o)
	if err != nil {
		return nil, err
	}
	examiner.Learn(ctx, documents, o.Options)
	calls := examiner.Calls(ctx, o.clusterSource.Roots(), usher)
	var reports []report.Report
	for _, d := range documents {
		reports = append(reports, examiner.Judge(ctx, d, o.Options, calls))
	}
	if len(reports) > 0 {
		last := &reports[len(reports)-1]
		last.Hint = strings.TrimSpace(last.Hint + "\n" + strings.Join(notJudged(source, examiner, usher, who), "\n"))
	}
	return reports, nil
}

// sender returns whom the requests of manifests are taken to come from: the user of the kubeconfig, unless flags name one.
func (o options) sender(ctx context.Context, source reader.Source, examiner *Examiner) (string, error) {
	user, groups := o.User, o.Groups
	if source.Live() && !o.asSet {
		who, err := examiner.AskCaller(ctx)
		if err != nil {
			return "", fmt.Errorf("whom the API server takes the user of the kubeconfig for is not known: %w; pass --as and --as-group", err)
		}
		user, groups = who.Username, who.Groups
	}
	return fmt.Sprintf("the requests are taken to be of the user %s, of the groups %s", user, report.List(groups)), nil
}

// notJudged returns who is taken to send the requests, and what was not looked at.
func notJudged(source reader.Source, examiner *Examiner, usher Usher, who string) (lines []string) {
	if source.Live() {
		lines = append(lines, who)
	}
	if len(examiner.Ushers()) == 0 {
		lines = append(lines, "no webhook of usher is registered")
	} else if usher.Unknown != nil {
		lines = append(lines, fmt.Sprintf("not looked at: which webhooks should be registered, but are not: %v", usher.Unknown))
	}
	if !source.Live() {
		return append(lines, "not looked at: "+InFiles(source)+
			"; whether the API server can call the webhooks; admission policies, quotas and the like that are in no file")
	}
	return append(lines, "not looked at: "+InFiles(source)+
		"; whether an admission plug-in is switched off, which usherctl doctor --canary shows for usher. "+
		"kubectl apply --dry-run=server shows what webhooks and policies answer")
}

// withPods returns the objects of files with the pods that controllers would make of them.
func withPods(documents []requests.Document, o options) ([]requests.Document, error) {
	err := requests.CheckTemplates(documents, o.Templates)
	if err != nil || !o.MakesPods() {
		return documents, err
	}
	return requests.WithPods(documents, o.Templates, o.Options, func(*unstructured.Unstructured) bool { return true }), nil
}

// ExaminerOf returns what knows the webhooks of a cluster, and the kinds of some suites.
func ExaminerOf(ctx context.Context, suites suite.List, source reader.Source) (*Examiner, error) {
	return NewExaminer(ctx, source, requests.NewCatalogue(suites.Table(suite.NoPolicy, gate.Defaults(suites.Gates()))))
}
