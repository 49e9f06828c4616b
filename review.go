package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/config"
	"usher.dev/usher/gate"
	"usher.dev/usher/review"
)

// reviewOptions are the flags of usher review.
type reviewOptions struct {
	path, output, config, old string
	review.Options
	files         []string
	explain       bool
	gates         gate.Set
	clusterSource clusterOptions
}

func parseReview(args []string, io stdio) (o reviewOptions, err error) {
	set := flags("review", io)
	operation := ""
	set.StringVar(&o.path, "path", "", "the route to call (default: every route that an API server would call, mutating ones first)")
	set.StringVar(&operation, "operation", "CREATE", "CREATE, UPDATE, DELETE or CONNECT; like all flags about the request it is for manifests, an AdmissionReview says it itself")
	set.StringVar(&o.old, "old", "", "file with the stored object of an UPDATE (default: the same object)")
	set.StringVar(&o.SubResource, "subresource", "", "such as status")
	set.StringVar(&o.User, "as", "kubernetes-admin", "the user who sends the request; a kubelet is system:node:NAME")
	set.StringSliceVar(&o.Groups, "as-group", nil, "the user's groups (default: system:authenticated, and for a kubelet system:nodes)")
	set.StringVarP(&o.Namespace, "namespace", "n", "default", "for objects that name no namespace")
	set.BoolVar(&o.DryRun, "dry-run", false, "mark the request as a dry run")
	set.StringVar(&o.config, "config", "", "policy file (default: the embedded policy)")
	set.StringVarP(&o.output, "output", "o", "text", "text, json, or review: print the AdmissionReview for curl and call nothing")
	set.BoolVar(&o.explain, "explain", false, "say for each colocation profile why it matches, or not")
	o.clusterSource.addFilesTo(set)
	featureGates := gatesFlag(set)
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if o.gates, err = parseGates(*featureGates); err != nil {
		return o, err
	}
	if !set.Changed("as-group") {
		o.Groups = groupsOf(o.User)
	}
	o.Operation, o.files = admissionv1.Operation(strings.ToUpper(operation)), set.Args()
	if len(o.files) == 0 {
		if isTerminal(io.in) {
			return o, errors.New("name a file, or - to type a manifest; `usher review --help` lists the flags")
		}
		o.files = []string{"-"}
	}
	return o, o.check()
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

// reviewFiles is `usher review`.
func reviewFiles(ctx context.Context, args []string, io stdio) error {
	o, err := parseReview(args, io)
	if err != nil {
		return err
	}
	policy, err := config.Load(o.config, policySchema())
	if err != nil {
		return err
	}
	if o.Old, err = readOld(o.old, io); err != nil {
		return err
	}
	documents, err := readDocuments(o.files, io)
	if err != nil {
		return err
	}
	if o.output == "review" {
		return printReviews(documents, o, io)
	}
	known, err := o.clusterSource.open(o.gates, nil)
	if err != nil {
		return err
	}
	w := world{policy, o.gates, known, o.clusterSource}
	reports, err := reportAll(ctx, documents, o, w)
	if err != nil {
		return err
	}
	return printReports(reports, o.output, io)
}

func readOld(file string, io stdio) (json.RawMessage, error) {
	if file == "" {
		return nil, nil
	}
	documents, err := readDocuments([]string{file}, io)
	if err != nil {
		return nil, err
	}
	if len(documents) != 1 {
		return nil, fmt.Errorf("--old %s: holds %d objects, not one", file, len(documents))
	}
	return documents[0].JSON, nil
}

func readDocuments(files []string, io stdio) (all []review.Document, err error) {
	for _, name := range files {
		in := io.in
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

func printReviews(documents []review.Document, o reviewOptions, io stdio) error {
	for _, d := range documents {
		body, err := review.AsReview(d, o.Options)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Source, err)
		}
		if _, err := fmt.Fprintf(io.out, "%s\n", body); err != nil {
			return err
		}
	}
	return nil
}

func reportAll(ctx context.Context, documents []review.Document, o reviewOptions, w world) ([]review.Report, error) {
	reports, routes := []review.Report{}, routes(w)
	for _, d := range documents {
		body, err := review.AsReview(d, o.Options)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Source, err)
		}
		chosen, err := review.Choose(body, o.path, routes)
		if err != nil {
			return nil, err
		}
		before, err := quotaOf(body, w.state) // it counts afterwards
		if err != nil {
			return nil, err
		}
		report := review.Run(ctx, d.Source, body, chosen)
		report.Quota = before
		if len(chosen) == 0 && report.Verdict != "error" {
			report.Hint = review.Hint(body, routes)
		}
		if o.explain {
			if report.Profiles, err = explain(body, w.state); err != nil {
				return nil, err
			}
		}
		reports = append(reports, report)
	}
	return reports, nil
}

func printReports(reports []review.Report, output string, io stdio) error {
	style := review.Style{Color: isTerminal(io.out) && os.Getenv("NO_COLOR") == ""}
	if output == "json" {
		encoder := json.NewEncoder(io.out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(reports); err != nil {
			return err
		}
	}
	var verdict error
	for i, r := range reports {
		if output == "text" {
			if i > 0 {
				_, _ = fmt.Fprintln(io.out)
			}
			review.Text(io.out, r, style)
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

// showAnswer is `usher show`: what curl brought back, readable.
func showAnswer(_ context.Context, args []string, io stdio) error {
	if err := parseAll(flags("show", io), args); err != nil {
		return err
	}
	style := review.Style{Color: isTerminal(io.out) && os.Getenv("NO_COLOR") == ""}
	allowed, err := review.Answer(io.in, io.out, style)
	if err == nil && !allowed {
		return errDenied
	}
	return err
}
