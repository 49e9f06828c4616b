package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Run tidies the records up until ctx ends: what was seen, has expired or was for nobody is dropped, also when no pod comes that would
// have it dropped with its own write. Nothing depends on it but that people find no old reservations.
func (l *Ledger) Run(ctx context.Context) {
	for {
		every := l.options.Expiry / 3
		select {
		case <-ctx.Done():
			return
		case <-time.After(every + rand.N(every)): // so that one replica finds what another has tidied up
			l.sweep(ctx)
		}
	}
}

func (l *Ledger) sweep(ctx context.Context) {
	tree, err := l.tree()
	if err != nil {
		return
	}
	for _, object := range l.objects.withRecord() {
		v := view{tree: tree, top: object, now: l.options.Now()}
		made, err := l.plan(v, nil)
		for err == nil && l.inquire(ctx, made.doubts) {
			made, err = l.plan(v, nil)
		}
		if err == nil && made.dropped > 0 {
			err = l.write(ctx, v, made)
		}
		if err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, errBehind) && ctx.Err() == nil {
			l.options.Log.WithError(err).WithField("quota", object.Quota.Name).Warn("cannot tidy up the quota's reservations; they expire all the same")
		}
	}
}
