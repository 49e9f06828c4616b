package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/doctor"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/tool"
)

// reviewing is one run of `usherctl review`.
type reviewing struct {
	tool.Env
	o       options
	policy  *config.Policy
	routes  []admit.Route
	kinds   requests.Catalogue
	given   []manifest.Object   // among the documents, which count as stored
	loaded  int                 // the index of the given object that the routes do not see; -1: they see all
	missing MissingRecorder     // what steps have asked for that is not known
	empty   []string            // the collections without an object
	absent  map[string][]string // by path, those of them that steps of a route have looked at

	notLooked string // at which webhooks of the cluster --doctor did not look

	instance suite.Instance   // that is loaded
	unread   map[string]error // by namespace, why the LimitRanges of the cluster are not known
}

// printReviews prints the AdmissionReview of each document. The error names all documents that have none.
func (r *reviewing) printReviews(documents []requests.Document) error {
	var problems []error
	for _, d := range documents {
		body, err := r.asReview(d)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", d.Source, err))
			continue
		}
		if _, err := fmt.Fprintf(r.Out, "%s\n", printable.JSON(body)); err != nil {
			return err
		}
	}
	return errors.Join(problems...)
}

// asReview returns the AdmissionReview of a document, unless nothing has the subresource of the flags.
func (r *reviewing) asReview(d requests.Document) ([]byte, error) {
	object := &unstructured.Unstructured{}
	if d.Err == nil && !d.IsReview() && json.Unmarshal(d.JSON, &object.Object) == nil {
		if err := requests.CheckSubresource(r.o.SubResource, object.GroupVersionKind().GroupKind(), r.routes); err != nil {
			return nil, fmt.Errorf("--%w", err)
		}
	}
	return requests.AsReview(d, r.o.Options, r.kinds)
}

// reportAll reviews documents. Namespaces among them and among others have the labels that selectors see.
func (r *reviewing) reportAll(ctx context.Context, documents []requests.Document, others ...requests.Document) ([]report.Report, error) {
	reports, kinds := []report.Report{}, requests.Types(r.Suites)
	chooser, err := r.chooser(slices.Concat(documents, others))
	if err != nil {
		return nil, err
	}
	servers := r.servers(documents)
	defer servers.close()
	examiner, err := r.examiner(ctx, documents)
	if err != nil {
		return nil, err
	}
	var policies doctor.Calls
	if examiner != nil {
		policies = examiner.Policies(ctx)
	}
	for _, d := range documents {
		body, err := r.asReview(d)
		if err != nil {
			reports = append(reports, requests.NotSent(d, err))
			continue
		}
		if err := r.without(d); err != nil {
			return nil, err
		}
		var examined report.Report
		if examiner != nil {
			examined = examiner.Examine(ctx, d, r.o.Options)
			if !r.o.allRoutes {
				chooser.NotCalled = registeredAs(examined.Webhooks).why
			}
		}
		if chooser.In, err = servers.of(ctx, chooser, body); err != nil {
			return nil, err
		}
		result, err := r.report(ctx, d, body, chooser, kinds)
		if err != nil {
			return nil, err
		}
		result.Webhooks = examined.Webhooks
		if examiner != nil && r.o.registered.Source == "api" { // those of files are in the cluster
			policies.Answer(ctx, examiner, d, r.o.Options, &result)
		}
		if examined.Verdict == report.Failed {
			result.Verdict = report.Denied // by the API server, because of some webhook
		}
		reports = append(reports, result)
	}
	return reports, nil
}

// report reviews one document.
func (r *reviewing) report(ctx context.Context, d requests.Document, body []byte, chooser Chooser, kinds Kinds) (report.Report, error) {
	chooser.Routes = r.routes
	choice, err := chooser.Choose(body)
	if err != nil {
		return report.Report{}, err
	}
	notes, err := r.explain(body) // before the review counts
	if err != nil {
		return report.Report{}, err
	}
	r.missing.TakeUnknown() // what was asked before
	choice.TakeUnknown, choice.Validate, choice.LimitRanges, choice.Strict = r.missing.TakeUnknown, true, r.limitRanges, r.o.strict
	choice.Assumed = r.o.Operation == admissionv1.Update && len(r.o.Old) == 0 && d.Of == "" && !d.IsReview()
	r.noteAbsent(choice.Routes)
	result := Run(ctx, d, body, choice, kinds)
	result.Notes = notes
	return result, nil
}

// limitRanges returns the LimitRanges of a namespace, or why they are not known.
func (r *reviewing) limitRanges(namespace string) ([]*corev1.LimitRange, error) {
	if err := r.unread[namespace]; err != nil {
		return nil, fmt.Errorf("the LimitRanges of the Namespace %s of the cluster are not known: %w", namespace, err)
	}
	return r.instance.LimitRanges(namespace)
}

// examiner returns what knows the webhooks of the cluster; nil without --doctor.
func (r *reviewing) examiner(ctx context.Context, documents []requests.Document) (*doctor.Examiner, error) {
	if !r.o.doctor {
		return nil, nil
	}
	source, err := r.o.registered.OpenSource()
	if err != nil {
		return nil, err
	}
	examiner, err := doctor.NewExaminer(ctx, source, r.kinds)
	if err != nil {
		return nil, err
	}
	examiner.Learn(ctx, documents, r.o.Options)
	r.notLooked = "not looked at: whether the API server can call the webhooks, and admission policies that are in no file"
	if source.Live() {
		r.notLooked = "not looked at: " + doctor.InFiles(source) + "; and whether the API server can call the webhooks"
	}
	return examiner, nil
}

