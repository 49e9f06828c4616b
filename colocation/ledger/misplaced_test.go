package ledger

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/test/seed"
)

// TestMisplaced: while records and the tree change, the misplaced reservations in a new tree are those that are found by
// looking at all records.
func TestMisplaced(t *testing.T) {
	rng := seed.Random(t)
	names := []string{"a", "b", "c", "d", "e"}
	for range 500 {
		o, tree := newObjects(), quota.NewTree(nil)
		for version := range 30 {
			name := names[rng.IntN(len(names))]
			q := makeQuota(name, append(names, "")[rng.IntN(len(names)+1)], fmt.Sprint("cpu=", rng.IntN(9)))
			before := tree
			switch rng.IntN(4) {
			case 0:
				tree = tree.With(map[types.NamespacedName]*quota.Quota{keyOf(q): q})
			case 1:
				o.Remove(Seen{Version: strconv.Itoa(version), Object: q})
				tree = tree.With(map[types.NamespacedName]*quota.Quota{keyOf(q): nil})
			case 2:
				record := ""
				if rng.IntN(3) > 0 {
					record = fmt.Sprintf(`{"pods":[{"pod":"n/p","quota":%q,"uid":"%d"},{"pod":"n/q","quota":%q}]}`, names[rng.IntN(5)], version, names[rng.IntN(5)])
				}
				o.Put(Seen{Version: strconv.Itoa(version), Object: q, Record: record})
			}
			if rng.IntN(3) == 0 {
				continue // nothing is decided meanwhile
			}
			if got, want := tellMisplaced(o, tree, names), tellPlainly(o, tree); before != tree && got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
	}
}

// TestMisplacedInSameTree: without a change of the tree, too, a first record, one that had misplaced reservations and a deleted object
// are noticed.
func TestMisplacedInSameTree(t *testing.T) {
	a, b := makeQuota("a", "", "cpu=1"), makeQuota("b", "", "cpu=1")
	o, tree := newObjects(), quota.NewTree([]*quota.Quota{a, b})
	version := 0
	put := func(record string) {
		version++
		o.Put(Seen{Version: strconv.Itoa(version), Object: a, Record: record})
	}
	below := func(what string, want int) {
		t.Helper()
		if got := len(o.misplacedBelow(tree, "b").Pods); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	const two, one = `{"pods":[{"pod":"n/p","quota":"b"},{"pod":"n/q","quota":"b"}]}`, `{"pods":[{"pod":"n/p","quota":"b"}]}`
	below("nothing is known", 0)
	put("")
	below("an object without a record", 0)
	put(two)
	below("a first record", 2)
	put(one)
	below("one has been dropped", 1)
	put(two)
	below("and is back", 2)
	put("")
	below("no record", 0)
	put(one)
	below("another", 1)
	o.Remove(Seen{Version: strconv.Itoa(version + 1), Object: a})
	below("no object", 0)
}

// tellMisplaced describes what is found.
func tellMisplaced(o *objects, tree *quota.Tree, tops []string) string {
	pods := map[string][]string{}
	for _, top := range append(tops, "") {
		for _, r := range o.misplacedBelow(tree, top).Pods {
			pods[top] = append(pods[top], fmt.Sprint(r.Pod, r.Quota, r.UID))
			slices.Sort(pods[top])
		}
	}
	return fmt.Sprint(pods)
}

// tellPlainly describes what should be found.
func tellPlainly(o *objects, tree *quota.Tree) string {
	pods := map[string][]string{}
	for key, object := range o.known {
		found, _ := parseRecord(object.Record)
		for _, r := range found.Pods {
			top := ""
			if path := tree.Path(r.Quota); len(path) > 0 {
				top = path[len(path)-1].Name
			}
			if top != key.Name {
				pods[top] = append(pods[top], fmt.Sprint(r.Pod, r.Quota, r.UID))
			}
		}
	}
	for top := range pods {
		slices.Sort(pods[top])
	}
	return fmt.Sprint(pods)
}
