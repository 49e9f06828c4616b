package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/admit"
	"usher.dev/usher/command/doctor"
	"usher.dev/usher/command/review"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
)

// reviewing is one run of `usher review`.
type reviewing struct {
	Program
	o      reviewOptions
	routes []admit.Route
	kinds  review.Catalogue
}

// withPods replaces workloads by the pods that controllers make of them, unless --no-templates.
func (r reviewing) withPods(documents []review.Document) []review.Document {
	if !r.o.makesPods() {
		return documents
	}
	return review.WithPods(documents, r.o.templates, r.o.Options, func(object *unstructured.Unstructured) bool {
		request := &admit.Request{Kind: metav1.GroupVersionKind(object.GroupVersionKind()), Operation: r.o.Operation, Namespace: object.GetNamespace()}
		return slices.ContainsFunc(r.routes, func(route admit.Route) bool { return route.Covers(request) })
	})
}

// printReviews prints the AdmissionReview of each document. The error names all documents that have none.
func (r reviewing) printReviews(documents []review.Document) error {
	var problems []error
	for _, d := range documents {
		body, err := review.AsReview(d, r.o.Options, r.kinds)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", d.Source, err))
			continue
		}
		if _, err := fmt.Fprintf(r.Out, "%s\n", body); err != nil {
			return err
		}
	}
	return errors.Join(problems...)
}

// reportAll reviews documents. Namespaces among them and among others have the labels that selectors see.
func (r reviewing) reportAll(ctx context.Context, documents []review.Document, others ...review.Document) ([]review.Report, error) {
	reports, kinds := []review.Report{}, r.Suites.Kinds()
	chooser, err := r.chooser(slices.Concat(documents, others))
	if err != nil {
		return nil, err
	}
	examiner, err := r.examiner(ctx, documents)
	if err != nil {
		return nil, err
	}
	for _, d := range documents {
		body, err := review.AsReview(d, r.o.Options, r.kinds)
		if err != nil {
			reports = append(reports, review.NotSent(d, err))
			continue
		}
		var examined review.Report
		if examiner != nil {
			examined = examiner.Examine(ctx, d, r.o.Options)
			if !r.o.allRoutes {
				chooser.NotCalled = registeredAs(examined.Webhooks).why
			}
		}
		choice, err := chooser.Choose(body)
		if err != nil {
			return nil, err
		}
		notes, err := r.explain(body) // before the review counts
		if err != nil {
			return nil, err
		}
		report := review.Run(ctx, d, body, choice, kinds)
		report.Notes, report.Webhooks = notes, examined.Webhooks
		if examined.Verdict == review.Failed {
			report.Verdict = review.Denied // by the API server, because of some webhook
		}
		reports = append(reports, report)
	}
	return reports, nil
}

// examiner returns what knows the webhooks of the cluster; nil without --doctor.
func (r reviewing) examiner(ctx context.Context, documents []review.Document) (*doctor.Examiner, error) {
	if !r.o.doctor {
		return nil, nil
	}
	source, err := r.o.registered.openSource()
	if err != nil {
		return nil, err
	}
	examiner, err := doctor.NewExaminer(ctx, source, r.kinds)
	if err != nil {
		return nil, err
	}
	examiner.Learn(ctx, documents, r.o.Options)
	return examiner, nil
}

func (r reviewing) chooser(documents []review.Document) (review.Chooser, error) {
	c := review.Chooser{Routes: r.routes, Path: r.o.path}
	if r.o.allRoutes {
		return c, nil
	}
	labels, err := namespaceLabels(r.o.clusterSource.dir, documents)
	c.NotCalled = unregistered{webhooks.OneAmplifier(r.routes), labels}.why
	return c, err
}

// explain returns what the suites say about a review.
func (r reviewing) explain(body []byte) (all []suite.Note, err error) {
	for _, suite := range r.Suites {
		if suite.Explain == nil {
			continue
		}
		notes, err := suite.Explain(body, r.o.explain)
		if err != nil {
			return nil, err
		}
		all = append(all, notes...)
	}
	return all, nil
}

// print prints the reports. The error, if any, ends the command with the exit code of the worst verdict.
func (r reviewing) print(reports []review.Report) error {
	if r.o.output == "json" || r.o.output == "junit" {
		if err := r.printReports(r.o.output, "usher review", reports); err != nil {
			return err
		}
		return r.verdict(reports)
	}
	style := r.style()
	style.Patch = r.o.output == "patch"
	for _, report := range reports {
		if r.o.quiet && report.Verdict != review.Denied && report.Verdict != review.NotJudged {
			continue
		}
		review.Text(r.Out, report, style)
		_, _ = fmt.Fprintln(r.Out)
	}
	_, _ = fmt.Fprintln(r.Out, review.Summary(reports))
	return r.verdict(reports)
}

// verdict returns the error that ends the command with the exit code of the worst report.
func (r reviewing) verdict(reports []review.Report) error {
	worst := review.ExitOf(reports)
	if r.o.strict && slices.ContainsFunc(reports, func(r review.Report) bool { return r.Verdict == review.Skipped }) {
		worst = max(worst, review.Refused)
	}
	return exit(worst, "some objects could not be reviewed")
}
