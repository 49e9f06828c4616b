package slo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/internal/selector"
	"usher.dev/usher/test/seed"
)

func parseSelector(t testing.TB, text string) (selector.Constraints, metav1.LabelSelector) {
	t.Helper()
	var from metav1.LabelSelector
	if err := yaml.UnmarshalStrict([]byte(text), &from); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return selector.Of(&from), from
}

// overlap returns the result of findOverlaps for two selectors.
func overlap(a, b selector.Constraints) ([]string, bool) {
	if labels, ok := sample(a, b); ok {
		return labels, true
	}
	return sample(b, a)
}

// TestOverlap: overlapping and disjoint selectors, including those that Koordinator misses.
func TestOverlap(t *testing.T) {
	const (
		x       = `matchLabels: {a: "1"}`
		xz      = `matchLabels: {a: "1", z: "3"}`
		y       = `matchLabels: {b: "1"}`
		in      = `matchExpressions: [{key: a, operator: In, values: ["1", "2"]}]`
		notIn   = `matchExpressions: [{key: a, operator: NotIn, values: ["2"]}]`
		notIn1  = `matchExpressions: [{key: a, operator: NotIn, values: ["1"]}]`
		exists  = `matchExpressions: [{key: a, operator: Exists}]`
		absent  = `matchExpressions: [{key: a, operator: DoesNotExist}]`
		absentB = `matchExpressions: [{key: b, operator: DoesNotExist}]`
		square  = `matchExpressions: [{key: a, operator: In, values: ["1", "2"]}, {key: b, operator: In, values: ["1", "2"]}]`
		corner  = `matchLabels: {a: "1", b: "2"}`
		nothing = `matchExpressions: [{key: a, operator: Exists}, {key: a, operator: DoesNotExist}]`
	)
	for _, c := range []struct {
		a, b, want string // the labels of a node in both; "no" if there is none
	}{
		{x, x, "a=1"}, {x, xz, "a=1,z=3"}, {x, in, "a=1"}, {x, notIn, "a=1"}, {x, exists, "a=1"}, {x, absentB, "a=1"}, {absent, absentB, ""},
		{x, absent, "no"}, {x, y, "no"}, {x, notIn1, "no"}, {exists, absent, "no"}, {in, absent, "no"},
		{exists, exists, "a=any"}, {notIn, notIn, ""}, {notIn, notIn1, ""}, {exists, notIn, "a=any"}, {absent, notIn, ""}, // Koordinator misses these
		{square, corner, "a=1,b=2"}, // Koordinator misses this: it only looks along the diagonal
		{nothing, nothing, "no"}, {nothing, exists, "no"}, {nothing, x, "no"},
	} {
		a, _ := parseSelector(t, c.a)
		b, _ := parseSelector(t, c.b)
		for _, labels := range []func() ([]string, bool){func() ([]string, bool) { return overlap(a, b) }, func() ([]string, bool) { return overlap(b, a) }} {
			got, ok := labels()
			if text := strings.Join(got, ","); ok != (c.want != "no") || ok && text != c.want {
				t.Errorf("%s and %s: %q, %v, want %q", c.a, c.b, text, ok, c.want)
			}
		}
	}
}

// TestOverlapMemory: eight expressions of ten values, for which Koordinator creates 100 million label sets.
func TestOverlapMemory(t *testing.T) {
	var expressions []string
	for key := range 8 {
		values := make([]string, 10)
		for i := range values {
			values[i] = fmt.Sprintf("%q", fmt.Sprint("v", i))
		}
		expressions = append(expressions, fmt.Sprintf("{key: k%d, operator: In, values: [%s]}", key, strings.Join(values, ", ")))
	}
	a, _ := parseSelector(t, "matchExpressions: ["+strings.Join(expressions, ", ")+"]")
	if allocated := testing.AllocsPerRun(10, func() { overlap(a, a) }); allocated > 20 {
		t.Errorf("%v allocations", allocated)
	}
}

// universe is the label sets over a few keys and values. They decide every selector of randomSelector, which names no
// more than two of the three values of a key.
func universe() (all []map[string]string) {
	options := []string{"", "1", "2", "3"} // "" is absent
	for _, a := range options {
		for _, b := range options {
			for _, c := range options {
				set := map[string]string{}
				for key, value := range map[string]string{"a": a, "b": b, "c": c} {
					if value != "" {
						set[key] = value
					}
				}
				all = append(all, set)
			}
		}
	}
	return all
}

