package review

// Verdict is the verdict on a subject.
type Verdict string

// The verdicts: on what was reviewed, and on what was examined.
const (
	Allowed   Verdict = "allowed"
	Denied    Verdict = "denied"
	Skipped   Verdict = "skipped" // no route was called, so that nothing is known of the object
	Passed    Verdict = "passed"
	Failed    Verdict = "failed"
	NotJudged Verdict = "error"
)

// VerdictOf returns the verdict that follows from the findings about what was examined.
func VerdictOf(findings []Finding) Verdict {
	return map[Exit]Verdict{Fine: Passed, Refused: Failed, Unjudged: NotJudged}[exitOf(findings)]
}

// Exit is the exit code of a command. The highest wins.
type Exit int

// The exit codes.
const (
	Fine     Exit = 0
	Refused  Exit = 1 // a refusal, or a finding
	Unjudged Exit = 2 // something could not be judged
)

// Exit returns the exit code for one report.
func (r Report) Exit() Exit {
	worst := exitOf(r.Findings)
	switch {
	case r.Verdict == NotJudged || unknownWebhook(r.Webhooks) >= 0:
		worst = Unjudged
	case r.Verdict == Denied || r.Verdict == Failed:
		worst = max(worst, Refused)
	}
	return worst
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

// ExitOf returns the exit code for reports.
func ExitOf(reports []Report) (worst Exit) {
	for _, r := range reports {
		worst = max(worst, r.Exit())
	}
	return worst
}
