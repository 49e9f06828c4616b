package ledger

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// TestConfirmExpired: an expired reservation is released only if its pod is known not to exist, or was observed.
func TestConfirmExpired(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=1"))
	late, next := makePod("q/late", "u", "cpu=1"), makePod("q/next", "v", "cpu=1")
	b.Pods().Reached("3")
	expect(t, "the first", b.reserve(b.Ledger, ask(late)), "granted")
	b.clock = b.clock.Add(10 * DefaultExpiry)
	b.store.pods, b.store.podVersion = map[types.NamespacedName]*quota.Pod{{Namespace: "q", Name: "late"}: late}, "5"
	expect(t, "stored, and not seen by anybody", b.reserve(b.Ledger, ask(next)), "full q cpu: 1+0+1 of 1")
	b.Pods().Put(seenPod(late, 5))
	expect(t, "seen", b.reserve(b.Ledger, ask(next)), "full q cpu: 1+1+0 of 1")

	b = lay(t, makeQuota("q", "", "cpu=1"))
	expect(t, "the first", b.reserve(b.Ledger, ask(late)), "granted")
	expect(t, "another", b.reserve(b.Ledger, ask(next)), "full q cpu: 1+0+1 of 1")
	b.clock = b.clock.Add(DefaultExpiry + time.Second)
	expect(t, "when the first has not come", b.reserve(b.Ledger, ask(next)), "granted")
}
