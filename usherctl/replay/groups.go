package replay

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"usher.dev/usher/internal/printable"
	"usher.dev/usher/usherctl/report"
)

// maxGroups is the number of groups, and of reasons, that are kept; maxExamples that of the examples of each.
const maxGroups, maxExamples = 2000, 3

// Result is what `usherctl review --audit-log -o json` prints. Later versions only add fields.
type Result struct {
	Requests   int      `json:"requests"` // that usher is for
	Others     int      `json:"others"`   // events that usher is not for, or that have no answer
	Same       int      `json:"same"`
	Judged     int      `json:"judged"`
	NotCalled  int      `json:"notCalled"` // of the requests: usher was not called for them, and now is
	Allowed    int      `json:"allowed"`   // of these: nothing is refused or changed
	Alike      int      `json:"alike"`     // of the same: the log has nothing of usher, and both policies refuse or change it alike
	DryRuns    int      `json:"dryRuns"`   // of the requests
	Otherwise  int      `json:"otherwise"` // that --was judges otherwise than the log has it
	From       string   `json:"from,omitempty"`
	To         string   `json:"to,omitempty"`
	Groups     []Group  `json:"groups"`
	Ungrouped  int      `json:"ungrouped,omitempty"` // differences beyond the groups that are kept
	NotSent    []Reason `json:"notSent,omitempty"`   // if usher was not called in the logs: why it is not now, either
	NotJudged  []Reason `json:"notJudged"`
	Unreadable []string `json:"unreadable,omitempty"`

	refused, changed, traced bool
	unsent                   int
}

// Key is what the differences of a group have in common.
type Key struct {
	Difference string `json:"difference"` // newly refused, newly allowed, patched differently …
	Rule       string `json:"rule"`
	Namespace  string `json:"namespace,omitempty"`
	Workload   string `json:"workload"`
}

// Group is differences of one rule, namespace and workload.
type Group struct {
	Key
	Count    int       `json:"count"`
	First    string    `json:"first"`
	Last     string    `json:"last"`
	Examples []Example `json:"examples"`
}

// Example is a request.
type Example struct {
	At        string   `json:"at"` // file and line
	Time      string   `json:"time"`
	Operation string   `json:"operation"`
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	User      string   `json:"user"`
	DryRun    bool     `json:"dryRun,omitempty"`
	Message   string   `json:"message,omitempty"`
	Patch     []string `json:"patch,omitempty"`
}

// Reason is why requests were not judged.
type Reason struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
	First  string `json:"first"` // the place of the first
}

// add counts what was found about a request.
func (r *Result) add(o outcome) {
	if !o.concerns {
		r.Others++
		return
	}
	r.Requests++
	at := o.event.Received.UTC().Format(time.RFC3339)
	r.From, r.To = min(cmp.Or(r.From, at), at), max(r.To, at)
	if o.event.DryRun() {
		r.DryRuns++
	}
	if o.otherwise {
		r.Otherwise++
	}
	if r.traced = r.traced || o.traced; o.uncalled {
		r.NotCalled++
	}
	if o.why != "" {
		count(&r.NotJudged, o.why, o.event.Place.String())
		return
	}
	switch r.Judged++; {
	case len(o.differences) > 0:
	case o.unsent != "":
		r.unsent++
		count(&r.NotSent, o.unsent, o.event.Place.String())
	case o.alike:
		r.Same++
		r.Alike++
	case o.uncalled:
		r.Allowed++
	default:
		r.Same++
	}
	for _, d := range o.differences {
		r.changed, r.refused = true, r.refused || d.kind == refused
		r.group(d, at)
	}
}

func (r *Result) group(d difference, at string) {
	key := Key{d.kind, d.rule, d.about.event.ObjectRef.Namespace, d.workload()}
	i := slices.IndexFunc(r.Groups, func(g Group) bool { return g.Key == key })
	if i < 0 {
		if i = len(r.Groups); i == maxGroups {
			r.Ungrouped++
			return
		}
		r.Groups = append(r.Groups, Group{Key: key, First: at})
	}
	g := &r.Groups[i]
	g.Count++
	g.First, g.Last = min(g.First, at), max(g.Last, at)
	if len(g.Examples) < maxExamples {
		g.Examples = append(g.Examples, d.example())
	}
}

