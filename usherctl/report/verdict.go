package report

import (
	"errors"
	"slices"

	"usher.dev/usher/internal/cli"
)

// Verdict is the verdict on a subject.
type Verdict string

// The verdicts: on what was reviewed, and on what was examined.
const (
	Allowed    Verdict = "allowed"
	Denied     Verdict = "denied"
	Invalid    Verdict = "invalid"    // the API server refuses the object itself
	NotJudged  Verdict = "not judged" // a step asked for what is not known here
	Errored    Verdict = "error"      // it could not be reviewed or examined
	Skipped    Verdict = "skipped"    // no route was called, so that nothing is known of the object
	Passed     Verdict = "passed"
	Unanswered Verdict = "asked" // it is known who is asked; some answers are not judged
	Failed     Verdict = "failed"
	Rejected   Verdict = "refused" // the API server refuses the request, or would
)

// VerdictOf returns the verdict that follows from the findings about what was examined.
func VerdictOf(findings []Finding) Verdict {
	return map[Exit]Verdict{Fine: Passed, Refused: Failed, Unjudged: Errored}[exitOf(findings)]
}

// Exit is the exit code of a command. The highest wins.
type Exit int

// The exit codes.
const (
	Fine     Exit = 0
	Refused  Exit = 1 // a refusal, or a finding
	Unjudged Exit = 2 // something could not be judged
)

// Err returns the error that ends a command with the exit code: nil, cli.ErrDenied, or what could not be judged.
func (e Exit) Err(unjudged string) error {
	switch e {
	case Fine:
		return nil
	case Refused:
		return cli.ErrDenied
	}
	return errors.New(unjudged)
}

// Exit returns the exit code for one report.
func (r Report) Exit() Exit {
	worst := exitOf(r.Findings)
	switch {
	case r.Verdict == NotJudged || r.Verdict == Errored || unknownWebhook(r.Webhooks) >= 0:
		worst = Unjudged
	case r.Verdict == Denied || r.Verdict == Invalid || r.Verdict == Failed || r.Verdict == Rejected:
		worst = max(worst, Refused)
	}
	return worst
}

// refusedByKubectl says what becomes of an unknown field.
const refusedByKubectl = ": kubectl refuses it, and the API server drops it"

// Strictly returns what is wrong with an object that is otherwise fine: no route handles it, or kubectl refuses its fields.
func (r Report) Strictly() (findings []Finding) {
	if r.Verdict == Skipped {
		findings = append(findings, Finding{ID: "skipped", Severity: Error, Message: "no route handles it"})
	}
	for _, field := range r.Unknown {
		findings = append(findings, Finding{ID: "unknown-field", Severity: Error, Message: field + refusedByKubectl})
	}
	return findings
}

func exitOf(findings []Finding) (worst Exit) {
	for _, f := range findings {
		switch f.Severity {
		case Unknown:
			worst = Unjudged
		case Error, Warning:
			worst = max(worst, Refused)
		}
	}
	return worst
}

// ExitOfReview returns the exit code for reports of objects, of which a refusal is known whatever else is not: 1 if any
// is refused, else 2 if any could not be judged.
func ExitOfReview(reports []Report) Exit {
	if slices.ContainsFunc(reports, func(r Report) bool { return r.Exit() == Refused }) {
		return Refused
	}
	return ExitOf(reports)
}

// ExitOf returns the exit code for reports: the highest.
func ExitOf(reports []Report) (worst Exit) {
	for _, r := range reports {
		worst = max(worst, r.Exit())
	}
	return worst
}
