package ledger

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// reviveGrace is the time for which a pod that counts again may wait for the record of its admission: the watch of the
// quotas may be later than that of the pods.
const reviveGrace = 5 * time.Second

// revivals are the pods that had ended and count again, although no replica has admitted that: by a status write that
// no replica has judged.
type revivals struct {
	accounts *accounts

	mu       sync.Mutex
	admitted map[types.UID]bool   // seen in a record
	pods     map[string]types.UID // by key of the pod
}

func newRevivals(a *accounts) *revivals {
	return &revivals{accounts: a, admitted: map[types.UID]bool{}, pods: map[string]types.UID{}}
}

// maxAdmitted bounds the admissions that are remembered; hardly any pod is ever revived.
const maxAdmitted = 1000

// admit remembers the pods that a record admits again.
func (r *revivals) admit(all []reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range all {
		if all[i].Revived {
			if len(r.admitted) >= maxAdmitted {
				clear(r.admitted)
			}
			r.admitted[all[i].UID] = true
		}
	}
}

func (r *revivals) wasAdmitted(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.admitted[uid]
}

// noteRevived reports a pod that counts again, unless the record of its admission arrives in time.
func (l *Ledger) noteRevived(ended, now *quota.Pod) {
	time.AfterFunc(reviveGrace, func() {
		tree, err := l.tree()
		if err != nil || l.revivals.wasAdmitted(now.UID) || !l.accounts.runs(podKey(now), now.UID) {
			return
		}
		p := l.place(tree, &candidate{pod: now, charge: l.options.Counting.Charge(now), stored: ended})
		if p.top == "" {
			return // nothing had to be reserved
		}
		l.revivals.add(podKey(now), now.UID)
		l.options.Log.WithField("pod", podKey(now)).WithField("quota", p.verdict.Binding.Name).Warn(
			"the pod had ended, and its status says that it runs again; no replica of usher has admitted that: it counts, and may exceed the limit")
	})
}

func (r *revivals) add(key string, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[key] = uid
}

// count returns the number of pods that count again without having been admitted.
func (r *revivals) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, uid := range r.pods {
		if !r.accounts.runs(key, uid) {
			delete(r.pods, key)
		}
	}
	return len(r.pods)
}

// runs reports whether a pod still exists, and has not ended.
func (a *accounts) runs(key string, uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.pods[key]
	return one != nil && one.pod.UID == uid && !one.pod.Ended
}
