package ledger

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// recordStore reads and writes the records. What it finds is known to objects before the watch shows it.
type recordStore struct {
	options *Options
	objects *objects
	counts  *counters
	pace    pace
}

// errReverted means that another component reverts what the ledger writes.
var errReverted = errors.New("the API server did not keep the quota's reservations: " +
	"does the webhook configuration leave out usher's own user? see usher webhooks --user")

// write stores the record of a plan.
func (s *recordStore) write(ctx context.Context, v view, p plan) error {
	key, text := keyOf(v.top.Quota), p.next.text()
	s.counts.writes.Add(1)
	began := time.Now()
	object, err := s.options.Store.Write(ctx, key, v.top.Version, text)
	s.pace.add(time.Since(began))
	if err == nil && object.Record != text {
		s.options.Log.WithField("quota", key.Name).Error(errReverted.Error())
		err = errReverted
	}
	if err == nil {
		s.objects.cacheRecord(key, text, p.next)
		s.objects.update(object)
		return nil
	}
	if errors.Is(err, ErrConflict) {
		s.counts.conflicts.Add(1)
		s.awaitOther(ctx, key, v.top.Version)
		return err
	}
	s.counts.failures.Add(1)
	s.readAgain(ctx, key, v.top.Version) // the write may have happened
	return busy(err)
}

// awaitOther waits until the watch shows another state of an object than the version that was just overtaken. If that
// takes too long, it reads the object: the version may also have been wrong.
func (s *recordStore) awaitOther(ctx context.Context, key types.NamespacedName, version string) {
	enough := time.After(maxOther)
	for {
		changed := s.objects.change()
		if object, known := s.objects.get(key); !known || object.Version != version {
			return
		}
		select {
		case <-changed:
		case <-enough:
			s.readAgain(ctx, key, version)
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
func (s *recordStore) readAgain(ctx context.Context, key types.NamespacedName, version string) {
	s.counts.reads.Add(1)
	if fresh, err := s.options.Store.Read(ctx, key); err == nil {
		s.objects.overwrite(fresh, version)
	}
}

// object returns the newest state of a quota object that this replica knows.
func (s *recordStore) object(ctx context.Context, q *quota.Quota) (Object, error) {
	object, known := s.objects.get(keyOf(q))
	if known {
		return object, nil
	}
	object, err := s.options.Store.Read(ctx, keyOf(q))
	if err != nil {
		return Object{}, busy(err)
	}
	s.objects.update(object)
	return object, nil
}

// objectSince returns the state of a quota object at a version, or a newer one.
func (s *recordStore) objectSince(ctx context.Context, q *quota.Quota, version string) (Object, error) {
	object, err := s.object(ctx, q)
	if err == nil && older(object.Version, version) {
		if object, err = s.options.Store.Read(ctx, keyOf(q)); err == nil {
			s.objects.update(object)
		} else if !errors.Is(err, ErrGone) {
			err = busy(err)
		}
	}
	return object, err
}

// all returns the objects that carry a record.
func (s *recordStore) all() []Object {
	if alone, ok := s.options.Store.(*memStore); ok {
		return alone.all()
	}
	return s.objects.withRecord()
}
