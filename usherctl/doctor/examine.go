// Package doctor is `usherctl doctor`: it examines what a cluster has registered, and what that does to requests. It only reads, but for
// the dry runs of Examiner.Canary.
package doctor

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/usherctl/doctor/connectivity"
	"usher.dev/usher/usherctl/parallel"
	"usher.dev/usher/usherctl/report"
)

// Examine returns a report for each webhook of a cluster and one for the cluster as a whole, the one with the worst
// finding first. It only reads. roots are the CAs of its API server, by which it is seen whether this machine can call
// the Services of the cluster; nil: it cannot.
func Examine(ctx context.Context, source reader.Source, roots *x509.CertPool, usher Usher) []report.Report {
	var f *snapshot
	var rights []report.Finding
	parallel.Run(func() { f = read(ctx, source, roots) }, func() { rights = usher.rightsProblems(ctx, source) })
	usher = usher.settled(f.webhooks)
	needed := usher.neededBy(f.webhooks)
	var reports []report.Report
	for i := range f.webhooks {
		w := &f.webhooks[i]
		w.needed, w.home = neededFor(*w, needed), usher
		reports = append(reports, w.report(slices.Concat(f.problems(*w), usher.webhookProblems(*w, f.namespaces))))
	}
	joinCauses(reports)
	whole := report.Report{Subject: report.Subject{Source: f.from(), Kind: "Cluster"},
		Hint: strings.TrimSpace(f.leftOut() + "\n" + leftOutByName(f.webhooks))}
	var policies []report.Finding
	for _, of := range f.policies {
		policies = append(policies, of.problems(ctx, f)...)
	}
	whole.Findings = joinUnread(slices.Concat(f.unread, podProblems(f.webhooks, f.namespaces), amplifierProblems(f.webhooks),
		twiceProblems(f.webhooks, f.broken), policies, usher.installationProblems(f.webhooks, f.namespaces), usher.problems(ctx, f, needed, rights),
		usher.healthProblems(ctx, f)))
	for i := range whole.Findings {
		if whole.Findings[i].Object == "" {
			whole.Findings[i].Object = "the cluster"
		}
	}
	whole = judged(whole)
	if usher.Unusable != nil && slices.ContainsFunc(f.webhooks, entry.ushers) { // which usher.problems says of the same finding
		whole.Unjudged, whole.Verdict = []string{"what usher should be registered for"}, report.NotJudged
	}
	reports = append(reports, whole)
	slices.SortStableFunc(reports, func(a, b report.Report) int { return compare(worst(a), worst(b)) })
	return reports
}

// problems returns what is wrong with a webhook.
func (f *snapshot) problems(w entry) []report.Finding {
	var reached []report.Finding
	called, never := w.called(), w.neverCalled(f.resources)
	if never {
		called.Consequence = "Nothing is refused for that, as its rules or conditions keep every request away."
	}
	for _, p := range f.reach.Problems(called) {
		if never && p.Severity == report.Error {
			p.Severity = report.Warning
		}
		reached = append(reached, w.reached(p))
	}
	return slices.Concat(conditionProblems(w, &f.matcher), reached,
		lockOutProblems(w, f.reach.Labels(connectivity.TargetOf(w.ClientConfig)), f),
		ruleProblems(w, f.resources), f.virtualProblem(w), exactProblem(w, f.resources),
		namespaceProblems(w, f.namespaces, f.resources), objectSelectorProblems(w),
		settingsProblems(w), timeoutProblems(w))
}

// broken reports whether the API server cannot call a webhook.
func (f *snapshot) broken(w entry) bool {
	return slices.ContainsFunc(f.reach.Problems(w.called()), func(p *connectivity.Problem) bool { return p.Severity == report.Error })
}

// worst returns the first finding of a report; without one, a finding that comes after all others.
func worst(r report.Report) report.Finding {
	if len(r.Findings) == 0 {
		return report.Finding{ID: "none", Severity: report.Info}
	}
	return r.Findings[0]
}

// from returns where the facts come from.
func (f *snapshot) from() string {
	if f.source.Live() {
		return "the API server"
	}
	return "files"
}

// InFiles says which webhooks in files of API servers were not looked at: the API shows none of them.
func InFiles(source reader.Source) string {
	if source.HasStatic() {
		return "whether each API server reads the files of --static-dir"
	}
	return "webhooks in files of the API server, which --static-dir DIR examines where the files are"
}

// leftOut says what was not looked at, since the API server or files cannot show it.
func (f *snapshot) leftOut() string {
	all := []string{"what the servers answer to a review, and how fast", "what admission policies refuse", "conversion webhooks", "NetworkPolicies",
		"admission plug-ins that are switched off", InFiles(f.source), "parameters of admission policies in the namespace of each request"}
	if len(f.away) > 0 {
		all = append(all, "rules for the APIs that do not answer: "+report.List(f.away))
	}
	then := ". Whether usher is called, a dry run shows: usherctl doctor --canary -n NAMESPACE"
	if !f.source.Live() {
		all = append(all, "what the Services serve", "usher's rights", "which resources the API server serves", "what no file has")
		then = ". --cluster=api examines more"
	}
	return "not looked at: " + strings.Join(all, "; ") + then
}

// Summary returns the last line of an examination, such as "9 webhooks in 4 configurations: nothing found".
func Summary(reports []report.Report) string {
	type told struct{ id, severity, message string } // which is printed once, for several objects
	configurations, count, webhooks, printed := map[string]bool{}, map[report.Severity]int{}, 0, map[told]bool{}
	for _, r := range reports {
		if r.Webhook != "" {
			webhooks++
			configurations[r.Kind+" "+r.Name] = true
		}
		for _, f := range r.Findings {
			if one := (told{f.ID, string(f.Severity), f.Message}); !printed[one] {
				printed[one] = true
				count[f.Severity]++
			}
		}
	}
	if webhooks == 0 && len(count) == 0 {
		return "there are no webhook configurations"
	}
	var parts []string
	for _, severity := range severities {
		if n := count[severity]; n > 0 {
			parts = append(parts, plural(n, nouns[severity]))
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing found"}
	}
	return fmt.Sprintf("%s in %s: %s", plural(webhooks, "webhook"), plural(len(configurations), "configuration"), strings.Join(parts, ", "))
}

var nouns = map[report.Severity]string{report.Error: "error", report.Warning: "warning", report.Unknown: "thing that could not be examined",
	report.Info: "remark"}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	first, rest, _ := strings.Cut(noun, " ")
	return strings.TrimSpace(fmt.Sprintf("%d %ss %s", n, first, rest))
}
