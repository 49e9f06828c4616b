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
			if got, want := tellMisplaced(o, tree, names), tellMisplaced(relearned(o), tree, names); before != tree && got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
	}
}

// relearned returns objects that know the same, and have found nothing yet.
func relearned(o *objects) *objects {
	again := newObjects()
	for _, object := range o.known {
		again.update(object)
	}
	return again
}

func tellMisplaced(o *objects, tree *quota.Tree, tops []string) (text string) {
	for _, top := range append(tops, "") {
		var pods []string
		for _, r := range o.misplacedBelow(tree, top).Pods {
			pods = append(pods, fmt.Sprint(r.Pod, r.Quota, r.UID))
		}
		slices.Sort(pods)
		text += fmt.Sprint(top, pods, " ")
	}
	return text
}