// randomSelector returns a selector made from a few bytes.
func randomSelector(next func(n int) int) metav1.LabelSelector {
	operators := []metav1.LabelSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist"}
	s := metav1.LabelSelector{}
	for range next(4) {
		key, operator := string(rune('a'+next(3))), next(5)
		if operator == 4 {
			metav1.AddLabelToSelector(&s, key, fmt.Sprint(1+next(2)))
			continue
		}
		e := metav1.LabelSelectorRequirement{Key: key, Operator: operators[operator]}
		for range 1 + next(2) {
			if operator < 2 {
				e.Values = append(e.Values, fmt.Sprint(1+next(2)))
			}
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s
}

func speaksOf(s metav1.LabelSelector) map[string]bool {
	keys := map[string]bool{}
	for key := range s.MatchLabels {
		keys[key] = true
	}
	for _, e := range s.MatchExpressions {
		keys[e.Key] = true
	}
	return keys
}

// checkBrute compares selectors with the library's matching, and their overlap with a search over all label sets.
func checkBrute(t *testing.T, from [2]metav1.LabelSelector) {
	var compiled [2]selector.Constraints
	var library [2]labels.Selector
	for i := range from {
		compiled[i] = selector.Of(&from[i])
		var err error
		if library[i], err = metav1.LabelSelectorAsSelector(&from[i]); err != nil {
			t.Fatal(err)
		}
	}
	want := false
	for _, set := range universe() {
		both := true
		for i := range from {
			matches := library[i].Matches(labels.Set(set))
			if got := compiled[i].Matches(set); got != matches {
				t.Fatalf("%v matches %v: %v, the library says %v", from[i], set, got, matches)
			}
			both = both && matches
		}
		want = want || both && (within(set, speaksOf(from[0])) || within(set, speaksOf(from[1])))
	}
	sample, got := overlap(compiled[0], compiled[1])
	if got != want {
		t.Fatalf("%v and %v overlap: %v, trying all says %v", from[0], from[1], got, want)
	}
	if got {
		set, _ := labels.ConvertSelectorToLabelsMap(strings.Join(sample, ","))
		if !library[0].Matches(set) || !library[1].Matches(set) {
			t.Fatalf("%v and %v: %v is not in both", from[0], from[1], sample)
		}
	}
	one, other := compiled[0].Equal(compiled[1]), compiled[1].Equal(compiled[0])
	if one != other {
		t.Fatalf("%v and %v: equality has a direction", from[0], from[1])
	}
}

func within(set map[string]string, keys map[string]bool) bool {
	for key := range set {
		if !keys[key] {
			return false
		}
	}
	return true
}

// TestOverlapAgainstBruteForce tests some thousand pairs.
func TestOverlapAgainstBruteForce(t *testing.T) {
	random := seed.Random(t)
	for range 5000 {
		checkBrute(t, [2]metav1.LabelSelector{randomSelector(random.IntN), randomSelector(random.IntN)})
	}
}

// FuzzOverlap tests pairs made from the fuzzer's bytes.
func FuzzOverlap(f *testing.F) {
	f.Add([]byte{1, 0, 4, 0, 1, 0, 2})
	f.Add([]byte{2, 0, 0, 1, 0, 1, 1, 0, 1, 2, 3, 1, 1, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		next := func(n int) int {
			if len(raw) == 0 {
				return 0
			}
			i := int(raw[0]) % n
			raw = raw[1:]
			return i
		}
		checkBrute(t, [2]metav1.LabelSelector{randomSelector(next), randomSelector(next)})
	})
}

// TestIndex: an entry that is not returned neither matches nor overlaps.
func TestIndex(t *testing.T) {
	random := seed.Random(t)
	for range 300 {
		entries := make([]entry, 12)
		for i := range entries {
			entries[i] = entry{number: i, selector: selector.Of(new(randomSelector(random.IntN)))}
		}
		c := &Config{entries: entries, index: newIndex(entries), sections: []section{{table: &tables[0]}}}
		for _, set := range universe() {
			var want []int
			for i := range entries {
				if entries[i].selector.Matches(set) {
					want = append(want, i)
				}
			}
			if got := c.selecting(nil, set); !slices.Equal(got, want) {
				t.Fatalf("%v: %v, without index %v", set, got, want)
			}
		}
		for i := range entries {
			near := slices.Collect(c.near(entries[i].selector))
			for j := range entries {
				if _, ok := sample(entries[i].selector, entries[j].selector); ok && !slices.Contains(near, j) {
					t.Fatalf("%v overlaps with %v, which is not near", entries[i].selector, entries[j].selector)
				}
			}
		}
	}
}
