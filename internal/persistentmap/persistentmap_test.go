package persistentmap

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"usher.dev/usher/test/seed"
)

const keys = 300

func key(i int) string { return fmt.Sprint("key-", i) }

// TestMap: a Map has what a map has after the same changes, shows what has changed, and what was read before stays.
func TestMap(t *testing.T) {
	random := seed.Random(t)
	now, want := Map[int]{}, map[string]int{}
	for step := range 1500 {
		before, beforeWant := now, maps.Clone(want)
		changed, edit := map[string]bool{}, now.Edit()
		for range random.IntN(4) {
			key := key(random.IntN(keys))
			if random.IntN(3) == 0 {
				edit.Delete(key)
				delete(want, key)
			} else {
				edit.Set(key, step+1)
				want[key] = step + 1
			}
			changed[key] = true
			if got, _ := edit.Get(key); got != want[key] {
				t.Fatalf("%s is %d while it is edited, want %d", key, got, want[key])
			}
		}
		now = edit.Done()
		if !maps.Equal(maps.Collect(before.All()), beforeWant) || before.Len() != len(beforeWant) {
			t.Fatal("a change changed the map before")
		}
		if len(changed) == 0 && now != before {
			t.Fatal("two maps differ without a change")
		}
		wantChanges(t, now, before, changed)
		if step%500 == 0 {
			all := Map[int]{}.Edit()
			for key, value := range want {
				all.Set(key, value)
			}
			now = all.Done()
			wantChanges(t, now, before, nil)
		}
	}
	if !maps.Equal(maps.Collect(now.All()), want) || now.Len() != len(want) {
		t.Error("the Map differs from a map")
	}
	for key, value := range want {
		if got, ok := now.Get(key); !ok || got != value {
			t.Errorf("%s: %v %v", key, got, ok)
		}
	}
	if _, ok := now.Get("none"); ok {
		t.Error("a key that is not there was found")
	}
}

// wantChanges fails the test unless all keys whose values differ are yielded, each once and, if only some were changed, not
// many others.
func wantChanges(t *testing.T, now, before Map[int], changed map[string]bool) {
	t.Helper()
	got := slices.Sorted(now.ChangedFrom(before))
	if len(got) != len(slices.Compact(slices.Clone(got))) {
		t.Fatal("a key is yielded twice")
	}
	if changed != nil && len(got) > 10*len(changed) {
		t.Fatalf("%d keys for %d changes", len(got), len(changed))
	}
	for i := range keys {
		was, had := before.Get(key(i))
		is, has := now.Get(key(i))
		if _, found := slices.BinarySearch(got, key(i)); !found && (was != is || had != has) {
			t.Fatalf("%s has changed, and is not yielded", key(i))
		}
	}
}
