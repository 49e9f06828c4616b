package explain

import (
	"slices"
	"strings"

	"usher.dev/usher/usherctl/report"
)

// ledger has the writers of fields while the changes of an event are gone through.
type ledger struct {
	entries []entry
	start   any // the object that was sent; nil if it is not known
}

type entry struct {
	path    path
	writers []report.Writer // the last one is the latest
}

// the writers that are not webhooks
const (
	request   = "the request"
	apiServer = "the API server or an in-tree plug-in"
)

// same reports whether two paths lead to the same place by names; indexes may have changed.
func same(a, b path) bool {
	return slices.EqualFunc(a, b, func(x, y segment) bool {
		if x.isItem && y.isItem && x.name != "" && y.name != "" {
			return x.name == y.name
		}
		return x == y
	})
}

func below(a, b path) bool { return len(a) > len(b) && same(a[:len(b)], b) }

// record adds a writer of a field. Entries below it end in it, and one above it stays for the rest of the fields.
func (l *ledger) record(at path, by report.Writer) {
	var former []report.Writer
	kept := l.entries[:0:0]
	found := false
	for _, e := range l.entries {
		switch {
		case same(e.path, at):
			found = true
			former = append(former, e.writers...)
		case below(e.path, at):
			former = append(former, e.writers...)
		default:
			if below(at, e.path) {
				former = append(former, e.writers...)
				found = true
			}
			kept = append(kept, e)
		}
	}
	if !found && l.start != nil && has(l.start, at) {
		former = slices.Insert(former, 0, report.Writer{Webhook: request})
	}
	kept = append(kept, entry{at, append(former, by)})
	l.entries = kept
}

// overlaps reports whether a webhook wrote a field, a part of it, or what it is a part of.
func (l *ledger) overlaps(at path) bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool { return same(e.path, at) || below(e.path, at) || below(at, e.path) })
}

// has reports whether a document has a field.
func has(document any, at path) bool {
	for i, s := range at {
		switch v := document.(type) {
		case map[string]any:
			member, found := v[s.key]
			if s.isItem || !found {
				return false
			}
			document = member
		case []any:
			place := s.index
			if s.name != "" && i > 0 {
				place = slices.IndexFunc(v, func(element any) bool { return nameIn(at[i-1].key, element) == s.name })
			}
			if !s.isItem || place < 0 || place >= len(v) {
				return false
			}
			document = v[place]
		default:
			return false
		}
	}
	return true
}

// blame returns the fields in order, each with its last writer and the former ones, the latest first.
func (l *ledger) blame() (all []report.Blame) {
	for _, e := range l.entries {
		writers := slices.Clone(e.writers)
		slices.Reverse(writers)
		writers = slices.Compact(writers)
		all = append(all, report.Blame{Field: e.path.String(), By: writers[0], Former: writers[1:]})
	}
	slices.SortStableFunc(all, func(a, b report.Blame) int { return strings.Compare(a.Field, b.Field) })
	return all
}
