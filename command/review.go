package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/command/review"
	"usher.dev/usher/config"
	"usher.dev/usher/gate"
	"usher.dev/usher/suite"
)

// reviewOptions are the flags of usher review.
type reviewOptions struct {
	path, operation, output, config, old string
	review.Options
	files         []string
	explain       bool
	gates         gate.Set
	clusterSource clusterFlags
}

// reviewCommand is `usher review`.
func (p Program) reviewCommand() *cobra.Command {
	o := reviewOptions{clusterSource: clusterFlags{source: "files"}}
	c := &cobra.Command{Use: "review [flags] FILE...", Short: "send manifests or AdmissionReviews through the chains, without a server"}
	o.addTo(c.Flags())
	suites := p.addSuiteFlags(c, false)
	_ = c.RegisterFlagCompletionFunc("path", p.completePaths)
	c.RunE = func(c *cobra.Command, files []string) (err error) {
		if o.gates, err = suites.parsed(o.clusterSource.source); err != nil {
			return err
		}
		if !c.Flags().Changed("as-group") {
			o.Groups = groupsOf(o.User)
		}
		if o.Operation, o.files = admissionv1.Operation(strings.ToUpper(o.operation)), files; len(files) == 0 {
			if isTerminal(p.In) {
				return errors.New("name a file, or - to type a manifest; `usher review --help` lists the flags")
			}
			o.files = []string{"-"}
		}
		if err := o.check(); err != nil {
			return err
		}
		return p.review(c.Context(), o)
	}
	return c
}

func (o *reviewOptions) addTo(set *pflag.FlagSet) {
	set.SortFlags = false
	set.StringVar(&o.path, "path", "", "the route to call (default: every route that an API server would call, mutating ones first)")
	set.StringVar(&o.operation, "operation", "CREATE", "CREATE, UPDATE, DELETE or CONNECT; like all flags about the request it is for manifests, an AdmissionReview says it itself")
	set.StringVar(&o.old, "old", "", "file with the stored object of an UPDATE (default: the same object)")
	set.StringVar(&o.SubResource, "subresource", "", "such as status")
	set.StringVar(&o.User, "as", "kubernetes-admin", "the user who sends the request; a kubelet is system:node:NAME")
	set.StringSliceVar(&o.Groups, "as-group", nil, "the user's groups (default: system:authenticated, and for a kubelet system:nodes)")
	set.StringVarP(&o.Namespace, "namespace", "n", "default", "for objects that name no namespace")
	set.BoolVar(&o.DryRun, "dry-run", false, "mark the request as a dry run")
	set.StringVar(&o.config, "config", "", "policy file (default: the embedded policy)")
	set.StringVarP(&o.output, "output", "o", "text", "text, json, or review: print the AdmissionReview for curl and call nothing")
	set.BoolVar(&o.explain, "explain", false, "say for each colocation profile why it matches, or not")
	o.clusterSource.addDirTo(set)
}

// groupsOf returns the groups that the API server gives a user who has no others.
func groupsOf(user string) []string {
	if strings.HasPrefix(user, "system:node:") {
		return []string{"system:nodes", "system:authenticated"}
	}
	return []string{"system:authenticated"}
}

func (o *reviewOptions) check() error {
	operations := []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect}
	switch {
	case !slices.Contains(operations, o.Operation):
		return fmt.Errorf("--operation %s: must be one of %v", o.Operation, operations)
	case !slices.Contains([]string{"text", "json", "review"}, o.output):
		return fmt.Errorf("-o %s: must be text, json or review", o.output)
	case o.old != "" && o.Operation != admissionv1.Update:
		return errors.New("--old goes with --operation UPDATE")
	}
	return nil
}

