package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/server/recording/mask"
	"usher.dev/usher/usherctl/explain"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// outcome is what is found about a request.
type outcome struct {
	request
	concerns    bool // usher is for such requests
	why         string
	differences []difference
	otherwise   bool // the former policy does not do what the log has

	traced   bool   // the event has something of usher
	uncalled bool   // it has not, and a mutating webhook is called now, whose calls events have
	unsent   string // it has not, and none is called now: why
	alike    bool   // both policies refuse or change it, and nothing differs
}

// The kinds of differences.
const (
	refused   = "newly refused"
	allowed   = "newly allowed"
	another   = "refused for another reason"
	otherwise = "patched differently"
	changed   = "newly changed"
)

// difference is one between what became of a request and what would.
type difference struct {
	kind, rule string
	about      recording
	call       report.Call // with the patch that differs, or that refuses
}

// judge reviews a request of the log under the policies.
func (w *worker) judge(ctx context.Context, r request) (is outcome) {
	is.request = r
	req, ok := r.asked()
	if is.concerns = ok && w.mayCover(req); !is.concerns {
		return is
	}
	rec, why := record(r, req)
	if is.why, is.traced = why, rec.traced; why == "" {
		is.compare(ctx, w, rec)
	}
	return is
}

// compare compares what is done under the new policy with what the log has, or what is done under the former policy.
func (is *outcome) compare(ctx context.Context, w *worker, rec recording) {
	was := replayed{Report: report.Report{Verdict: report.Allowed, Sections: report.Sections{Calls: rec.calls}}}
	if rec.refused.Path != "" {
		was.Verdict, was.Calls = report.Denied, append(slices.DeleteFunc(slices.Clone(rec.calls), denies), rec.refused)
	}
	now, err := w.new.run(ctx, rec)
	if !rec.traced {
		is.unsent, is.uncalled = now.unsent, now.mutates
	}
	if w.was != nil && err == nil {
		logged, why := was, ""
		if was, err = w.was.run(ctx, rec); err == nil {
			is.differences, why = compare(rec, logged, was)
		}
		if is.otherwise = len(is.differences) > 0; rec.refused.Path != "" && (is.otherwise || why != "") {
			is.differences, is.why = nil, "the policy of --was does not refuse what the log has as sent, and refused"
			return
		}
	}
	if is.differences, is.why = compare(rec, was, now); err != nil {
		is.differences, is.why = nil, "the object cannot be sent to usher"
	}
	is.alike = w.was != nil && !rec.traced && len(is.differences) == 0 && (len(now.refusals()) > 0 ||
		slices.ContainsFunc(now.Calls, func(c report.Call) bool { return c.Path != "" && len(c.Patch) > 0 }))
}

// compare returns what differs, or what is not known.
func compare(rec recording, was, now replayed) (all []difference, why string) {
	unknown := append(was.unknown(), now.unknown()...)
	switch before, after := was.refusals(), now.refusals(); {
	case len(before) > 0 && len(after) > 0:
		return otherReasons(rec, before, after), ""
	case len(after) > 0 && len(was.unknown()) == 0:
		return differencesOf(refused, rec, after), ""
	case len(before) > 0 && len(unknown) == 0:
		return differencesOf(allowed, rec, before), ""
	case len(unknown) == 0 || len(before)+len(after) == 0:
		all = patches(rec, was, now)
	}
	if len(all) == 0 && len(unknown) > 0 {
		why = unknown[0]
	}
	return all, why
}

// otherReasons returns the rules that refuse what others refused before: of the webhooks that refused, or of any if these do no longer. Of several
// that refuse, the log has one.
func otherReasons(rec recording, before, after []report.Call) []difference {
	still := slices.DeleteFunc(slices.Clone(after), func(c report.Call) bool {
		return !slices.ContainsFunc(before, func(b report.Call) bool { return b.Path == c.Path })
	})
	if len(still) == 0 {
		still = after
	}
	known := differencesOf(another, rec, before)
	return slices.DeleteFunc(differencesOf(another, rec, still), func(d difference) bool {
		return slices.ContainsFunc(known, func(k difference) bool { return k.rule == d.rule })
	})
}

func denies(c report.Call) bool { return c.Outcome == string(handlers.Denied) }

// refusals returns the calls that refuse for sure.
func (r replayed) refusals() (all []report.Call) {
	for _, c := range r.Calls {
		if denies(c) && r.Verdict == report.Denied && r.doubts[c.Path] == "" && len(c.Unjudged()) == 0 {
			all = append(all, c)
		}
	}
	return all
}

// unknown returns what is not known, so that usher may have decided otherwise.
func (r replayed) unknown() (all []string) {
	all = append(append(all, r.Unjudged...), r.lacks...)
	for _, c := range r.Calls {
		switch handlers.Outcome(c.Outcome) {
		case handlers.Allowed:
		case handlers.Mutated, handlers.Denied:
			if doubt := r.doubts[c.Path]; doubt != "" {
				all = append(all, doubt)
			}
		default:
			all = append(all, "usher fails to decide")
		}
	}
	return all
}

