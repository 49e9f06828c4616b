package review

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/doctor"
	"usher.dev/usher/usherctl/parallel"
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

	ledger *Ledger                      // of all documents
	files  []*unstructured.Unstructured // of --cluster-dir
	slips  requests.Slips               // in these files

	notLooked string // at which webhooks of the cluster --doctor did not look

	instance suite.Instance   // that is loaded
	live     *liveCluster     // the cluster of --cluster=api; nil without one, or with --doctor
	unread   map[string]error // by namespace, why the LimitRanges of the cluster are not known
}

// printReviews prints the AdmissionReview of each document. The error names all documents that have none.
func (r *reviewing) printReviews(documents []requests.Document) error {
	var problems []error
	for _, d := range documents {
		body, err := r.asReview(d)
		if err = cmp.Or(err, d.File().OldErr); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", d.Source, err))
			continue
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, body, "", "  "); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(r.Out, "%s\n", printable.JSON(indented.Bytes())); err != nil {
			return err
		}
	}
	return errors.Join(problems...)
}

// asReview returns the AdmissionReview of a document, unless nothing has the subresource of the flags.
func (r *reviewing) asReview(d requests.Document) ([]byte, error) {
	object := &unstructured.Unstructured{}
	if r.o.SubResource != "" && d.Err == nil && !d.IsReview() && json.Unmarshal(d.JSON, &object.Object) == nil {
		if err := requests.CheckSubresource(r.o.SubResource, object.GroupVersionKind().GroupKind(), r.routes); err != nil {
			return nil, fmt.Errorf("--%w", err)
		}
	}
	return requests.AsReview(d, r.o.Options, r.kinds)
}

// reviewer reviews documents one at a time.
type reviewer struct {
	*reviewing
	chooser  Chooser
	kinds    Kinds
	servers  servers
	examiner *doctor.Examiner
	policies doctor.Calls
}

// reported is the report of a document, or why there is none.
type reported struct {
	report.Report
	err error
}

// alone is the number of documents that one reviewer reviews before others could have been made.
const alone = 200

// many is the number of documents from which on a review has a limit of memory, beside which the program itself takes some 80 MiB.
const many, memory = 2000, 280 << 20

// reviewers returns what reviews documents side by side. Namespaces among them and among others have the labels that selectors see.
func (r *reviewing) reviewers(ctx context.Context, documents []requests.Document, others ...requests.Document) (all []*reviewer, err error) {
	chooser, err := r.chooser(slices.Concat(documents, others))
	if err != nil {
		return nil, err
	}
	if _, err := chooser.Choose(nil); err != nil {
		return nil, err // there is no such path
	}
	examiner, err := r.examiner(ctx, documents)
	if err != nil {
		return nil, err
	}
	first := &reviewer{reviewing: r, chooser: chooser, kinds: requests.Types(r.Suites), servers: r.servers(documents), examiner: examiner}
	if all = append(all, first); examiner != nil {
		first.policies = doctor.Calls{}
		return all, nil
	}
	if len(documents) >= many && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memory) // garbage is collected earlier
	}
	if first.servers.inOrder() {
		return all, nil
	}
	for range min(runtime.GOMAXPROCS(0)-1, len(documents)/alone) {
		run := *r
		run.missing.what, run.absent, run.routes = nil, map[string][]string{}, nil
		if err := run.load(everything); err != nil {
			return nil, err
		}
		all = append(all, &reviewer{reviewing: &run, chooser: chooser, kinds: first.kinds, servers: run.servers(documents)})
	}
	return all, nil
}

// reports returns the reports of documents in their order, as they come. The error is known when all have come.
func (r *reviewing) reports(ctx context.Context, documents []requests.Document, others ...requests.Document) (_ iter.Seq[report.Report],
	failed func() error) {
	reviewers, err := r.reviewers(ctx, documents, others...)
	return func(yield func(report.Report) bool) {
		if err != nil {
			return
		}
		defer func() {
			for _, one := range reviewers {
				for _, api := range one.servers.opened {
					api.Close()
				}
				maps.Copy(r.absent, one.absent)
			}
		}()
		do := func(one *reviewer, i int) reported { return one.review(ctx, documents[i]) }
		for of := range parallel.InOrder(len(documents), reviewers, do) {
			if err = of.err; err != nil || !yield(of.Report) {
				return
			}
		}
	}, func() error { return err }
}

