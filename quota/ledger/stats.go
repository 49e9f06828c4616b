package ledger

import "sync/atomic"

// counters count what happened to records.
type counters struct{ writes, conflicts, failures atomic.Int64 }

// Stats are numbers about a ledger since it began; Reservations is how many there are now.
type Stats struct {
	// Writes are attempts to write a record; Conflicts those of them that another write had overtaken, Failures those that did not work.
	Writes, Conflicts, Failures int64
	Reservations                int
}

// Stats gives the numbers.
func (l *Ledger) Stats() Stats {
	s := Stats{Writes: l.counts.writes.Load(), Conflicts: l.counts.conflicts.Load(), Failures: l.counts.failures.Load()}
	for _, object := range l.records() {
		if found, err := parseRecord(object.Record); err == nil {
			s.Reservations += len(found.Pods)
		}
	}
	return s
}

// records are the objects that have a record.
func (l *Ledger) records() []Object {
	if alone, ok := l.options.Store.(*memory); ok {
		return alone.all()
	}
	return l.objects.withRecord()
}
