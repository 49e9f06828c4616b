package slo

import (
	"iter"

	"usher.dev/usher/internal/selector"
)

// newIndex indexes the entries that may select a node.
func newIndex(entries []entry) selector.Index[string] {
	return selector.NewIndex(func(yield func(int, []selector.Term[string]) bool) {
		for i := range entries {
			if s := entries[i].selector; s != nil && !yield(i, s.Terms()) {
				return
			}
		}
	})
}

// near yields the entries that may overlap with a selector on its own labels, possibly several times.
func (c *Config) near(s selector.Constraints) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, n := range c.index.Always() {
			if !yield(n) {
				return
			}
		}
		for i := range s {
			for n := range c.index.Near(s[i].Term()) {
				if !yield(n) {
					return
				}
			}
		}
	}
}