// patches returns the patches that differ.
func patches(rec recording, was, now replayed) (all []difference) {
	for _, c := range now.Calls {
		before, seen := sameCall(was.Calls, c), sameCall(rec.calls, c).Before
		if seen == nil {
			seen = rec.object
		}
		if now.doubts[c.Path] != "" || len(c.Unjudged()) > 0 || sameEffect(seen, before.Patch, c.Patch) {
			continue
		}
		differs := report.Call{Path: c.Path, Patch: append(minus("no longer", before.Patch, c.Patch), minus("new", c.Patch, before.Patch)...)}
		for _, step := range stepsOf(c, before) {
			rule := cmp.Or(step, c.Path)
			if i := slices.IndexFunc(all, func(d difference) bool { return d.rule == rule }); i >= 0 { // it was called again
				all[i].call.Patch = append(all[i].call.Patch, differs.Patch...)
				continue
			}
			kind := otherwise
			if before.Path == "" && !rec.traced {
				kind = changed
			}
			all = append(all, difference{kind, rule, rec, differs})
		}
	}
	return all
}

// sameEffect reports whether two patches have the same effect on an object.
func sameEffect(document json.RawMessage, a, b []report.Operation) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	is := decoded(document)
	if is == nil {
		return len(a)+len(b) == 0
	}
	one, errOne := applied(is, a)
	other, errOther := applied(is, b)
	return errOne == nil && errOther == nil && reflect.DeepEqual(one, other)
}

// stepsOf names the steps whose operations only one of two calls has; if that is none, it is not known.
func stepsOf(a, b report.Call) (names []string) {
	for _, pair := range [][2]report.Call{{a, b}, {b, a}} {
		differing := minus("", pair[0].Patch, pair[1].Patch)
		for _, s := range pair[0].Steps {
			if len(minus("", s.Patch, differing)) < len(s.Patch) && !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	if len(names) == 0 {
		names = []string{""}
	}
	return names
}

// minus returns the operations that another patch does not have, with a word before what they do.
func minus(word string, patch, other []report.Operation) (all []report.Operation) {
	for _, o := range patch {
		if !slices.ContainsFunc(other, func(also report.Operation) bool { return also.String() == o.String() }) {
			o.Op = strings.TrimSpace(word + " " + o.Op)
			all = append(all, o)
		}
	}
	return all
}

// sameCall returns the call of a webhook in a round; an empty one if there is none.
func sameCall(calls []report.Call, of report.Call) (found report.Call) {
	for _, c := range calls {
		if c.Path == of.Path && c.Round == of.Round {
			return c
		}
	}
	return found
}

// differencesOf returns a difference for each rule by which calls refuse.
func differencesOf(kind string, rec recording, calls []report.Call) (all []difference) {
	for _, c := range calls {
		seen := map[string]bool{}
		for _, s := range c.Steps {
			for _, text := range s.Refused {
				rule := s.Name
				if found := explain.RuleIn.FindStringSubmatch(text); found != nil {
					rule += ", " + cmp.Or(found[1:]...)
				}
				if s.Mode == string(admit.Enforce) && !seen[rule] {
					seen[rule], all = true, append(all, difference{kind, rule, rec, report.Call{Path: c.Path, Message: text}})
				}
			}
		}
		if len(seen) == 0 {
			all = append(all, difference{kind, c.Path, rec, report.Call{Path: c.Path, Message: c.Message}})
		}
	}
	return all
}

// example returns a difference for people, without the values that usherctl explain hides.
func (d difference) example() Example {
	e := d.about.event
	of := report.Report{Before: e.RequestObject, After: d.about.object, Sections: report.Sections{Calls: []report.Call{d.call}}}
	hides := &mask.Mask{Secret: e.ObjectRef.Resource == "secrets"}
	hides.Object(d.about.old)
	explain.Hide(hides, &of)
	made := Example{At: e.Place.String(), Time: e.Received.UTC().Format(time.RFC3339), Operation: strings.ToUpper(e.Verb), Kind: e.Kind(),
		Namespace: e.ObjectRef.Namespace, Name: e.Name(), User: d.about.who.Username, DryRun: e.DryRun(), Message: of.Calls[0].Message}
	for _, o := range of.Calls[0].Patch {
		made.Patch = append(made.Patch, o.String())
	}
	return made
}

// workload names whose object a difference is about, such as "Deployment shop/web".
func (d difference) workload() string {
	raw := d.about.object
	if len(raw) == 0 {
		raw = d.about.old
	}
	itself := d.about.kind.Kind + " " + strings.TrimPrefix(d.about.event.ObjectRef.Namespace+"/", "/") + d.about.event.Name()
	return cmp.Or(requests.Owners{}.Of(requests.Document{JSON: raw}), itself)
}
