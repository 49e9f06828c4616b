package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"time"

	"usher.dev/usher/test/reviews"
)

// share is the time for which usher is profiled under each review, in seconds.
const share = 8

// profile writes a CPU profile of usher under the reviews whose names match, in turn.
func profile(ctx context.Context, file, names string, progress io.Writer) error {
	wanted, err := regexp.Compile(names)
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(reviews.All(), func(r reviews.Review) bool { return !wanted.MatchString(r.Name) })
	return inDirectory(ctx, fullPlan, pin(), progress, func(ctx context.Context, b *bench) error {
		if err := b.writeCluster(reviews.Profiles()[0]); err != nil {
			return err
		}
		s, err := b.start(ctx, usher, "--pprof")
		if err != nil {
			return err
		}
		defer s.stop()
		fetched := make(chan error, 1)
		go func() {
			fetched <- fetch(ctx, s.Operations, fmt.Sprintf("/debug/pprof/profile?seconds=%d", share*len(all)), file)
		}()
		for _, r := range all {
			_, _ = fmt.Fprintf(progress, "%s: %d s\n", r.Name, share)
			if err := b.keepBusy(ctx, s, r, share*time.Second); err != nil {
				return err
			}
		}
		return <-fetched
	})
}

// keepBusy posts a review over and over.
func (b *bench) keepBusy(ctx context.Context, s *process, r reviews.Review, long time.Duration) error {
	conns, err := connect(ctx, s.Reviews, b.client, cpuConnections)
	if err != nil {
		return err
	}
	defer closeAll(conns)
	anything := func([]byte) error { return nil }
	for end := time.Now().Add(long); time.Now().Before(end); {
		if _, _, err := burst(ctx, conns, 100, requestBytes(r), anything); err != nil {
			return err
		}
	}
	return nil
}

// fetch writes a page of an operations listener to a file.
func fetch(ctx context.Context, address, path, file string) error {
	code, text, err := get(ctx, address, path)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s answers %d: %.400s", path, code, text)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
