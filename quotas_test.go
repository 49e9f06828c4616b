package main

import (
	"context"
	"testing"
	"time"

	"usher.dev/usher/quota"
)

// TestAwaitQuota: a quota that another replica has just let in is waited for; one that does not come only for a moment, and with files not at all.
func TestAwaitQuota(t *testing.T) {
	asked := 0
	late := func() (*quota.Tree, error) {
		if asked++; asked < 3 {
			return quota.Grow(nil), nil
		}
		return quota.Grow([]*quota.Quota{{Name: "new"}}), nil
	}
	watched := &quotas{watched: true}
	watched.await(t.Context(), "new", late)
	if asked != 3 {
		t.Errorf("asked %d times until it is there", asked)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	watched.await(ctx, "never", late) // ends with its caller
	before := asked
	(&quotas{}).await(t.Context(), "never", late)
	watched.await(t.Context(), "koordinator-root-quota", late)
	if asked != before {
		t.Error("what does not come was waited for")
	}
}
