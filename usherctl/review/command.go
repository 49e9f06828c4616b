package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/flags"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/live"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/tool"
)

// options are the flags of usherctl review.
type options struct {
	requests.Flags
	suites                            []string
	mainOnly                          bool // nobody asks for other suites than the first: what they do not change is not shown
	path, output, config, service     string
	allRoutes, quiet, strict, explain bool
	namespaceLabels                   map[string]string // of Namespaces that are in none of the files
	gates                             gate.Set
	gatesSet                          bool // by --feature-gates
	clusterSource                     flags.Cluster
	doctor                            bool
	answersFile                       string
	answers                           []GivenAnswer // of answersFile
	registered                        flags.Cluster // where the webhook configurations come from
	logs                              []string      // audit logs
	was                               string        // with logs, the former policy
	assumed                           bool          // nothing tells the policy of usher in the cluster: it is taken to be the embedded one
}

// Command is `usherctl review`. logs reviews audit logs.
func Command(env tool.Env, logs LogReviewer) *cobra.Command {
	o := options{clusterSource: flags.Cluster{Source: "files"}, registered: flags.Cluster{Source: "files"}}
	c := &cobra.Command{Use: "review [flags] FILE...", Short: "review manifests or AdmissionReviews without a server",
		Long: help, Example: `  # what would happen to these objects, and which step would do it?
  usherctl review --suite core --explain samples/manifests/pods.yaml
  # in CI: only what is refused, by your policy
  usherctl review -q --suite core --config samples/policy.yaml --cluster-dir samples/cluster samples/manifests/pods.yaml
  # what would this policy have done to the requests of yesterday?
  usherctl review --audit-log samples/audit/audit.log --config samples/policies/image-rules.yaml --suite core --cluster-dir samples/cluster`}
	o.addTo(c.Flags(), env.Suites)
	suites := flags.AddSuites(c, env.Suites, false, env.Err)
	env.Suites = suites.List
	c.RunE = func(c *cobra.Command, files []string) (err error) {
		if o.gates, err = suites.Parsed(o.clusterSource.Source); err != nil {
			return err
		}
		o.mainOnly = !slices.ContainsFunc([]string{"suite", "path", "explain", "all-routes", "feature-gates"}, c.Flags().Changed)
		o.gatesSet = c.Flags().Changed("feature-gates")
		o.Files = append(o.Files, files...)
		if len(o.logs) > 0 {
			return o.reviewLogs(c.Context(), env, c.Flags(), logs)
		} else if o.was != "" {
			return errors.New("--was goes with --audit-log")
		}
		if len(o.Files) == 0 && cli.IsTerminal(env.In) {
			return errors.New("name a file, or - to type a manifest; `usherctl review --help` lists the flags")
		}
		if len(o.Files) == 0 {
			o.Files = []string{"-"}
		}
		if err := o.Parse(env.Streams, c.Flags()); err != nil {
			return err
		}
		if !slices.Contains([]string{"text", "patch", "json", "junit", "review"}, o.output) {
			return fmt.Errorf("-o %s: must be text, patch, json, junit or review", o.output)
		}
		if err := o.checkDoctor(c.Flags()); err != nil {
			return err
		}
		if o.answers, err = ReadAnswers(o.answersFile); err != nil {
			return fmt.Errorf("--answers %w", err)
		}
		return reviewFiles(c.Context(), env, o)
	}
	return c
}

// checkDoctor checks the flags that go with --doctor.
func (o *options) checkDoctor(set *pflag.FlagSet) error {
	for _, name := range []string{"cluster", "kubeconfig", "service", "static-dir"} {
		if set.Changed(name) && !o.doctor && !o.live() {
			return fmt.Errorf("--%s goes with --doctor", name)
		}
	}
	switch {
	case o.live() && o.clusterSource.Dir != "":
		return errors.New("--cluster=api reads the cluster, and --cluster-dir files instead of it: choose one")
	case !o.doctor && !o.live():
		return nil
	case o.registered.Source == "files" && o.clusterSource.Dir == "":
		return errors.New("--doctor: --cluster=api reads the webhook configurations of a cluster, --cluster-dir DIR those of files")
	case o.output == "review":
		return errors.New("--doctor: -o review calls nothing")
	}
	o.registered.AskedOtherwise = true
	if err := o.registered.Check(); err != nil {
		return err
	}
	o.registered.Dir = o.clusterSource.Dir
	return nil
}