// review reviews the files and prints what became of each object.
func (p Program) review(ctx context.Context, o reviewOptions) error {
	policy, err := config.Load(o.config, p.Suites.Schema())
	if err != nil {
		return err
	}
	if o.Old, err = p.readOld(o.old); err != nil {
		return err
	}
	documents, err := p.readDocuments(o.files)
	if err != nil {
		return err
	}
	if o.output == "review" {
		return p.printReviews(documents, o)
	}
	if _, err := p.Suites.Open(o.clusterSource.source, o.gates, nil, o.clusterSource.open); err != nil {
		return err
	}
	reports, err := p.reportAll(ctx, documents, o, policy)
	if err != nil {
		return err
	}
	return p.printReports(reports, o.output)
}

func (p Program) readOld(file string) (json.RawMessage, error) {
	if file == "" {
		return nil, nil
	}
	documents, err := p.readDocuments([]string{file})
	if err != nil {
		return nil, err
	}
	if len(documents) != 1 {
		return nil, fmt.Errorf("--old %s: holds %d objects, not one", file, len(documents))
	}
	return documents[0].JSON, nil
}

func (p Program) readDocuments(files []string) (all []review.Document, err error) {
	for _, name := range files {
		in := p.In
		if name != "-" {
			file, err := os.Open(name)
			if err != nil {
				return nil, err
			}
			defer func() { _ = file.Close() }()
			in = file
		}
		documents, err := review.Read(name, in)
		if err != nil {
			return nil, err
		}
		all = append(all, documents...)
	}
	return all, nil
}

func (p Program) printReviews(documents []review.Document, o reviewOptions) error {
	for _, d := range documents {
		body, err := review.AsReview(d, o.Options)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Source, err)
		}
		if _, err := fmt.Fprintf(p.Out, "%s\n", body); err != nil {
			return err
		}
	}
	return nil
}

func (p Program) reportAll(ctx context.Context, documents []review.Document, o reviewOptions, policy *config.Policy) ([]review.Report, error) {
	reports, routes, kinds := []review.Report{}, p.Suites.Routes(policy, o.gates), p.Suites.Kinds()
	for _, d := range documents {
		body, err := review.AsReview(d, o.Options)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Source, err)
		}
		chosen, err := review.Choose(body, o.path, routes)
		if err != nil {
			return nil, err
		}
		remarks, err := p.explain(body, o.explain) // before the review counts
		if err != nil {
			return nil, err
		}
		report := review.Run(ctx, d.Source, body, chosen, kinds)
		report.Remarks = remarks
		if len(chosen) == 0 && report.Verdict != "error" {
			report.Hint = review.Hint(body, routes)
		}
		reports = append(reports, report)
	}
	return reports, nil
}

// explain returns what the suites say about a review.
func (p Program) explain(body []byte, why bool) (all []suite.Remark, err error) {
	for _, suite := range p.Suites {
		if suite.Explain == nil {
			continue
		}
		remarks, err := suite.Explain(body, why)
		if err != nil {
			return nil, err
		}
		all = append(all, remarks...)
	}
	return all, nil
}

func (p Program) printReports(reports []review.Report, output string) error {
	style := p.style()
	if output == "json" {
		if err := printJSON(p.Out, reports); err != nil {
			return err
		}
	}
	var verdict error
	for i, r := range reports {
		if output == "text" {
			if i > 0 {
				_, _ = fmt.Fprintln(p.Out)
			}
			review.Text(p.Out, r, style)
		}
		switch {
		case r.Verdict == "error":
			verdict = errors.New("some objects could not be reviewed")
		case r.Verdict == "denied" && verdict == nil:
			verdict = errDenied
		}
	}
	return verdict
}

// showCommand is `usher show`: what curl brought back, readable.
func (p Program) showCommand() *cobra.Command {
	return &cobra.Command{Use: "show < ANSWER", Short: "print an AdmissionReview that a server answered, readable", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			allowed, err := review.Answer(p.In, p.Out, p.style())
			if err == nil && !allowed {
				return errDenied
			}
			return err
		}}
}

// style returns how text is printed: in color on a terminal.
func (p Program) style() review.Style {
	return review.Style{Color: isTerminal(p.Out) && os.Getenv("NO_COLOR") == ""}
}
