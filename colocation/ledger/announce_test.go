package ledger

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"usher.dev/usher/colocation/quota"
)

// A replica that has not observed a change must not announce another one where nobody would look for it when the quotas have moved.
func TestAnnounceBehind(t *testing.T) {
	for _, c := range []struct {
		name        string
		first       *quota.Quota // r1 announces it
		stored      bool
		decided     bool         // r1 has observed it, and decided on a pod
		then        *quota.Quota // r2 announces it, without having observed the first one
		want, where string       // whether r2 waits, and the quotas whose records have the announcement in the end
	}{
		{"the top has moved", makeQuota("q1", "q0", "cpu=9"), true, false, makeQuota("q", "mid", "cpu=1"), "waits", "q0"},
		{"the quota above has moved", makeQuota("mid", "q0", "cpu=9"), true, false, makeQuota("q", "mid", "cpu=1"), "waits", "q0"},
		{"it has moved, and its announcement has gone", makeQuota("mid", "q0", "cpu=9"), true, true, makeQuota("q", "mid", "cpu=1"), "waits", "q0"},
		{"the quota above does not move after all", makeQuota("mid", "q0", "cpu=9"), false, false, makeQuota("q", "mid", "cpu=1"), "waits", "q1"},
		{"the quota above changes", makeQuota("mid", "q1", "cpu=8"), true, false, makeQuota("q", "mid", "cpu=1"), "waits", "q1"},
		{"the quota moves and has another change below", makeQuota("q", "mid", "cpu=1"), true, false, makeQuota("mid", "q0", "cpu=9"), "waits", "q0 q1"},
		{"the top moves and has another change below", makeQuota("q", "mid", "cpu=1"), true, false, makeQuota("q1", "q0", "cpu=9"), "waits", "q0"},
		{"a change below", makeQuota("q", "mid", "cpu=1"), true, false, makeQuota("mid", "q1", "cpu=8"), "done", "q1"},
		{"a change beside it", makeQuota("other", "q1", "cpu=1"), true, false, makeQuota("q", "mid", "cpu=1"), "done", "q1"},
		{"another change of it", makeQuota("q", "mid", "cpu=2"), true, false, makeQuota("q", "mid", "cpu=1"), "done", "q1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := lay(t, makeQuota("q0", "", "cpu=9"), makeQuota("q1", "", "cpu=9"), makeQuota("mid", "q1", "cpu=9"), makeQuota("q", "mid", "cpu=4"),
					makeQuota("other", "q1", "cpu=4"))
				r1, r2 := b.watcher("r1"), b.watcher("r2")
				r1.announce(t, c.first)
				if c.stored {
					b.store.set(c.first)
				}
				if c.decided {
					r1.show(c.first.Name)
					expect(t, "a pod", b.reserve(r1.Ledger, ask(makePod("other/p", "u", "cpu=1"))), "granted")
				}
				done := make(chan string, 1)
				go func() { r2.announce(t, c.then); done <- "done" }()
				time.Sleep(maxChange / 4)
				got := soon(done)
				expect(t, "at first", got, c.want)
				if time.Sleep(2 * maxChange); c.stored {
					r2.show(c.first.Name)
				}
				if got == "waits" {
					time.Sleep(maxChange)
					expect(t, "later", soon(done), "done")
				}
				expect(t, "announced", b.announced(t, c.then), c.where)
			})
		})
	}
}

// announced returns the quotas in whose records a change is announced.
func (b *bench) announced(t *testing.T, q *quota.Quota) string {
	t.Helper()
	var names []string
	for name := range b.store.names() {
		found, err := parseRecord(b.store.get(name).Record)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(found.Changes, func(other change) bool { return other.Quota == q.Identity().String() && other.By == "r2" }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
