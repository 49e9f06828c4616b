package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestThePageHasEveryFault: the table in the docs is from a run of all faults that there are.
func TestThePageHasEveryFault(t *testing.T) {
	page, err := kubetest.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(page, tableBegins)
	table, _, found := strings.Cut(rest, tableEnds)
	if !found {
		t.Fatal("docs/operations.md has no table of faults between its marks")
	}
	for _, f := range faults {
		if !strings.Contains(table, "| "+f.name+" | "+f.doc+" |") {
			t.Errorf("docs/operations.md has no row for %s (%s): make chaos writes it", f.name, f.doc)
		}
	}
	if rows := strings.Count(table, "\n") - 2; rows != len(faults) {
		t.Errorf("the table has %d rows, and there are %d faults", rows, len(faults))
	}
}

func TestSum(t *testing.T) {
	began := time.Now()
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	got := sum(fault{}, began, []record{
		{began: at(-2), ended: at(-1), namespace: failing, outcome: refused, err: errors.New("before it")},
		{began: at(-1), ended: at(1), namespace: failing, outcome: seated},
		{began: at(1), ended: at(2), namespace: failing, outcome: refused, err: errors.New("the first")},
		{began: at(2), ended: at(5), namespace: ignoring, outcome: skipped},
		{began: at(2), ended: at(3), namespace: ignoring, outcome: refused},
		{began: at(3), ended: at(9), namespace: ignoring, outcome: unserved},
	})
	if got.requests != 4 || got.failed != 1 || got.skipped != 1 || got.refused != 1 || got.unserved != 1 {
		t.Errorf("%+v", got)
	}
	if got.last != 5*time.Second || got.slowest != 3*time.Second || got.example.Error() != "the first" {
		t.Errorf("%+v", got)
	}
}

// TestTableKeepsRows: a run of some faults leaves the rows of the others.
func TestTableKeepsRows(t *testing.T) {
	terminated, _ := find("SIGTERM")
	earlier := tableHead + "| SIGTERM | before |\n| SIGKILL | kept |\n| no-such-fault | dropped |\n"
	for cost, r := range map[string]result{"none": {}, "1, 3, 2.0 s": {failed: 1, skipped: 3, last: 2 * time.Second}, "0, 0, 1.0 s; 2 failed with Ignore": {refused: 2, last: time.Second}} {
		r.fault = terminated
		got, want := table([]result{r}, earlier), tableHead+"| SIGTERM | "+terminated.doc+" | "+cost+" |\n| SIGKILL | kept |\n"
		if got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

// TestFreeFaults causes the faults that must cost no request, in a short form.
func TestFreeFaults(t *testing.T) {
	var free []fault
	for _, name := range []string{"SIGTERM", "roll-out"} {
		f, _ := find(name)
		free = append(free, f)
	}
	results, err := causeAll(t.Context(), free)
	if err != nil {
		t.Fatal(err)
	}
	if err := missed(results); err != nil {
		t.Error(err)
	}
}
