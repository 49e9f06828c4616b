package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"usher.dev/usher/internal/answer"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/server/suite"
)

// Groups are the reports that say the same of pods of one owner. The first of each stands for all.
type Groups struct {
	of  map[string]*group
	all []*group
}

type group struct {
	first Report
	pods  int
}

// Add counts a report, and reports whether it says what an earlier one says of another pod of the owner.
func (g *Groups) Add(r Report) (again bool) {
	if r.Owner == "" {
		return false
	}
	key := r.Owner + "\n" + r.unnamed()
	if found := g.of[key]; found != nil {
		found.pods++
		return true
	}
	if g.of == nil {
		g.of = map[string]*group{}
	}
	g.of[key] = &group{Light(r), 1}
	g.all = append(g.all, g.of[key])
	return false
}

// unnamed returns the text of a report without the subject, its name, the ids of refusals, and the object.
func (r Report) unnamed() string {
	replaced := []string{}
	for _, text := range append([]string{r.Name}, r.refusals()...) {
		if text != "" {
			replaced = append(replaced, text, "*")
		}
	}
	r.Subject, r.Before, r.After = Subject{}, nil, nil
	var b strings.Builder
	Text(&b, r, Style{})
	return strings.NewReplacer(replaced...).Replace(b.String())
}

func (r Report) refusals() (ids []string) {
	for _, c := range r.Calls {
		ids = append(ids, c.Refusal)
	}
	return ids
}

// Text prints a line for each group of several pods that a caller shows: the owner, how many they are, why, and one of them.
func (g *Groups) Text(to io.Writer, style Style, shown func(Report) bool) {
	printed := false
	for _, of := range g.all {
		if of.pods == 1 || !shown(of.first) {
			continue
		}
		verdict := style.Paint(answer.Colors[string(of.first.Verdict)]+";"+answer.Bold, string(of.first.Verdict))
		reason, _ := of.first.reason()
		reason, _, _ = strings.Cut(cmp.Or(reason, "no problem"), "\n")
		_, _ = fmt.Fprintf(to, "%s  %s: %d pods: %s; one is %s (%s)\n", verdict, printable.Lines(of.first.Owner), of.pods, printable.Lines(reason),
			printable.Lines(of.first.Name), printable.Lines(of.first.Source))
		printed = true
	}
	if printed {
		_, _ = fmt.Fprintln(to)
	}
}

// Causes returns why reports are not judged: each cause once, with the steps that ask for it, and if wanted with the objects.
func Causes(named bool, reports ...Report) (all []string) {
	steps, objects := map[string][]string{}, map[string][]string{}
	for _, r := range reports {
		seen := map[string]bool{}
		for _, text := range r.Unjudged {
			step, cause, asks := strings.Cut(text, " asks for ")
			if !asks || strings.Contains(step, " ") {
				step, cause = "", text
			}
			if steps[cause] == nil {
				all = append(all, cause)
			}
			if !slices.Contains(steps[cause], step) {
				steps[cause] = append(steps[cause], step)
			}
			if !seen[cause] {
				seen[cause], objects[cause] = true, append(objects[cause], r.object())
			}
		}
	}
	for i, cause := range all {
		switch asking := steps[cause]; {
		case len(asking) > 1:
			all[i] = List(asking) + " ask for " + cause
		case asking[0] != "":
			all[i] = asking[0] + " asks for " + cause
		}
		if of := objects[cause]; named {
			const most = 3
			first := slices.Clone(of[:min(most, len(of))])
			if len(of) > most {
				first = append(first, fmt.Sprintf("%d more", len(of)-most))
			}
			all[i] += fmt.Sprintf(" (%s: %s)", plural(len(of), "object", true), List(first))
		}
	}
	return all
}

// Light returns a report with what its verdict, its reason and a summary need: of many, the objects and steps are not kept.
func Light(r Report) Report {
	r.Before, r.After, r.NotCalled, r.Notes = nil, nil, nil, make([]suite.Note, len(r.Notes))
	calls := r.Calls
	r.Calls = make([]Call, len(calls))
	for i, c := range calls {
		r.Calls[i] = Call{Path: c.Path, Configuration: c.Configuration, Webhook: c.Webhook, Outcome: c.Outcome, Message: c.Message, Refusal: c.Refusal}
	}
	return r
}
