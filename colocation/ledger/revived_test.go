package ledger

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus/hooks/test"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// TestRevived: a pod that had ended and counts again is reported within 10 s, unless a replica has admitted that, for as
// long as it runs.
func TestRevived(t *testing.T) {
	ended := func() *quota.Pod { p := makePod("q/p", "u", ""); p.Ended = true; return p }
	runs := makePod("q/p", "u", "cpu=2")
	admit := func(b *bench) { b.reserve(b.replica("r2"), askUpdate(ended(), "1", runs)) }
	tell := func(b *bench) {
		stored, _ := b.store.Read(t.Context(), types.NamespacedName{Namespace: quotaNamespace, Name: "q"})
		b.Quotas().Put(Seen{Key: "quotas/q", Version: stored.Version, Object: stored.Quota, Record: stored.Record})
	}
	for _, c := range []struct {
		what string
		how  func(*bench)
		want int
	}{
		{"missed", func(b *bench) { b.Pods().Put(seenPod(runs, 2)) }, 1},
		{"missed during a list", func(b *bench) { b.Pods().Replace([]Seen{seenPod(runs, 2)}, "2") }, 1},
		{"admitted", func(b *bench) { admit(b); tell(b); b.Pods().Put(seenPod(runs, 2)) }, 0},
		{"admitted, the record comes late", func(b *bench) { admit(b); b.Pods().Put(seenPod(runs, 2)); time.Sleep(4 * time.Second); tell(b) }, 0},
		{"another of its name", func(b *bench) { b.Pods().Put(seenPod(makePod("q/p", "v", "cpu=2"), 2)) }, 0},
		{"without requests", func(b *bench) { b.Pods().Put(seenPod(makePod("q/p", "u", ""), 2)) }, 0},
		{"in no quota", func(b *bench) { b.grow(makeQuota("o", "", "cpu=9")); b.Pods().Put(seenPod(runs, 2)) }, 0},
		{"and ended again", func(b *bench) {
			b.Pods().Put(seenPod(runs, 2))
			time.Sleep(6 * time.Second)
			b.Pods().Put(seenPod(ended(), 3))
		}, 0},
		{"and deleted", func(b *bench) {
			b.Pods().Put(seenPod(runs, 2))
			time.Sleep(6 * time.Second)
			b.Pods().Remove(seenPod(runs, 3))
		}, 0},
		{"and ended at once", func(b *bench) { b.Pods().Put(seenPod(runs, 2)); b.Pods().Put(seenPod(ended(), 3)) }, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := lay(t, makeQuota("q", "", "cpu=9"))
			log, lines := test.NewNullLogger()
			b.options.Log = log
			b.Pods().Put(seenPod(ended(), 1))
			c.how(b)
			time.Sleep(10 * time.Second)
			expect(t, c.what, b.Stats().Revived, c.want)
			if said := lines.LastEntry(); c.want > 0 && (said == nil || said.Data["pod"] != "q/p" || said.Data["quota"] != "q" || !strings.Contains(said.Message, "runs again")) {
				t.Errorf("%s: %+v", c.what, said)
			}
		})
	}
}
