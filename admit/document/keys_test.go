package document

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"usher.dev/usher/admit/document/internal/json"
)

// manyMembers returns an object with n members, some of whose keys have escapes.
func manyMembers(n int) string { return membersFrom(0, n) }

// membersFrom is manyMembers with keys from a number on.
func membersFrom(first, n int) string {
	var b strings.Builder
	for i := first; i < first+n; i++ {
		fmt.Fprintf(&b, `,"%s%d":{"a":[%d]}`, []string{"key", `\u006b`, `\"`, "ü"}[i%4], i, i)
	}
	return "{" + b.String()[1:] + "}"
}

// TestManyMembers: each member of an object is found, however many there are and however their keys are written.
func TestManyMembers(t *testing.T) {
	for _, n := range []int{1, 2, json.ManyKeys - 1, json.ManyKeys, json.ManyKeys + 1, json.ManyKeys + 2, 1000} {
		d := parse(t, `{"other":{"b":1},"of":`+manyMembers(n)+`}`)
		object := d.Root().Raw().Member("of")
		if object.Size() != n || d.SentSize("of") != n || d.Root().Raw().Size() != 2 {
			t.Errorf("%d members, not %d", object.Size(), n)
		}
		for i := range n {
			key := fmt.Sprint([]string{"key", "k", `"`, "ü"}[i%4], i)
			if got := string(object.Member(key).Bytes()); got != fmt.Sprintf(`{"a":[%d]}`, i) {
				t.Errorf("%d members: %s is %s", n, key, got)
			}
		}
		for _, absent := range []string{"", "key", "key1", "b", "a", "other"} {
			if object.Member(absent).Exists() {
				t.Errorf("%d members: there is %q", n, absent)
			}
		}
		for i := 0; i < n; i += 1 + n/20 {
			again := strings.TrimSuffix(manyMembers(n), "}") + fmt.Sprintf(`,"%s%d":1}`, []string{`\u006bey`, "k", `\u0022`, `\u00fc`}[i%4], i)
			if _, err := Parse([]byte(again)); err == nil || !strings.Contains(err.Error(), "duplicate key") {
				t.Fatalf("%d members and number %d again: %v", n, i, err)
			}
		}
	}
}

// TestLookUpsAreLinear: to look up all members of an object that has eight times as many takes not many times longer for
// each of them.
func TestLookUpsAreLinear(t *testing.T) {
	each := func(n int) time.Duration {
		object := parse(t, manyMembers(n)).Root().Raw()
		best := time.Duration(1 << 62)
		for range 3 {
			before := cpu(t)
			for at := range 2_000 {
				object.Member(fmt.Sprint("key", at*7919%n/4*4))
			}
			best = min(best, cpu(t)-before)
		}
		return best
	}
	if few, many := each(2_000), each(16_000); many > 4*few {
		t.Errorf("%v among 2,000 members, %v among 16,000", few, many)
	}
}

// cpu returns the CPU time of this process so far.
func cpu(t *testing.T) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