// live reports whether a cluster is asked for all that decides about the objects.
func (o *options) live() bool { return !o.doctor && o.registered.Source == "api" }

const help = `Review manifests or AdmissionReviews without a server, with the steps that a server would run, and show what each step does.

FILE is a YAML or JSON file, a directory of such files, or - for standard input. For a Deployment, or another object with a pod template,
the pod that its controller would create is reviewed. Namespaces, LimitRanges, PriorityClasses, colocation profiles, quotas and other objects
among the files, or in --cluster-dir, count as stored. Manifests are reviewed as creations; --operation UPDATE --old FILE reviews a change.
With --cluster=api, and no --operation, a manifest of an object that the cluster has is the update that kubectl apply would send; so is what
kubectl get printed, once it is edited.

Objects that a cluster has, such as those of kubectl get pods -A -o json, are reviewed as if they were created again, without what API servers,
controllers and kubelets have filled in, and without ResourceQuotas, which count them already; pods of one owner of which the same is said
are one line at the end.

A Namespace that is in none of the files is assumed to have the labels that the webhook configurations select. If a rule or selector of the
policy asks for it, the object is not judged; --assume-namespace-labels KEY=VALUE says which labels such Namespaces have.

With --audit-log, no FILE is reviewed, but the requests of an API server's audit log: what the policy would have refused, allowed or patched
otherwise is printed by rule, namespace and workload, and what could not be judged by its reason. It prints no value that usherctl explain hides.
The exit code is 1 if a request is newly refused (with --strict also if one is newly allowed or patched differently), else 2 if one was not
judged, else 0.

The exit code is 1 if an object is denied or invalid (with --strict also if one is skipped or has unknown fields), else 2 if an ` +
	`object was not judged or could not be reviewed,
else 0.`

func (o *options) addTo(set *pflag.FlagSet, suites suite.List) {
	set.SortFlags = false
	o.AddFilesTo(set, "review")
	set.StringVarP(&o.output, "output", "o", "text", "text, patch, json, junit or review: patch is text with the operations of each patch; review "+
		"prints the AdmissionReview, for curl, and runs no step")
	set.BoolVarP(&o.quiet, "quiet", "q", false, "show only the objects that are denied, invalid, not judged or could not be reviewed, or have "+
		"unknown fields, and the summary")
	set.BoolVar(&o.strict, "strict", false, "also exit with 1 if an object is skipped because no route handles it, or has a field that its kind does "+
		"not have")
	set.BoolVar(&o.explain, "explain", false, "explain for each step, and each colocation profile, why it acted or did nothing")
	set.StringSliceVar(&o.suites, "suite", suites.Names(), "suites whose routes are called")
	set.StringVar(&o.path, "path", "", "path of the only route to call, such as /mutate-pods (default: every route that an API server would call, "+
		"mutating ones first)")
	set.BoolVar(&o.allRoutes, "all-routes", false, "also call routes that an API server with the shipped webhook configurations would not call, for "+
		"example for kube-system")
	o.Flags.AddTo(set, "review")
	set.StringToStringVar(&o.namespaceLabels, "assume-namespace-labels", nil,
		"labels, such as team=web, of Namespaces that are in none of the files (`k=v`); KEY= stands for an empty value")
	set.StringVar(&o.config, "config", "", "policy file (default: with --cluster=api or --doctor that of the installed usher, else the embedded policy)")
	o.clusterSource.AddDirTo(set)
	set.StringVar(&o.answersFile, "answers", "",
		"file with the answers of webhooks that are not usher's (default: what they are called for is not judged)")
	set.BoolVar(&o.doctor, "doctor", false, "first say, as usherctl doctor does, which webhooks of the cluster are called, and call only the routes "+
		"of usher that are registered there and called")
	set.StringVar(&o.registered.Source, "cluster", "files",
		"api: an API server is asked, with your rights, for all that decides about the objects; with --doctor, for its webhook configurations and "+
			"Namespaces, and files stands for --cluster-dir")
	set.StringVar(&o.registered.Kubeconfig, "kubeconfig", "",
		"with --cluster=api, how to reach the API server (default: as kubectl does, or as a pod of the cluster)")
	set.StringVar(&o.service, "service", "usher/usher",
		"Service of the usher that is installed in the cluster, as namespace/name: its Deployment names the policy")
	o.registered.AddStaticTo(set, "with --doctor, ")
	set.StringArrayVar(&o.logs, "audit-log", nil, "`file` with audit events of the API server, maybe compressed, or - for standard input: its requests "+
		"are reviewed under --config; may be repeated, the oldest first")
	set.StringVar(&o.was, "was", "", "with --audit-log, `file` of the policy to compare with (default: what the log has)")
}