func (r *reviewing) chooser(documents []requests.Document) (Chooser, error) {
	c := Chooser{Routes: r.routes, Path: r.o.path, SwitchesOn: r.instance.SwitchesOn}
	if r.o.allRoutes {
		return c, nil
	}
	labels, err := namespaceLabels(r.o.clusterSource.Dir, documents)
	c.NotCalled = unregistered{webhooks.OneAmplifier(r.routes), labels, r.o.namespaceLabels}.why
	return c, err
}

// explainer is implemented by the Tools of a suite that reports about reviews in addition to their verdicts; with why, including
// reasons. It is asked before a review is decided, so that the review itself is not counted yet.
type explainer interface {
	Explain(e suite.Env, body []byte, why bool) ([]suite.Note, error)
}

// explain returns what the suites say about a review.
func (r *reviewing) explain(body []byte) (all []suite.Note, err error) {
	for _, suite := range r.Suites {
		explainer, explains := suite.Tools.(explainer)
		if !explains {
			continue
		}
		notes, err := explainer.Explain(r.instance.Env(suite), body, r.o.explain)
		if err != nil {
			return nil, err
		}
		all = append(all, notes...)
	}
	return all, nil
}

// print prints the reports. The error, if any, ends the command with the exit code of the worst verdict.
func (r *reviewing) print(reports []report.Report) error {
	if r.o.strict {
		for i := range reports {
			reports[i].Findings = append(reports[i].Findings, reports[i].Strictly()...)
		}
	}
	code := report.ExitOfReview(reports).Err("some objects were not judged, or could not be reviewed")
	if r.o.output == "json" || r.o.output == "junit" {
		if last := len(reports) - 1; last >= 0 {
			reports[last].Hint = strings.TrimSpace(reports[last].Hint + "\n" + r.notLooked)
		}
		if err := report.Write(r.Out, r.o.output, "usherctl review", slices.Values(reports)); err != nil {
			return err
		}
		return code
	}
	style := r.Style()
	style.Patch = r.o.output == "patch"
	hidden, shown := "", map[string]bool{}
	for _, result := range reports {
		if !r.o.explain {
			result.Plugins = slices.DeleteFunc(slices.Clone(result.Plugins), func(p report.Plugin) bool { return slices.Contains(routine, p.Name) })
		}
		if r.o.mainOnly {
			result.Calls, hidden = r.withoutIdleSuites(result.Calls, hidden)
		}
		for _, call := range result.Calls {
			shown[call.Path] = true
		}
		if report.Unrouted(result) && len(reports) > 1 {
			continue
		}
		if r.o.quiet && result.Exit() == report.Fine && len(result.Unknown) == 0 {
			continue
		}
		report.Text(r.Out, result, style)
		_, _ = fmt.Fprintln(r.Out)
	}
	if text := report.UnroutedText(reports); text != "" && len(reports) > 1 && (!r.o.quiet || r.o.strict) {
		_, _ = fmt.Fprintf(r.Out, "%s\n\n", text)
	}
	_, _ = fmt.Fprintln(r.Out, report.Summary(reports))
	r.printAbsent(shown, hidden)
	if r.notLooked != "" {
		_, _ = fmt.Fprintln(r.Out, r.notLooked)
	}
	return code
}

// printAbsent says what the steps of the shown routes took as absent, and in one line what those of the hidden suite did.
func (r *reviewing) printAbsent(shown map[string]bool, hidden string) {
	seen := r.absentOf(func(path string) bool { return shown[path] || hidden == "" })
	if len(seen) > 0 {
		_, _ = fmt.Fprintf(r.Out, "No file has any %s: steps that look at them found none. --cluster-dir adds files.\n", strings.Join(seen, ", "))
	}
	if hidden != "" {
		without := ""
		if names := r.absentOf(func(path string) bool { return !shown[path] }); len(names) > 0 {
			without = ", without any " + strings.Join(names, ", ") + " in the files"
		}
		_, _ = fmt.Fprintf(r.Out, "The suite %[1]s had nothing to change or refuse where it is not shown%[2]s: --suite %[1]s shows its steps.\n", hidden,
			without)
	}
}

// idle reports whether a call is allowed, and its steps had nothing to do or to say.
func idle(c report.Call) bool {
	did := func(s report.Step) bool { return len(s.Refused)+len(s.Patch)+len(s.Unknown) > 0 || s.Override != "" }
	return c.Outcome == string(handlers.Allowed) && len(c.Warnings) == 0 && c.Untouched == "" && !slices.ContainsFunc(c.Steps, did)
}

// withoutIdleSuites leaves out the calls of other suites than the first that did nothing. hidden is the last suite with such a call.
func (r *reviewing) withoutIdleSuites(calls []report.Call, hidden string) (shown []report.Call, _ string) {
	for _, call := range calls {
		i := slices.IndexFunc(r.routes, func(route admit.Route) bool { return route.Path == call.Path })
		if i >= 0 && r.routes[i].Suite != r.Suites[0].Name && idle(call) {
			hidden = r.routes[i].Suite
			continue
		}
		shown = append(shown, call)
	}
	return shown, hidden
}
