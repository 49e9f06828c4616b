package report

import (
	"fmt"
	"strings"

	"usher.dev/usher/internal/answer"
	"usher.dev/usher/internal/printable"
)

// Request is a request to an API server, as an audit event recorded it.
type Request struct {
	Time      string   `json:"time,omitempty"`
	User      string   `json:"user,omitempty"`
	Groups    []string `json:"groups,omitempty"`
	By        string   `json:"by,omitempty"` // who impersonated the user
	UserAgent string   `json:"userAgent,omitempty"`
	DryRun    bool     `json:"dryRun,omitempty"`
	Level     string   `json:"level,omitempty"` // of the audit policy
	AuditID   string   `json:"auditID,omitempty"`
	Code      int      `json:"code,omitempty"` // the HTTP status that the client received
	Message   string   `json:"message,omitempty"`
}

// Blame is a field that was changed, with its last writer and those before, the latest first.
type Blame struct {
	Field  string   `json:"field"`
	By     Writer   `json:"by"`
	Former []Writer `json:"former,omitempty"`
}

// Writer is the writer of a field: a webhook, or without a configuration the request itself or the API server.
type Writer struct {
	Configuration string `json:"configuration,omitempty"`
	Webhook       string `json:"webhook"`
	Round         int    `json:"round,omitempty"`
}

// String names the writer.
func (w Writer) String() string {
	text := w.Webhook
	if w.Configuration != "" {
		text += " (" + w.Configuration + ")"
	}
	if w.Round > 1 {
		text += fmt.Sprintf(", round %d", w.Round)
	}
	return text
}

// requestText prints who sent a request, when, and what the API server answered.
func requestText(b *strings.Builder, r *Request) {
	if r == nil {
		return
	}
	who := r.User
	if r.By != "" {
		who += ", impersonated by " + r.By
	}
	if r.UserAgent != "" {
		who += ", with " + r.UserAgent
	}
	if r.DryRun {
		who += ", as a dry run"
	}
	fmt.Fprintf(b, "  %s\n", printable.Lines(strings.TrimSpace(r.Time+"  by "+who)))
	if r.Message != "" {
		fmt.Fprintf(b, "  %d %s\n", r.Code, printable.Lines(r.Message))
	}
}

// webhookCallText prints what a webhook of an API server did.
func webhookCallText(b *strings.Builder, c Call, style Style) {
	name := c.Webhook
	if c.Configuration != "" {
		name += " (" + c.Configuration + ")"
	}
	outcome := style.Paint(answer.Colors[c.Outcome], c.Outcome)
	if c.Round > 1 {
		outcome += fmt.Sprintf(", called again in round %d", c.Round)
	}
	fmt.Fprintf(b, "  %s  %s\n", printable.Lines(name), outcome)
	for _, change := range c.Changes {
		fmt.Fprintf(b, "    %s\n", printable.Lines(change))
	}
	answer.AuditAnnotations(b, c.Audit)
	if c.Known == "exact" {
		answer.Lines(b, "", "the object now is exact: it equals what was stored")
	}
	if style.Documents && len(c.After) > 0 {
		fmt.Fprintf(b, "    the object now, %s:\n", c.Known)
		indented(b, "      ", printable.Lines(yamlOf(c.After)))
	}
}

// blameText prints the fields with their writers.
func blameText(b *strings.Builder, all []Blame) {
	if len(all) > 0 {
		b.WriteString("  last writers:\n")
	}
	for _, entry := range all {
		var former []string
		for _, w := range entry.Former {
			former = append(former, w.String())
		}
		text := entry.Field + "  " + entry.By.String()
		if len(former) > 0 {
			text += "; before: " + strings.Join(former, "; ")
		}
		fmt.Fprintf(b, "    %s\n", printable.Lines(text))
	}
}
