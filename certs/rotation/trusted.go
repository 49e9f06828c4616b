package rotation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"
)

// remember keeps the caBundles, and since when each CA is in all of them.
func (k *Keeper) remember(configurations []configuration) {
	k.read, k.entries = true, nil
	for _, c := range configurations {
		k.entries = append(k.entries, c.bundles()...)
	}
	slices.SortFunc(k.entries, bytes.Compare)
	k.entries = slices.CompactFunc(k.entries, bytes.Equal)
	since := map[[sha256.Size]byte]time.Time{}
	for cert, entries := range count(k.entries) {
		if entries < len(k.entries) {
			continue
		}
		before, known := k.since[cert]
		if !known {
			before = time.Now().Add(-min(k.unchanged(configurations), k.pace.Settle))
		}
		since[cert] = before
	}
	k.since = since
}

// unchanged returns for how long the caBundles have been as they are, as far as that is known.
func (k *Keeper) unchanged(configurations []configuration) time.Duration {
	var last time.Time
	for _, c := range configurations {
		at, known := c.changed()
		if !known {
			return 0
		}
		last = later(last, at)
	}
	return max(0, k.client.Now().Sub(last)-time.Second) // times of an API server have no fractions
}

// count returns how many bundles contain each certificate.
func count(bundles [][]byte) map[[sha256.Size]byte]int {
	in := map[[sha256.Size]byte]int{}
	for _, bundle := range bundles {
		seen := map[[sha256.Size]byte]bool{}
		for cert := range certificates(bundle) {
			if key := sha256.Sum256(cert.Raw); !seen[key] {
				seen[key] = true
				in[key]++
			}
		}
	}
	return in
}

// trust writes the caBundles that differ.
func (k *Keeper) trust(ctx context.Context, configurations []configuration, bundle []byte) (written bool, err error) {
	for _, c := range configurations {
		entries := c.wrong(bundle)
		if len(entries) == 0 || len(bundle) == 0 { // without a bundle, nothing could be stored
			continue
		}
		k.warnOfOthers(c, entries[0])
		if failed := c.write(ctx, k.client, entries, bundle); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		written = true
		k.writes.Add(1)
		k.log.Info(fmt.Sprintf("certificates: wrote the caBundle of %d webhooks of %s", len(entries), c.name()))
	}
	return written, err
}

// warnOfOthers names another writer of a caBundle, once an hour.
func (k *Keeper) warnOfOthers(c configuration, entry int) {
	who := c.writer(entry)
	if said, again := k.warned[who]; who == "" || again && time.Since(said) < time.Hour {
		return
	}
	k.warned[who] = time.Now()
	k.log.Warn(fmt.Sprintf("certificates: %s writes the caBundle of %s too, which usher replaces: leave the field out there, "+
		"or serve with --cert-dir", who, c.Webhooks[entry].Name))
}
