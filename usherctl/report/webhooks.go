package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"usher.dev/usher/internal/answer"
	"usher.dev/usher/internal/printable"
)

// webhooksText prints the webhooks of each configuration below its name, with whether each is called, and their number.
func webhooksText(b *strings.Builder, webhooks []Webhook, style Style) {
	if len(webhooks) == 0 {
		return
	}
	width, configuration := 0, ""
	for _, w := range webhooks {
		width = max(width, utf8.RuneCountInString(printable.Lines(w.Name)))
	}
	for _, w := range webhooks {
		if w.Configuration != configuration {
			configuration = w.Configuration
			fmt.Fprintf(b, "  %s\n", printable.Lines(configuration))
		}
		name := printable.Lines(w.Name)
		fmt.Fprintf(b, "    %s%s  %s\n", name, strings.Repeat(" ", width-utf8.RuneCountInString(name)), w.text(style))
		if w.Fix != "" {
			fmt.Fprintf(b, "    %*s  fix: %s\n", width, "", printable.Lines(w.Fix))
		}
	}
	fmt.Fprintf(b, "  %s\n", webhooksSummary(webhooks))
}

// text says whether a webhook is called.
func (w Webhook) text(style Style) string {
	why := printable.Lines(strings.ReplaceAll(w.Why, "\n", " "))
	switch {
	case w.Called && why != "":
		return style.Paint(answer.Green, "called") + ", " + why
	case w.Called:
		return style.Paint(answer.Green, "called")
	case w.unknown():
		return style.Paint(answer.Red, "unknown: ") + why
	}
	if !strings.HasPrefix(why, w.Filter+"[") { // such as rules[0].operations
		why = printable.Lines(w.Filter) + ": " + why
	}
	return style.Paint(answer.Yellow, "not called: ") + why
}

// webhooksSummary counts the webhooks: "3 of 7 webhooks are called, of 1 it is not known".
func webhooksSummary(webhooks []Webhook) string {
	called, unknown := 0, 0
	for _, w := range webhooks {
		if w.Called {
			called++
		}
		if w.unknown() {
			unknown++
		}
	}
	verb := "are"
	if called == 1 || len(webhooks) == 1 {
		verb = "is"
	}
	text := fmt.Sprintf("%d of %s %s called", called, plural(len(webhooks), "webhook", true), verb)
	if unknown > 0 {
		text += fmt.Sprintf(", of %d it is not known", unknown)
	}
	return text
}

// unknown reports whether it cannot be told whether the webhook is called.
func (w Webhook) unknown() bool { return w.Filter == string(Unknown) }

// unknownWebhook returns the index of the first webhook that may or may not be called, or -1.
func unknownWebhook(webhooks []Webhook) int { return slices.IndexFunc(webhooks, Webhook.unknown) }
