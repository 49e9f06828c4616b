package explain

import (
	"encoding/json"

	"usher.dev/usher/server/recording/mask"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// Hide hides what a mask hides in all parts of the report of a review.
func Hide(m *mask.Mask, r *report.Report) {
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
		c.Patch = hidden(m, c.Patch)
		for k := range c.Steps {
			c.Steps[k].Patch = hidden(m, c.Steps[k].Patch)
		}
	}
	hideTexts(m, r) // after all values were found
}

// hideTexts hides values in the texts of a report.
func hideTexts(m *mask.Mask, r *report.Report) {
	for i := range r.Calls {
		c := &r.Calls[i]
		c.Message, c.Warnings, c.Changes = maskText(m, c.Message), maskTexts(m, c.Warnings), maskTexts(m, c.Changes)
		for k := range c.Steps {
			c.Steps[k].Why, c.Steps[k].Refused = maskTexts(m, c.Steps[k].Why), maskTexts(m, c.Steps[k].Refused)
		}
		for k := range c.Causes {
			c.Causes[k].Message = maskText(m, c.Causes[k].Message)
		}
		for key, value := range c.Audit {
			c.Audit[key] = maskText(m, value)
		}
	}
	for i := range r.Notes {
		r.Notes[i].Lines = maskTexts(m, r.Notes[i].Lines)
	}
	for i := range r.Findings {
		r.Findings[i].Message = maskText(m, r.Findings[i].Message)
	}
}

// hidden returns operations without what is hidden in them.
func hidden(m *mask.Mask, patch []report.Operation) (masked []report.Operation) {
	for _, o := range patch {
		if o.Op == "copy" || o.Op == "move" {
			m.Copied(Tokens(o.From), Tokens(o.Path))
		}
		one := report.Operation{Op: o.Op, Path: o.Path, From: o.From}
		if value, err := requests.DecodeJSON(o.Value); err == nil && len(o.Value) > 0 {
			one.Value = encode(m.Value(Tokens(o.Path), value))
		}
		masked = append(masked, one)
	}
	return masked
}

// cut returns a path up to a hidden value: what is below it is content.
func cut(m *mask.Mask, p path) path {
	if m.Show {
		return p
	}
	at := p.tokens()
	for i := range at {
		if m.Hides(at[:i+1]) {
			return p[:i+1]
		}
	}
	return p
}

func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any, nil:
		return false
	}
	return true
}

func isFields(value any) bool {
	_, ok := value.(map[string]any)
	return ok
}

func encode(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return raw
}
