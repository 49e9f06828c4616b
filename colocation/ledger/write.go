package ledger

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// errReverted means that another component reverts what the ledger writes.
var errReverted = errors.New("the API server did not keep the quota's reservations: does the webhook configuration leave out usher's own user? see usher webhooks --user")

// write stores the record of a plan. It returns errWaited if more was spent of the grants of this replica than the plan knows.
func (l *Ledger) write(ctx context.Context, v view, p plan) error {
	if p.grants.idle() {
		return l.writeRecord(ctx, v, p)
	}
	key := keyOf(v.top.Quota)
	unlock := l.grants.lock(ctx, key)
	if unlock == nil {
		return busy(context.Cause(ctx))
	}
	defer unlock()
	began := l.options.Now()
	if !l.grants.begin(key, p.grants) {
		return errWaited
	}
	err := l.writeRecord(ctx, v, p)
	switch {
	case err == nil:
		if l.grants.written(key, p.grants, began) {
			time.AfterFunc(grantUse, func() { l.giveBackOld(key, p.grants.at) })
		}
	case errors.Is(err, ErrConflict), errors.Is(err, ErrGone):
		l.grants.notWritten(key, p.grants)
	}
	return err
}

// giveBackOld lets grants be renewed, or given back, when their time is over.
func (l *Ledger) giveBackOld(key types.NamespacedName, at int64) {
	if l.grants.current(key, at) {
		l.renewSoon(key.Name)
	}
}

// writeRecord stores the record of a plan.
func (l *Ledger) writeRecord(ctx context.Context, v view, p plan) error {
	key, text := keyOf(v.top.Quota), p.next.text()
	l.counts.writes.Add(1)
	began := time.Now()
	object, err := l.options.Store.Write(ctx, key, v.top.Version, text)
	l.pace.add(time.Since(began))
	if err == nil && object.Record != text {
		l.options.Log.WithField("quota", key.Name).Error(errReverted.Error())
		err = errReverted
	}
	if err == nil {
		l.objects.cacheRecord(key, text, p.next)
		l.objects.update(object)
		return nil
	}
	if errors.Is(err, ErrConflict) {
		l.counts.conflicts.Add(1)
		l.awaitOther(ctx, key, v.top.Version)
		return err
	}
	l.counts.failures.Add(1)
	l.readAgain(ctx, key, v.top.Version) // the write may have happened
	return busy(err)
}

// awaitOther waits until the watch shows another state of an object than the version that was just overtaken. If that
// takes too long, it reads the object: the version may also have been wrong.
func (l *Ledger) awaitOther(ctx context.Context, key types.NamespacedName, version string) {
	enough := time.After(maxOther)
	for {
		changed := l.objects.change()
		if object, known := l.objects.get(key); !known || object.Version != version {
			return
		}
		select {
		case <-changed:
		case <-enough:
			l.readAgain(ctx, key, version)
			return
		case <-ctx.Done():
			return
		}
	}
}

// maxOther bounds the wait after a conflict for the watch, which nearly always brings the other write within
// milliseconds.
const maxOther = 50 * time.Millisecond

// readAgain reads an object after a write with a version has failed.
func (l *Ledger) readAgain(ctx context.Context, key types.NamespacedName, version string) {
	l.counts.reads.Add(1)
	if fresh, err := l.options.Store.Read(ctx, key); err == nil {
		l.objects.overwrite(fresh, version)
	}
}
