package colocation

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"usher.dev/usher/colocation/ledger"
)

// update writes the status of one quota, if it has to. It reports whether the next one can be tried.
func (w *statusWriter) update(ctx context.Context, s ledger.QuotaStatus) bool {
	within, cancel := context.WithTimeout(ctx, statusRest)
	defer cancel()
	err := w.writeIfChanged(within, s)
	for range statusTries - 1 {
		if !apierrors.IsConflict(err) {
			break
		}
		err = w.writeIfChanged(within, s)
	}
	switch {
	case err == nil || apierrors.IsConflict(err):
		return true
	case apierrors.IsNotFound(err):
		return true // deleted, as the watch will show
	case apierrors.IsInvalid(err):
		w.refused(s, err)
		return true
	}
	return w.failed(ctx, err)
}

// writeIfChanged reads a quota, and writes its status if it is another one.
func (w *statusWriter) writeIfChanged(ctx context.Context, s ledger.QuotaStatus) error {
	now := w.now()
	was, err := w.read(ctx, s.Quota)
	switch {
	case err != nil:
		return err
	case was.Others != "":
		w.leaveAlone(s, was.Others)
		return nil
	}
	known := knownStatus{uid: s.UID, status: was.Status, at: now}
	if rest := min(was.Written.Add(statusRest+time.Second).Sub(now), statusRest); !was.Equal(s.Status) && rest > 0 {
		known.until = now.Add(rest) // managedFields have whole seconds, and clocks may differ
	} else if !was.Equal(s.Status) {
		if err := w.write(ctx, s.Quota, was, s.Status); err != nil {
			return w.unwritten(err)
		}
		w.written.Add(1)
		known.status, known.until = s.Status, now.Add(statusRest)
	}
	w.known[s.Quota], w.quiet = known, false
	return nil
}

// unwritten notes why a write has failed.
func (w *statusWriter) unwritten(err error) error {
	if apierrors.IsConflict(err) {
		w.conflicts.Add(1)
	}
	if apierrors.IsNotFound(err) {
		w.has = false // the quota is deleted, or the CRD was replaced: discovery tells
	}
	return err
}

// refused notes that the API server takes the status of all quotas but one. It is tried again after a while.
func (w *statusWriter) refused(s ledger.QuotaStatus, err error) {
	w.failures.Add(1)
	if !w.known[s.Quota].refused {
		w.log.WithField("quota", s.Quota.String()).WithError(err).Warn("cannot write the status of a quota; it is tried again")
	}
	w.known[s.Quota] = knownStatus{uid: s.UID, refused: true, until: w.now().Add(statusElsewhere)}
}

// failed notes a failure. Others would fail, too. When the replica ends, nothing has failed.
func (w *statusWriter) failed(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	w.failures.Add(1)
	w.pause = w.now().Add(statusRest)
	if !w.quiet {
		w.quiet = true
		w.log.WithError(err).Warn("cannot write the status of quotas; it is tried again")
	}
	return false
}

// leaveAlone leaves a quota to another writer for a while.
func (w *statusWriter) leaveAlone(s ledger.QuotaStatus, writer string) {
	if w.known[s.Quota].others != writer {
		w.log.WithFields(logrus.Fields{"quota": s.Quota.String(), "writer": writer}).Info("another writer has the status of a quota: usher leaves it alone")
	}
	w.known[s.Quota] = knownStatus{uid: s.UID, others: writer, until: w.now().Add(statusElsewhere)}
}
