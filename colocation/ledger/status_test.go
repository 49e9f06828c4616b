package ledger

import (
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// TestStatuses: what is used, reserved and limited in each quota, and by which quota on its path the least is left.
func TestStatuses(t *testing.T) {
	org, a, b := makeQuota("org", "", "cpu=10 memory=8Gi"), makeQuota("a", "org", "cpu=8"), makeQuota("b", "org", "cpu=8")
	org.IsParent = true
	b.Admission = amounts("cpu=3")
	l := lay(t, org, a, b, makeQuota(api.DefaultQuota, "", "cpu=1"))
	l.Pods().Put(seenPod(makePod("a/one", "1", "cpu=6 memory=1Gi gpu=1"), 3))
	expect(t, "reserved", l.reserve(l.Ledger, ask(makePod("b/two", "2", "cpu=1"))), "granted")
	check := func(want map[string]string) {
		t.Helper()
		all, err := l.Statuses()
		if err != nil || len(all) != len(want) {
			t.Fatalf("%+v, %v", all, err)
		}
		for _, s := range all {
			text, _ := json.Marshal(s.Status)
			expect(t, s.Quota.Name, string(text), want[s.Quota.Name])
		}
	}
	check(map[string]string{
		"a":   `{"used":{"cpu":"6","gpu":"1","memory":"1Gi"},"limit":{"cpu":"8"},"binds":{"cpu":"a","memory":"org"}}`,
		"b":   `{"used":{"cpu":"0"},"reserved":{"cpu":"1"},"limit":{"cpu":"3"},"binds":{"cpu":"b","memory":"org"}}`,
		"org": `{"used":{"cpu":"6","gpu":"1","memory":"1Gi"},"reserved":{"cpu":"1"},"limit":{"cpu":"10","memory":"8Gi"},"binds":{"cpu":"org","memory":"org"}}`,
	})
	l.Pods().Put(seenPod(makePod("a/more", "3", "cpu=2"), 4))
	if all, _ := l.Statuses(); all[1].Status.Binds["cpu"] != "org" {
		t.Errorf("one cpu is left in org, two are in b: %v", all[1].Status.Binds)
	}
}

// TestStatusesBehind: a replica that has not observed a pod that another one has dropped the reservation for is behind in that tree.
func TestStatusesBehind(t *testing.T) {
	l := lay(t, makeQuota("a", "", "cpu=8"), makeQuota("b", "", "cpu=8"))
	if _, err := l.Statuses(); err != nil { // as long as no quota moves, no tree needs what another one does
		t.Fatal(err)
	}
	q, _ := l.tree.Get("a")
	l.objects.update(Object{Quota: q, Version: "9", Record: `{"seen":"9"}`})
	for _, version := range []int{8, 9} { // in this order: a list never gets older
		want := version < 9
		l.Pods().Replace(nil, strconv.Itoa(version))
		all, err := l.Statuses()
		if err != nil || len(all) != 2 || all[0].Behind != want || all[1].Behind {
			t.Errorf("%d: %+v, %v", version, all, err)
		}
	}
}

// TestStatusesUnknown: before the pods are listed, nothing is said, not zero.
func TestStatusesUnknown(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=8"))
	l := New(Options{Tree: b.options.Tree, Store: b.store, Counting: quota.Counting{}})
	if all, err := l.Statuses(); !errors.Is(err, errBehind) || all != nil {
		t.Errorf("%v, %v", all, err)
	}
}

// TestStatusesInCycle: each quota of a cycle has a status of its own.
func TestStatusesInCycle(t *testing.T) {
	l := lay(t, makeQuota("a", "b", "cpu=1"), makeQuota("b", "c", "cpu=2"), makeQuota("c", "a", "cpu=3"))
	all, err := l.Statuses()
	if err != nil || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	for i, want := range []string{"a 1", "b 2", "c 3"} {
		limit := all[i].Status.Limit["cpu"]
		expect(t, "status", all[i].Quota.Name+" "+limit.String(), want)
	}
}
