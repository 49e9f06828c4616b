// Package poll follows files by reading them repeatedly. It compares contents, not times, and uses no file watches: a
// mounted ConfigMap or Secret changes by swapping a symlink, which file watches are known to miss.
package poll

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"time"
)

// Times says when to read.
type Times struct {
	Every time.Duration // must be positive
	// Now triggers an immediate reading, for example on SIGHUP; it may be nil.
	Now <-chan os.Signal
}

// Sum is a checksum of contents.
type Sum [sha256.Size]byte

// SumOf returns the checksum of texts. It depends on their order and boundaries.
func SumOf(texts ...[]byte) (s Sum) {
	h := sha256.New()
	for _, text := range texts {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		_, _ = h.Write(text)
	}
	return Sum(h.Sum(nil))
}

// outcome is the result of a reading.
type outcome struct {
	sum Sum
	err string
}

// settle is the delay before the second reading after a reading that Now has triggered.
const settle = 100 * time.Millisecond

// Changes calls read repeatedly until ctx ends, and calls use, on the same goroutine, with each new outcome: a content,
// or the error from reading it. inForce is the sum of the content that is in use at the start.
//
// An outcome is new if it differs from the last one passed to use and two consecutive readings agree on it: a partly
// written file is often valid, and two files that belong together may be read while they are swapped. So use is called
// only once for a repeated error, and it is called again with the current content when that can be read again.
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
