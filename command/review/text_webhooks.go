package review

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// webhooksText prints the webhooks of each configuration below its name, with whether each is called, and their number.
func webhooksText(b *strings.Builder, webhooks []Webhook, style Style) {
	if len(webhooks) == 0 {
		return
	}
	width, configuration := 0, ""
	for _, w := range webhooks {
		width = max(width, utf8.RuneCountInString(harmless(w.Name)))
	}
	for _, w := range webhooks {
		if w.Configuration != configuration {
			configuration = w.Configuration
			fmt.Fprintf(b, "  %s\n", harmless(configuration))
		}
		name := harmless(w.Name)
		fmt.Fprintf(b, "    %s%s  %s\n", name, strings.Repeat(" ", width-utf8.RuneCountInString(name)), w.text(style))
		if w.Fix != "" {
			fmt.Fprintf(b, "    %*s  fix: %s\n", width, "", harmless(w.Fix))
		}
	}
	fmt.Fprintf(b, "  %s\n", webhooksSummary(webhooks))
}

// text says whether a webhook is called.
func (w Webhook) text(style Style) string {
	why := harmless(strings.ReplaceAll(w.Why, "\n", " "))
	switch {
	case w.Called && why != "":
		return style.paint(green, "called") + ", " + why
	case w.Called:
		return style.paint(green, "called")
	case w.Filter == string(Unknown):
		return style.paint(red, "unknown: ") + why
	}
	if !strings.HasPrefix(why, w.Filter+"[") { // such as rules[0].operations
		why = w.Filter + ": " + why
	}
	return style.paint(yellow, "not called: ") + why
}

// webhooksSummary counts the webhooks: "3 of 7 webhooks are called, 1 is unknown".
func webhooksSummary(webhooks []Webhook) string {
	count := func(is func(Webhook) bool) (n int) {
		for _, w := range webhooks {
			if is(w) {
				n++
			}
		}
		return n
	}
	called, unknown := count(func(w Webhook) bool { return w.Called }), count(func(w Webhook) bool { return w.Filter == string(Unknown) })
	text := fmt.Sprintf("%d of %d webhooks are called", called, len(webhooks))
	switch {
	case len(webhooks) == 1:
		text = fmt.Sprintf("%d of 1 webhook is called", called)
	case called == 1:
		text = fmt.Sprintf("1 of %d webhooks is called", len(webhooks))
	}
	if unknown > 0 {
		text += fmt.Sprintf(", of %d it is not known", unknown)
	}
	return text
}

// uncertain reports whether it cannot be told of some webhook whether it is called.
func (r Report) uncertain() bool {
	return slices.ContainsFunc(r.Webhooks, func(w Webhook) bool { return w.Filter == string(Unknown) })
}
