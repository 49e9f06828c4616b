package colocation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/collections"
	"usher.dev/usher/colocation/ledger"
)

const (
	// statusRest is the least time between two writes of the status of one quota, by any replica, and the pause after a failure.
	statusRest = 10 * time.Second
	// statusEvery is the time between two rounds over all quotas, and statusBatch the maximum number of quotas that a round reads.
	statusEvery = 5 * time.Second
	statusBatch = 50
	// statusTries is the maximum number of attempts for a quota in a round. Reservations are written to the same object, often many
	// times a second, so that conflicts are usual.
	statusTries = 3
	// statusChecked is the time after which an unchanged status is read again, because others may have erased it. A round does so for
	// at most statusChecks quotas.
	statusChecked = 5 * time.Minute
	statusChecks  = 5
	// statusElsewhere is the pause before a quota that another manager writes, or a CRD without the subresource, is read again.
	statusElsewhere = time.Minute
	// statusListed is the time limit for reading all quotas, when a replica begins.
	statusListed = 30 * time.Second
)

// statusStore reads and writes the status of quotas on the API server.
type statusStore struct {
	list      func(context.Context, func(*api.ElasticQuota)) error
	supported func(context.Context) (bool, error)
	read      func(context.Context, types.NamespacedName) (collections.QuotaStatus, error)
	write     func(context.Context, types.NamespacedName, collections.QuotaStatus, api.ElasticQuotaStatus) error
}

// statusWriter writes what quotas use, reserve and limit to their status, for those who may not ask usher. It does not write the
// records of the ledger, and no decision waits for it. Replicas compute the same: the first that finds a difference writes it with the
// resourceVersion that it has read, so that another one gets a conflict, and then finds nothing to write.
type statusWriter struct {
	statusStore
	statuses func() ([]ledger.QuotaStatus, error)
	now      func() time.Time
	log      logrus.FieldLogger

	known map[types.NamespacedName]knownStatus
	begun bool      // known has what the API server had when this replica began
	last  string    // the name of the quota that was read last: the next round goes on after it
	pause time.Time // until then nothing is tried, after a failure
	has   bool      // the CRD has the subresource
	quiet bool      // the failure has been logged

	written, conflicts, failures atomic.Int64
	others                       atomic.Int64 // quotas whose status another manager writes
	lacks                        atomic.Bool  // the CRD is known to lack the subresource
}

// knownStatus is what a replica knows of the status of one quota.
type knownStatus struct {
	uid    types.UID
	status api.ElasticQuotaStatus // as the API server has it; nothing if it is not known
	at     time.Time              // when that was so
	until  time.Time              // it is left alone
	others string                 // another writer

	refused bool // the API server has not taken it
}

// newStatusWriter returns the writer for the quotas of a store, whose statuses are given.
func newStatusWriter(to collections.Records, statuses func() ([]ledger.QuotaStatus, error), log logrus.FieldLogger) *statusWriter {
	return &statusWriter{
		statusStore: statusStore{list: to.ListQuotaStatus, supported: to.HasQuotaStatus, read: to.ReadQuotaStatus, write: to.WriteQuotaStatus},
		statuses:    statuses, now: time.Now, log: log, known: map[types.NamespacedName]knownStatus{},
	}
}

// heardWithin bounds the age of what is written: API servers send something about each kind every minute.
const heardWithin = 2 * time.Minute

// statuses returns the statuses of the quotas, unless a watch is broken or silent: another replica may know better.
func (q *quotas) statuses() ([]ledger.QuotaStatus, error) {
	for _, s := range q.cluster.Status() {
		if s.Name != api.CollectionPodRequests && s.Name != api.CollectionElasticQuotas || s.Missing {
			continue
		}
		if s.Err != nil || time.Since(s.LastEvent) > heardWithin {
			return nil, fmt.Errorf("the watch of %s is not current: %w", s.Name, admit.ErrNotReady)
		}
	}
	return q.ledger.Statuses()
}

// run writes until ctx ends.
func (w *statusWriter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(statusEvery + rand.N(statusEvery)):
			w.round(ctx)
		}
	}
}

// round writes the quotas that have changed, at most statusBatch. The next round goes on where it ended.
func (w *statusWriter) round(ctx context.Context) {
	now := w.now()
	if now.Before(w.pause) {
		return
	}
	all, err := w.statuses()
	if err != nil {
		return // not known yet: nothing can be said
	}
	if !w.begin(ctx) {
		return
	}
	w.forget(all)
	budget, checks := statusBatch, statusChecks
	for _, s := range after(all, w.last) {
		if !w.due(s, now, &checks) {
			continue
		}
		if budget--; budget < 0 || !w.supports(ctx) {
			break
		}
		if w.last = s.Quota.Name; !w.update(ctx, s) {
			break
		}
	}
	w.count()
}

// begin lists all quotas, once, so that after a restart only those are read that differ. If that fails, each is read. It reports whether
// the round can go on.
func (w *statusWriter) begin(ctx context.Context) bool {
	if w.begun {
		return true
	}
	now := w.now()
	within, cancel := context.WithTimeout(ctx, statusListed)
	defer cancel()
	err := w.list(within, func(q *api.ElasticQuota) {
		w.known[types.NamespacedName{Namespace: q.Namespace, Name: q.Name}] = knownStatus{uid: q.UID, status: q.Status, at: now}
	})
	w.begun = ctx.Err() == nil
	return err == nil || w.failed(ctx, err)
}

// due reports whether a quota must be read: it has changed, or it is checked, of which some more may be.
func (w *statusWriter) due(s ledger.QuotaStatus, now time.Time, checks *int) bool {
	known := w.known[s.Quota]
	if s.Behind || now.Before(known.until) {
		return false
	}
	if known.others == "" && !(collections.QuotaStatus{Status: known.status}).Equal(s.Status) {
		return true
	}
	if *checks == 0 || now.Before(known.at.Add(statusChecked)) {
		return false
	}
	*checks--
	return true
}

// after returns quotas in order, beginning after a name.
func after(all []ledger.QuotaStatus, name string) []ledger.QuotaStatus {
	for i := range all {
		if all[i].Quota.Name > name {
			return append(all[i:len(all):len(all)], all[:i]...)
		}
	}
	return all
}

// forget drops what is known of quotas that do not exist any more, or were made anew.
func (w *statusWriter) forget(all []ledger.QuotaStatus) {
	kept := make(map[types.NamespacedName]knownStatus, len(w.known))
	for _, s := range all {
		if known, has := w.known[s.Quota]; has && known.uid == s.UID {
			kept[s.Quota] = known
		}
	}
	w.known = kept
}

func (w *statusWriter) count() {
	others := int64(0)
	for _, known := range w.known {
		if known.others != "" {
			others++
		}
	}
	w.others.Store(others)
}

// supports reports whether the CRD has the status as a subresource. Without it, usher would have to write the whole object, and
// everybody who may write a quota could write its status: then it is left to others.
func (w *statusWriter) supports(ctx context.Context) bool {
	if w.has {
		return true
	}
	within, cancel := context.WithTimeout(ctx, statusRest)
	defer cancel()
	has, err := w.supported(within)
	if err != nil {
		return w.failed(ctx, err)
	}
	if w.has = has; !has {
		w.pause = w.now().Add(statusElsewhere)
		if !w.lacks.Load() {
			w.log.Warn("the CRD elasticquotas.scheduling.sigs.k8s.io has no status subresource: usher does not write the status of quotas; apply " +
				"deploy/crds, which has one")
		}
	}
	w.lacks.Store(!has)
	return has
}
