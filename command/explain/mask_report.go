package explain

import (
	"encoding/json"

	"usher.dev/usher/command/review"
)

// Report hides what is hidden in all parts of the report of a review.
func (m *Mask) Report(r *review.Report) {
	if m.Show {
		return
	}
	for _, document := range []*json.RawMessage{&r.Before, &r.After} {
		if len(*document) > 0 {
			*document = m.Object(*document)
		}
	}
	for i := range r.Calls {
		c := &r.Calls[i]
		m.operations(c.Patch)
		for k := range c.Steps {
			m.operations(c.Steps[k].Patch)
		}
	}
	m.hide(r) // after all values were found
}

// hide hides values in the texts of a report.
func (m *Mask) hide(r *review.Report) {
	for i := range r.Calls {
		c := &r.Calls[i]
		c.Message, c.Warnings, c.Changes = m.Text(c.Message), m.texts(c.Warnings), m.texts(c.Changes)
		for k := range c.Steps {
			c.Steps[k].Why, c.Steps[k].Refused = m.texts(c.Steps[k].Why), m.texts(c.Steps[k].Refused)
		}
		for k := range c.Causes {
			c.Causes[k].Message = m.Text(c.Causes[k].Message)
		}
		for key, value := range c.Audit {
			c.Audit[key] = m.Text(value)
		}
	}
	for i := range r.Notes {
		r.Notes[i].Lines = m.texts(r.Notes[i].Lines)
	}
	for i := range r.Findings {
		r.Findings[i].Message = m.Text(r.Findings[i].Message)
	}
}

// operations hides in the operations of a patch of usher, which has neither copy nor move.
func (m *Mask) operations(patch []review.Operation) {
	for i := range patch {
		if value, err := review.DecodeJSON(patch[i].Value); err == nil && len(patch[i].Value) > 0 {
			patch[i].Value = encode(m.value(tokens(patch[i].Path), value))
		}
	}
}
