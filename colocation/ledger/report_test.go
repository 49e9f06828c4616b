package ledger

import (
	"encoding/json"
	"fmt"
	"testing"

	"usher.dev/usher/colocation/quota"
)

// TestReportHeld: what nodes hold and what the specs request are shown apart, in reports and in refusals.
func TestReportHeld(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=8"))
	b.Pods().Put(seenPod(makePod("q/idle", "i", "cpu=1"), 3))
	b.Pods().Put(seenPod(shrinking("q/p", "p", "cpu=4", "cpu=6"), 4))
	rows, err := b.Report()
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	expect(t, "row", rows[0].Resources[0].String(), "cpu: used 7 (5 by spec), reserved 0, limit 8 (spec.max)")
	text, err := json.Marshal(rows[0].Resources[0])
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "JSON", string(text), `{"name":"cpu","used":"7","asked":"5","reserved":"0","limit":"8","source":"spec.max"}`)
	elsewhere := shrinking("e/m", "m", "cpu=3", "cpu=9")
	moved := shrinking("q/m", "m", "cpu=3", "cpu=9")
	for _, c := range []struct {
		what string
		ask  quota.Request
		want string
	}{
		{"another", ask(makePod("q/o", "o", "cpu=2")), "2, 7 (5 by spec)"},
		{"itself", askUpdate(shrinking("q/p", "p", "cpu=4", "cpu=6"), "4", makePod("q/p", "p", "cpu=8")), "8, 1"},
		{"one that shrinks and moves", askUpdate(elsewhere, "5", moved), "9 (3 by spec), 7 (5 by spec)"},
	} {
		v, err := b.Judge(t.Context(), c.ask)
		if err != nil || len(v.Excess) != 1 {
			t.Fatalf("%s: %+v, %v", c.what, v, err)
		}
		e := &v.Excess[0]
		expect(t, c.what, fmt.Sprintf("%s%s, %s%s", &e.Requested, quota.BySpec(e.RequestedAsked), &e.Used, quota.BySpec(e.UsedAsked)), c.want)
	}
}
