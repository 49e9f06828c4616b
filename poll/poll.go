// Package poll follows files by reading them again and again. Contents are compared, not times, and nothing is watched: a mounted
// ConfigMap or Secret changes by swapping a symlink, which file watches are known to lose.
package poll

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"time"
)

// Times say when to read.
type Times struct {
	Every time.Duration // more than zero
	// Now makes the next reading happen at once, such as after a SIGHUP; nil for never.
	Now <-chan os.Signal
}

// Sum stands for contents.
type Sum [sha256.Size]byte

// SumOf is the sum of texts. The order and the boundaries of the texts count.
func SumOf(texts ...[]byte) (s Sum) {
	h := sha256.New()
	for _, text := range texts {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		_, _ = h.Write(text)
	}
	return Sum(h.Sum(nil))
}

// outcome is what a reading came to.
type outcome struct {
	sum Sum
	err string
}

// settle is how long after a reading that was asked for the next one is.
const settle = 100 * time.Millisecond

// Changes calls read again and again until ctx ends, and use, on the same goroutine, when it came to something else than use was
// called with last: a content, or the error that kept it from being read. inForce is the sum of what was used before.
//
// An outcome counts when two readings in a row came to it: half a file is often a valid one, and two files that belong together
// may be read while they are swapped. So use is called once for each error however often it is met, and again with the content in
// force when that can be read again.
func Changes[T any](ctx context.Context, times Times, inForce Sum, read func() (T, Sum, error), use func(T, error)) {
	used := outcome{sum: inForce}
	before := used
	timer := time.NewTimer(times.Every)
	defer timer.Stop()
	for {
		wait := times.Every
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-times.Now:
			wait = min(wait, settle)
		}
		content, sum, err := read()
		seen := outcome{sum: sum}
		if err != nil {
			seen = outcome{err: err.Error()}
		}
		if seen == before && seen != used {
			used = seen
			use(content, err)
		}
		before = seen
		timer.Reset(wait)
	}
}
