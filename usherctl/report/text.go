package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"usher.dev/usher/internal/answer"
	"usher.dev/usher/internal/printable"
)

// Style configures how text is shown.
type Style struct {
	answer.Style
	Patch bool // show the operations of the patch, in place of the difference
	// Documents shows the object after each webhook of an audit event.
	Documents bool
}

// Text prints a report: the verdict, each route with the outcome of its steps, messages, warnings, and what changed.
func Text(to io.Writer, r Report, style Style) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", style.Paint(answer.Colors[string(r.Verdict)]+";"+answer.Bold, string(r.Verdict)), printable.Lines(r.title()))
	requestText(&b, r.Request)
	webhooksText(&b, r.Webhooks, style)
	if r.Request == nil {
		findingsText(&b, r.Findings, style)
	}
	pluginsText(&b, r, style)
	for _, call := range r.Calls {
		callText(&b, call, style)
	}
	refusalText(&b, r, style)
	if r.Request != nil { // they are about what the calls show
		findingsText(&b, r.Findings, style)
	}
	blameText(&b, r.Blame)
	answer.Lines(&b, style.Paint(answer.Yellow, "warning: "), r.Warnings...)
	answer.Lines(&b, style.Paint(answer.Red, "invalid: "), r.Invalid...)
	answer.Lines(&b, style.Paint(answer.Yellow, "not judged: "), Causes(false, r)...)
	notCalledText(&b, r.NotCalled, style)
	for _, field := range r.Unknown {
		answer.Lines(&b, style.Paint(answer.Yellow, "warning: "), field+refusedByKubectl)
	}
	for _, note := range r.Notes {
		for _, line := range note.Lines {
			fmt.Fprintf(&b, "  %s\n", printable.Lines(line))
		}
	}
	answer.Lines(&b, "", r.Hint)
	if !style.Patch && (r.Verdict == Allowed || r.Verdict == NotJudged) && r.Request == nil {
		b.WriteString(Diff(r.Before, r.After, style))
	}
	_, _ = io.WriteString(to, b.String())
}

var severityColors = map[Severity]string{Error: answer.Red, Warning: answer.Yellow, Info: answer.Cyan, Unknown: answer.Red}

func findingsText(b *strings.Builder, findings []Finding, style Style) {
	for _, f := range findings {
		findingText(b, f, style)
	}
}

// findingText prints a finding: what is wrong with what, the command that corrects it, and the page.
func findingText(b *strings.Builder, f Finding, style Style) {
	fmt.Fprintf(b, "  %s %s", style.Paint(severityColors[f.Severity], string(f.Severity)+":"), f.ID)
	if about := cmp.Or(strings.Join(f.Webhooks, ",\n    "), f.Object); about != "" {
		fmt.Fprintf(b, ": %s", printable.Lines(about))
	}
	b.WriteByte('\n')
	indented(b, "    ", printable.Lines(f.Message))
	indented(b, "      ", style.paintDiff(printable.Lines(f.Diff)))
	answer.Lines(b, "fix:  ", strings.Split(f.Fix, "\n")...)
	answer.Lines(b, "look: ", strings.Split(f.Look, "\n")...)
	answer.Lines(b, "see:  ", f.Link)
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
		fmt.Fprintf(b, "  %s  %s\n", strings.Join(paths, ", "), style.Paint(answer.Yellow, "not called: ")+printable.Lines(route.Why))
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
		if title = s.Operation + " " + s.object(); s.Of != "" {
			title = s.Of + ": " + title
		}
	default:
		title = s.Of
	}
	source := s.Source
	if s.Updates != "" {
		source += ": an update of the stored " + s.Updates
	}
	return strings.TrimSpace(title + "  (" + source + ")")
}

// object returns the kind and the name, such as "Pod apps/web".
func (s Subject) object() string {
	return s.Kind + " " + strings.TrimPrefix(s.Namespace+"/"+s.Name, "/")
}

func callText(b *strings.Builder, c Call, style Style) {
	verdict, color := c.Outcome, answer.Colors[c.Outcome]
	switch {
	case c.Outcome == "denied":
		verdict = fmt.Sprintf("%s, %d %s", c.Outcome, c.Code, c.Reason)
	case c.Outcome != "mutated" && len(c.Unjudged()) > 0:
		verdict, color = string(NotJudged), answer.Colors[string(NotJudged)]
	}
	if c.Webhook != "" {
		webhookCallText(b, c, style)
	}
	if c.Path != "" {
		fmt.Fprintf(b, "  %s  %s\n", c.Path, style.Paint(color, verdict))
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
	answer.Lines(b, "untouched: ", c.Untouched)
	answer.Lines(b, "message: ", c.problems())
	answer.Lines(b, style.Paint(answer.Yellow, "warning: "), c.Warnings...)
	if !style.Patch {
		return
	}
	answer.Patch(b, c.Patch)
}

// problems returns the message of a call, with each problem of a step on a line of its own.
func (c Call) problems() string {
	var all []string
	for _, s := range c.Steps {
		for _, refused := range s.Refused {
			all = append(all, s.Name+": "+refused)
		}
	}
	if id, is := strings.CutPrefix(c.Message, strings.Join(all, "; ")); is {
		return strings.Join(all, ";\n         ") + id
	}
	return c.Message
}

// pluginsText names the plug-ins of the API server that changed or refused an object.
func pluginsText(b *strings.Builder, r Report, style Style) {
	var names []string
	for _, p := range r.Plugins {
		if p.Outcome == "changed" && !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(b, "  %s  %s\n", strings.Join(names, ", "), style.Paint(answer.Colors["mutated"], "changed"))
	}
}

// refusalText prints the refusal of a plug-in of the API server, unless it is a reason why the object is invalid.
func refusalText(b *strings.Builder, r Report, style Style) {
	for _, p := range r.Plugins {
		if p.Outcome == "refused" && len(r.Invalid) == 0 {
			fmt.Fprintf(b, "  %s  %s\n", p.Name, style.Paint(answer.Colors["denied"], "denied"))
			answer.Lines(b, "message: ", p.Message)
		}
	}
}

// indented prints the lines of a text.
func indented(b *strings.Builder, indent, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(b, "%s%s\n", indent, strings.TrimSuffix(line, "\n"))
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