// review reviews a document.
func (r *reviewer) review(ctx context.Context, d requests.Document) (of reported) {
	body, err := r.asReview(d)
	if err != nil {
		return reported{requests.NotSent(d, err), nil}
	}
	if of.err = r.without(d); of.err != nil {
		return of
	}
	var examined report.Report
	if r.examiner != nil {
		examined = r.examiner.Examine(ctx, d, r.o.Options)
		if !r.o.allRoutes {
			r.chooser.NotCalled = registeredAs(examined.Webhooks).why
			r.chooser.Routes = registeredAs(examined.Webhooks).ofSuites(r.chooser.Routes)
		}
	}
	if r.chooser.In, of.err = r.servers.of(ctx, r.chooser, d, body); of.err != nil {
		return of
	}
	if of.Report, of.err = r.report(ctx, d, body, r.chooser, r.kinds); of.err != nil {
		return of
	}
	switch {
	case r.examiner == nil:
	case r.o.registered.Source == "api":
		r.policies.Answer(ctx, r.examiner, d, r.o.Options, &of.Report)
	default: // policies of files are in the cluster
		r.examiner.AddCalled(ctx, d, r.o.Options, &of.Report)
	}
	registered := examined.Webhooks
	if r.live != nil {
		registered = r.live.registered
		r.live.doubt(&of.Report, objectOf(d.JSON), r.routes)
		r.live.refuse(&of.Report, objectOf(d.File().JSON).GroupVersionKind())
	}
	r.doubtPolicy(&of.Report, registered)
	doubtStored(&of.Report, d)
	if examined.Verdict == report.Failed {
		of.Verdict = report.Denied // by the API server, because of some webhook
	}
	r.ledger.settle(d, of.Verdict)
	return of
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
	choice.TakeUnknown, choice.Strict = r.missing.TakeUnknown, r.o.strict
	if choice.Ledger = r.ledger; d.File().Existing {
		choice.Ledger = nil // quotas count it already
	}
	choice.Assumed = r.o.Operation == admissionv1.Update && len(r.o.Old) == 0 && d.Of == "" && !d.IsReview()
	r.noteAbsent(choice.Routes)
	result := Run(ctx, d, body, choice, kinds)
	result.Notes = notes
	if err := r.unread[result.Namespace]; err != nil && !d.IsReview() {
		reviewed := reviewed{result}
		reviewed.notJudged(fmt.Sprintf("the LimitRanges of the Namespace %s of the cluster are not known: %v", result.Namespace, err))
		result = reviewed.Report
	}
	return result, nil
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
	r.notLooked = "not looked at: " + doctor.InFiles(source) + "; whether the API server can call the webhooks"
	if !source.Live() {
		r.notLooked += "; admission policies that are in no file"
	}
	return examiner, nil
}

func (r *reviewing) chooser(documents []requests.Document) (Chooser, error) {
	c := Chooser{Routes: r.routes, Path: r.o.path, SwitchesOn: r.instance.SwitchesOn, Answers: r.o.answers}
	if r.o.allRoutes || r.live != nil {
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

// printAbsent says what the steps of the shown routes took as absent, and in one line what those of the hidden suite did.
func (r *reviewing) printAbsent(shown map[string]bool, hidden string) {
	seen := r.absentOf(func(path string) bool { return shown[path] || hidden == "" })
	if len(seen) > 0 {
		who, adds := "No file", " --cluster-dir adds files."
		if r.live != nil {
			who, adds = "Neither a file nor the cluster", ""
		}
		_, _ = fmt.Fprintf(r.Out, "%s has any %s: steps that look at them found none.%s\n", who, strings.Join(seen, ", "), adds)
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
