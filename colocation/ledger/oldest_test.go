package ledger

import (
	"testing"
	"time"
)

// TestOldestReservation: Stats has the time of the oldest reservation of all records.
func TestOldestReservation(t *testing.T) {
	at := func(seconds int64) reservation { return reservation{At: seconds * 1000} }
	for _, c := range []struct {
		records []record
		want    int64
	}{
		{nil, 0},
		{[]record{{}}, 0},
		{[]record{{Pods: []reservation{at(30), at(20), at(40)}}}, 20},
		{[]record{{Pods: []reservation{at(30)}}, {}, {Pods: []reservation{at(50), at(10)}}}, 10},
	} {
		var oldest time.Time
		for _, r := range c.records {
			oldest = r.oldest(oldest)
		}
		if none := c.want == 0; oldest.IsZero() != none || !none && oldest.Unix() != c.want {
			t.Errorf("%+v: %v, want %d", c.records, oldest, c.want)
		}
	}
}