// reviewFiles reviews the files and prints the verdict on each object.
func reviewFiles(ctx context.Context, env tool.Env, o options) error {
	policy, err := policyOfReview(ctx, env, &o)
	if err != nil {
		return err
	}
	where := "is in none of the files"
	if o.registered.Source == "api" {
		where = "neither the cluster nor a file shows"
	}
	run := &reviewing{Env: env, o: o, policy: policy, absent: map[string][]string{}, ledger: NewLedger(),
		missing: MissingRecorder{Remedy: ", which " + where + "; add it, or pass --assume-namespace-labels"},
		kinds:   requests.NewCatalogue(env.Suites.Table(suite.NoPolicy, o.gates))}
	read := requests.ReadFiles(env.Streams, o.Files, o.Recursive)
	if err := requests.CheckTemplates(read, o.Templates); err != nil {
		return err
	}
	var source reader.Source
	if o.registered.Source == "api" {
		if source, err = o.registered.OpenSource(); err != nil {
			return err
		}
		if err := warnOfRunning(ctx, env, o, source, policy); err != nil {
			return err
		}
		if o.Applies() || o.Operation == admissionv1.Update && len(o.Old) == 0 && o.SubResource == "" {
			read = live.Applied(ctx, source, read, o.Namespace)
		}
	}
	if o.Operation == admissionv1.Create {
		read = requests.Existing(read)
	}
	if run.given, err = run.stored(ctx, read); err != nil {
		return err
	}
	if o.live() {
		run.readLive(ctx, source, read)
	}
	if err := run.load(everything); err != nil {
		return err
	}
	if err := run.readDir(); err != nil {
		return err
	}
	documents := run.o.WithPods(read, run.routes)
	if o.output == "review" {
		return run.printReviews(documents)
	}
	reports, failed := run.reports(ctx, documents, read...)
	if err := failed(); err != nil {
		return err
	}
	printed := run.print(ctx, documents, reports)
	return cmp.Or(failed(), printed)
}

// readDir reads the files of --cluster-dir, and says what is not looked at.
func (r *reviewing) readDir() error {
	if r.o.clusterSource.Dir == "" {
		return nil
	}
	found, err := manifest.ReadDir(r.o.clusterSource.Dir)
	if err != nil {
		return fmt.Errorf("--cluster-dir: %w", err)
	}
	r.files, r.slips = Objects(found), requests.SlipsIn(found, r.Suites)
	for _, line := range r.slips.Lines() {
		_, _ = fmt.Fprintf(r.Err, "warning: --cluster-dir: %s\n", printable.Line(line))
	}
	return nil
}