// count counts a reason.
func count(all *[]Reason, why, at string) {
	i := slices.IndexFunc(*all, func(other Reason) bool { return other.Reason == why })
	if i < 0 {
		if i = len(*all); i == maxGroups {
			i, (*all)[i-1].Reason = i-1, "for other reasons"
		} else {
			*all = append(*all, Reason{Reason: why, First: at})
		}
	}
	(*all)[i].Count++
}

// end tells requests that were the same from those of logs in which usher was never called: calls of validating webhooks alone leave no trace.
func (r *Result) end() {
	if r.traced {
		r.Same, r.NotSent, r.unsent = r.Same+r.unsent, nil, 0
	} else {
		r.Allowed, r.Same, r.NotCalled = r.Allowed+r.Same-r.Alike, r.Alike, r.Requests-r.unsent
	}
	r.sort()
}

// sort puts what is most first.
func (r *Result) sort() {
	order := []string{refused, allowed, another, changed, otherwise}
	slices.SortStableFunc(r.Groups, func(a, b Group) int {
		return cmp.Or(slices.Index(order, a.Difference)-slices.Index(order, b.Difference), b.Count-a.Count)
	})
	slices.SortFunc(r.NotJudged, func(a, b Reason) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Reason, b.Reason)) })
}

// text prints the result for people.
func (r *Result) text(to io.Writer) {
	line := func(format string, values ...any) {
		_, _ = fmt.Fprintln(to, printable.Line(fmt.Sprintf(format, values...)))
	}
	for i, g := range r.Groups {
		if i == 0 || g.Difference != r.Groups[i-1].Difference {
			line("%s", g.Difference)
		}
		line("  %s  %s: %s, %s to %s", g.Rule, g.Workload, times(g.Count), g.First, g.Last)
		for _, e := range g.Examples {
			e.text(line)
		}
	}
	if r.Ungrouped > 0 {
		line("and %d differences in more groups", r.Ungrouped)
	}
	reasons(line, "not sent to usher", r.NotSent)
	reasons(line, "not judged", r.NotJudged)
	for _, problem := range r.Unreadable {
		line("  %s", problem)
	}
	r.summary(line)
}

func reasons(line func(string, ...any), of string, all []Reason) {
	if len(all) > 0 {
		line("%s", of)
	}
	for _, why := range all {
		line("  %s: %s, first %s", why.Reason, times(why.Count), why.First)
	}
}

func (e Example) text(line func(string, ...any)) {
	dry := ""
	if e.DryRun {
		dry = ", a dry run"
	}
	line("    %s  %s  %s %s %s by %s%s", e.At, e.Time, e.Operation, e.Kind, e.Name, e.User, dry)
	if e.Message != "" {
		line("      %s", e.Message)
	}
	for _, o := range e.Patch {
		line("      %s", o)
	}
}

func (r *Result) summary(line func(string, ...any)) {
	span := ""
	if r.From != "" {
		span = fmt.Sprintf(", from %s to %s", r.From, r.To)
	}
	dry := ""
	if r.DryRuns > 0 {
		dry = fmt.Sprintf(" (%d dry runs)", r.DryRuns)
	}
	line("%d requests for usher%s%s: %d the same, %d with differences, %d not judged; %d others", r.Requests, dry, span, r.Same,
		r.Judged-r.Same-r.Allowed-r.unsent, r.Requests-r.Judged, r.Others)
	if r.NotCalled+len(r.NotSent) > 0 {
		line("usher was not called for %d of them in the log: %d would be allowed as they are; %d more would not be sent to it", r.NotCalled, r.Allowed,
			r.unsent)
	}
	if r.Alike > 0 {
		line("%d of the same, for which usher was not called, are refused or changed alike by both policies", r.Alike)
	}
	if r.Otherwise > 0 {
		line("%d requests are not as the policy of --was has it: another one may have been in force, or objects of the cluster are in none of the files",
			r.Otherwise)
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// exit returns the exit code: strictly also for what is allowed or patched otherwise.
func (r *Result) exit(strict bool) report.Exit {
	switch {
	case r.refused || strict && r.changed:
		return report.Refused
	case r.Judged < r.Requests || len(r.Unreadable) > 0 || r.Requests == 0:
		return report.Unjudged
	}
	return report.Fine
}
