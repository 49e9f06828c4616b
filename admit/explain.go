package admit

import "fmt"

// explanationLength is the number of characters of a line of an explanation.
const explanationLength = 160

// explanation holds the current step's notes about itself.
type explanation struct {
	wanted bool
	lines  []string
}

// Explain says in one plain line why the step did what it did, or nothing, naming the label, the field or the entry of
// the policy that decided. Only `usher review --explain` shows it; a server drops it. The arguments are strings because
// those cost nothing when they are dropped: ask Explained before composing a line that does.
func (r *Request) Explain(format string, args ...string) {
	if !r.explanation.wanted {
		return
	}
	all := make([]any, len(args))
	for i, arg := range args {
		all[i] = Shorten(arg, explanationLength-40)
	}
	r.explanation.lines = append(r.explanation.lines, Shorten(fmt.Sprintf(format, all...), explanationLength))
}

// Explained reports whether lines of Explain are shown.
func (r *Request) Explained() bool { return r.explanation.wanted }

// Explained returns the chain with the results of its steps saying why.
func (c Chain) Explained() Chain {
	c.explained = true
	return c
}

// takeWhy returns the lines of a step that has ended, with one for each field that it refuses.
func (r *Request) takeWhy(done StepResult) []string {
	if !r.explanation.wanted {
		return nil
	}
	for _, refused := range done.Refused[:min(len(done.Refused), maxProblems)] {
		r.Explain("refuses the request because of %s", refused.Field)
	}
	lines := r.explanation.lines
	r.explanation.lines = nil
	return lines
}
