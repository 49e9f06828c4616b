package admit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"usher.dev/usher/admit/document"
)

// explanationLength is the number of characters of a line of an explanation.
const explanationLength = 160

// The maximum numbers of changes, and of refused fields, of a step that are explained one by one.
const maxExplained, maxRefused = 8, 50

// explanation holds the current step's notes about itself.
type explanation struct {
	wanted       bool
	hidingValues bool
	lines        []string
}

// Explain says in one plain line why the step did nothing or why it objects, naming the label, the field or the entry of
// the policy that decided; what the step changes is explained by its edits. Only `usherctl review --explain` shows it; a
// server drops it. The arguments are strings because those cost nothing when they are dropped: ask Explained before
// composing a line that does.
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

// Explained returns the chain with the results of its steps saying why.
func (c Chain) Explained() Chain {
	c.explained = true
	return c
}

// HidingValues returns the chain with explanations of changes that name the places without their values.
func (c Chain) HidingValues() Chain {
	c.hidingValues = true
	return c
}

// explainChanges explains what a mutator has changed, or that there was nothing to change if it has not said why.
func (r *Request) explainChanges(all []document.Change) {
	for _, c := range all[:min(len(all), maxExplained)] {
		switch verb := verbOf(c); {
		case r.explanation.hidingValues:
			r.Explain("%s %s", verb, c.Path)
		case c.Was != nil && c.Is != nil:
			r.Explain("%s %s from %s to %s", verb, c.Path, Shorten(inLine(c.Was), 50), inLine(c.Is))
		default:
			r.Explain("%s %s: %s", verb, c.Path, inLine(c.Was)+inLine(c.Is))
		}
	}
	if more := len(all) - maxExplained; more > 0 {
		r.Explain("and %s more changes", strconv.Itoa(more))
	}
	if len(r.explanation.lines) == 0 {
		r.Explain("the object is already as the step would leave it")
	}
}

func verbOf(c document.Change) string {
	switch {
	case c.Was == nil:
		return "adds"
	case c.Is == nil:
		return "removes"
	}
	return "changes"
}

// inLine returns JSON without white space; nothing for none.
func inLine(raw []byte) string {
	var b bytes.Buffer
	_ = json.Compact(&b, raw) // the JSON is valid: it was scanned or encoded by us
	return b.String()
}
