package doctor

import (
	"fmt"
	"strings"

	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/webhookmatch"
)

// conditionProblems returns the finding for match conditions that do not compile.
func conditionProblems(w entry, matcher *webhookmatch.Matcher) []report.Finding {
	var wrong []string
	for i, m := range w.MatchConditions {
		if err := matcher.Compile(m); err != nil {
			wrong = append(wrong, fmt.Sprintf("matchConditions[%d] (%s): %s", i, m.Name, strings.Join(strings.Fields(err.Error()), " ")))
		}
	}
	if len(wrong) == 0 {
		return append(neverProblem(w), failingProblems(w)...)
	}
	return []report.Finding{problem("match-condition-invalid", w.about(), "%s. Correct the expression. %s", strings.Join(wrong, "; "), w.consequence())}
}

// neverProblem returns the finding for match conditions that are false for every request. Others may have meant it.
func neverProblem(w entry) []report.Finding {
	var never []string
	for i, m := range w.MatchConditions {
		if !webhookmatch.Never(m, w.Rules) {
			continue
		}
		never = append(never, fmt.Sprintf("matchConditions[%d] (%s), %s,", i, m.Name, strings.Join(strings.Fields(m.Expression), " ")))
	}
	if about := webhookmatch.Contradiction(w.MatchConditions); len(never) == 0 && about != "" {
		return []report.Finding{milder(problem("match-condition-never", w.about(), "the match conditions contradict each other about %s: no request meets "+
			"all, so that the webhook is never called.", about), report.Warning)}
	}
	if len(never) == 0 {
		return nil
	}
	severity := report.Error
	if !w.ushers() {
		severity = report.Warning
	}
	return []report.Finding{milder(problem("match-condition-never", w.about(),
		"%s is false for every request of the rules, so that the webhook is never called.",
		strings.Join(never, " and ")), severity)}
}

// failingProblems returns the findings for match conditions that have no result for some requests, which are refused then.
func failingProblems(w entry) (found []report.Finding) {
	failing := webhookmatch.Failing(w.MatchConditions, w.Rules, strings.HasPrefix(w.kind, "Mutating"))
	for _, f := range failing {
		severity, which, then := report.Warning, "an object that has no more than it must have",
			"Such a request is refused, as failurePolicy is Fail."
		if f.Every {
			severity, which = report.Error, "any object"
		}
		switch {
		case !w.fails() && (!f.Every || f.Foreign):
			continue // the webhook is for objects that have the field
		case !w.fails():
			severity, then = report.Warning, "The webhook is not called for it, as failurePolicy is Ignore."
		}
		found = append(found, milder(problem("match-condition-fails", w.about(), "the match condition %s, %s, has no result for a %s with %s: %s. %s %s",
			f.Condition.Name, strings.Join(strings.Fields(f.Condition.Expression), " "), strings.Join(f.Requests, " or a "), which, f.Why, then, f.Remedy),
			severity))
	}
	return found
}
