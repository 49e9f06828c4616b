package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// maxInquiries bounds what is asked at once. The other reservations stand until the next time.
const maxInquiries = 20

// inquire asks the store for the pods of reservations that have expired. The clock alone does not tell that a pod does not come: after an outage
// of the API server, or behind a watch that has died unnoticed, a pod may be stored that nobody has been shown. It tells whether fewer
// reservations stand than before.
func (l *Ledger) inquire(ctx context.Context, doubts []reservation) (fewer bool) {
	doubts = slices.Clone(doubts)
	rand.Shuffle(len(doubts), func(i, j int) { doubts[i], doubts[j] = doubts[j], doubts[i] }) // so that some of which nothing is learnt do not hide the others
	for _, r := range doubts[:min(len(doubts), maxInquiries)] {
		if ctx.Err() == nil && l.known(ctx, &r) {
			l.over.add(r)
			fewer = true
		}
	}
	return fewer
}

// known tells whether a pod that had all the time there is has not come, or is counted as it came.
func (l *Ledger) known(ctx context.Context, r *reservation) bool {
	namespace, name, _ := strings.Cut(r.Pod, "/")
	version, err := l.options.Store.Pod(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return errors.Is(err, ErrGone)
	}
	return !l.accounts.behind(version)
}

// behind tells whether the pods are not known up to a version.
func (a *accounts) behind(version string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return older(a.version, version)
}
