package review

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"usher.dev/usher/internal/printable"
)

// Style configures how text is shown.
type Style struct {
	Color bool
	Patch bool // show the operations of the patch, in place of the difference
	// Documents shows the object after each webhook of an audit event.
	Documents bool
}

const red, green, yellow, bold, cyan = "31", "32", "33", "1", "36"

// paint colours text for a terminal.
func (s Style) paint(color, text string) string {
	if !s.Color {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// Heading returns a text as a heading.
func (s Style) Heading(text string) string { return s.paint(bold, text) }

// Good returns a text as good news.
func (s Style) Good(text string) string { return s.paint(green+";"+bold, text) }

// Bad returns a text as bad news.
func (s Style) Bad(text string) string { return s.paint(red+";"+bold, text) }

var verdictColors = map[string]string{"passed": green, "failed": red, "refused": red, "allowed": green, "mutated": cyan, "denied": red, "error": red, "invalid": red, "skipped": yellow, "asked": yellow, "not judged": yellow}

// Text prints a report: the verdict, each route with the outcome of its steps, messages, warnings, and what changed.
func Text(to io.Writer, r Report, style Style) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", style.paint(verdictColors[string(r.Verdict)]+";"+bold, string(r.Verdict)), printable.Lines(r.title()))
	requestText(&b, r.Request)
	webhooksText(&b, r.Webhooks, style)
	if r.Request == nil {
		findingsText(&b, r.Findings, style)
	}
	for _, call := range r.Calls {
		callText(&b, call, style)
	}
	if r.Request != nil { // they are about what the calls show
		findingsText(&b, r.Findings, style)
	}
	blameText(&b, r.Blame)
	lines(&b, style.paint(yellow, "warning: "), r.Warnings...)
	lines(&b, style.paint(red, "invalid: "), r.Invalid...)
	lines(&b, style.paint(yellow, "not judged: "), r.Unjudged...)
	notCalledText(&b, r.NotCalled, style)
	for _, field := range r.Unknown {
		lines(&b, style.paint(yellow, "warning: "), field+refusedByKubectl)
	}
	for _, note := range r.Notes {
		for _, line := range note.Lines {
			fmt.Fprintf(&b, "  %s\n", printable.Lines(line))
		}
	}
	lines(&b, "", r.Hint)
	if !style.Patch && (r.Verdict == Allowed || r.Verdict == NotJudged) && r.Request == nil {
		b.WriteString(Diff(r.Before, r.After, style))
	}
	_, _ = io.WriteString(to, b.String())
}

var severityColors = map[Severity]string{Error: red, Warning: yellow, Info: cyan, Unknown: red}

func findingsText(b *strings.Builder, findings []Finding, style Style) {
	for _, f := range findings {
		findingText(b, f, style)
	}
}

// findingText prints a finding: what is wrong with what, the command that corrects it, and the page.
func findingText(b *strings.Builder, f Finding, style Style) {
	fmt.Fprintf(b, "  %s %s", style.paint(severityColors[f.Severity], string(f.Severity)+":"), f.ID)
	if f.Object != "" {
		fmt.Fprintf(b, ": %s", printable.Lines(f.Object))
	}
	b.WriteByte('\n')
	indented(b, "    ", printable.Lines(f.Message))
	indented(b, "      ", style.paintDiff(printable.Lines(f.Diff)))
	lines(b, "fix:  ", strings.Split(f.Fix, "\n")...)
	lines(b, "look: ", strings.Split(f.Look, "\n")...)
	lines(b, "see:  ", f.Link)
}

// notCalledText names the routes that were not called, with each reason once.
func notCalledText(b *strings.Builder, routes []NotCalled, style Style) {
	for i, route := range routes {
		if slices.ContainsFunc(routes[:i], func(before NotCalled) bool { return before.Why == route.Why }) {
			continue
		}
		var paths []string
		for _, same := range routes[i:] {
			if same.Why == route.Why {
				paths = append(paths, same.Path)
			}
		}
		fmt.Fprintf(b, "  %s  %s\n", strings.Join(paths, ", "), style.paint(yellow, "not called: ")+printable.Lines(route.Why))
	}
}

// title names the subject: "CREATE Pod apps/web  (web.yaml)", after the workload that it is a pod of, or "Cluster  (files)".
func (s Subject) title() string {
	title := ""
	switch {
	case s.Case != "":
		return fmt.Sprintf("%s  (%s)", s.Case, s.Source)
	case s.Operation == "" && s.Kind != "": // it was examined, and not reviewed
		if title = strings.TrimSpace(s.Kind + " " + s.Name); s.Webhook != "" {
			title += ", webhook " + s.Webhook
		}
		if s.Source == "" {
			return title
		}
	case s.Operation != "":
		name := s.Name
		if s.Namespace != "" {
			name = s.Namespace + "/" + name
		}
		if title = strings.Join([]string{s.Operation, s.Kind, name}, " "); s.Of != "" {
			title = s.Of + ": " + title
		}
	default:
		title = s.Of
	}
	return strings.TrimSpace(title + "  (" + s.Source + ")")
}

func callText(b *strings.Builder, c Call, style Style) {
	verdict, color := c.Outcome, verdictColors[c.Outcome]
	switch {
	case c.Outcome == "denied":
		verdict = fmt.Sprintf("%s, %d %s", c.Outcome, c.Code, c.Reason)
	case c.Outcome != "mutated" && len(c.unknown()) > 0:
		verdict, color = string(NotJudged), verdictColors[string(NotJudged)]
	}
	if c.Webhook != "" {
		webhookCallText(b, c, style)
	}
	if c.Path != "" {
		fmt.Fprintf(b, "  %s  %s\n", c.Path, style.paint(color, verdict))
	}
	for _, s := range c.Steps {
		fmt.Fprintf(b, "    %-22s %s\n", s.Name, stepText(s, c.Path))
		for _, why := range s.Why {
			fmt.Fprintf(b, "      %s\n", printable.Lines(why))
		}
	}
	callDetails(b, c, style)
}

func callDetails(b *strings.Builder, c Call, style Style) {
	lines(b, "untouched: ", c.Untouched)
	lines(b, "message: ", c.Message)
	lines(b, style.paint(yellow, "warning: "), c.Warnings...)
	if !style.Patch {
		return
	}
	if len(c.Patch) > 0 {
		b.WriteString("    patch:\n")
	}
	for _, o := range c.Patch {
		fmt.Fprintf(b, "      %s\n", printable.Lines(o.folded("        ")))
	}
}

// lines prints each text that is not empty after a label.
func lines(b *strings.Builder, label string, texts ...string) {
	for _, text := range texts {
		if text != "" {
			fmt.Fprintf(b, "    %s%s\n", label, strings.ReplaceAll(printable.Lines(text), "\n", "\n    "))
		}
	}
}

// indented prints the lines of a text.
func indented(b *strings.Builder, indent, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(b, "%s%s\n", indent, strings.TrimSuffix(line, "\n"))
	}
}

// auditText prints the audit annotations of a call.
func auditText(b *strings.Builder, c Call) {
	for _, key := range slices.Sorted(maps.Keys(c.Audit)) {
		lines(b, "audit: ", key+": "+c.Audit[key])
	}
}

// OutcomeOf returns what a step of a route did, in a word or two.
func OutcomeOf(s Step, path string) string {
	switch {
	case s.Mode == "off":
		return "skipped"
	case len(s.Refused) > 0:
		return "refused"
	case len(s.Patch) > 0:
		return "changed"
	case len(s.Unknown) > 0:
		return string(NotJudged)
	case strings.HasPrefix(path, "/validate-"):
		return "passed"
	}
	return "nothing to do"
}

func stepText(s Step, path string) string {
	text := OutcomeOf(s, path)
	if s.Mode != "enforce" || s.Override != "" {
		text += ", mode " + s.Mode
	}
	if s.Override != "" {
		text += " by override " + s.Override
	}
	return text
}
