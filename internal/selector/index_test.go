package selector

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"usher.dev/usher/test/seed"
)

// index returns the index of selectors, numbered from 0.
func index(selectors ...[]Term[string]) Index[string] { return NewIndex(slices.All(selectors)) }

// TestRarest: a selector is filed under its rarest requirement, and under any value of a key only if nothing else is
// required.
func TestRarest(t *testing.T) {
	common, rare, anyValue := Term[string]{Key: "app", Values: []string{"web"}}, Term[string]{Key: "group", Values: []string{"a", "b"}}, Term[string]{Key: "zone", Any: true}
	x := index([]Term[string]{common}, []Term[string]{common}, []Term[string]{common, rare}, []Term[string]{anyValue, common}, []Term[string]{anyValue}, nil)
	for _, c := range []struct {
		name       string
		key, value string
		want       []int
	}{
		{"the common one", "app", "web", []int{0, 1, 3}},
		{"another value", "app", "db", nil},
		{"the rare one", "group", "b", []int{2}},
		{"any value", "zone", "", []int{4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := x.Shelf(c.key).Append(nil, c.value); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	if !slices.Equal(x.Always(), []int{5}) || x.Empty() {
		t.Error(x.Always())
	}
	if none := index(); !none.Empty() || len(none.Candidates(nil, map[string]string{"a": "b"})) > 0 {
		t.Error("an index of nothing")
	}
}

// TestCandidates: a selector that is not returned does not match, and none is returned twice.
func TestCandidates(t *testing.T) {
	random := seed.Random(t)
	for range 300 {
		selectors := make([][]Term[string], 10)
		for i := range selectors {
			for range random.IntN(3) {
				selectors[i] = append(selectors[i], randomRequirement(random))
			}
		}
		x, labels := index(selectors...), map[string]string{}
		for range random.IntN(4) {
			labels[fmt.Sprint("k", random.IntN(4))] = fmt.Sprint("v", random.IntN(3))
		}
		got := x.Candidates(nil, labels)
		slices.Sort(got)
		if len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("%v twice", got)
		}
		for i, s := range selectors {
			if matches(s, labels) && !slices.Contains(got, i) {
				t.Fatalf("%v matches %v, but only %v were found", s, labels, got)
			}
		}
	}
}

func randomRequirement(random *rand.Rand) Term[string] {
	r := Term[string]{Key: fmt.Sprint("k", random.IntN(4)), Any: random.IntN(4) == 0}
	for v := range 3 {
		if !r.Any && random.IntN(2) == 0 {
			r.Values = append(r.Values, fmt.Sprint("v", v))
		}
	}
	return r
}

func matches(selector []Term[string], labels map[string]string) bool {
	return !slices.ContainsFunc(selector, func(r Term[string]) bool {
		value, ok := labels[r.Key]
		return !ok || !r.Any && !slices.Contains(r.Values, value)
	})
}
