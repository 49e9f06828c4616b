package slo

import (
	"iter"

	"usher.dev/usher/internal/labelindex"
)

// newIndex indexes the entries that may select a node.
func newIndex(entries []entry) labelindex.Index {
	return labelindex.New(func(yield func(int, []labelindex.Requirement) bool) {
		for i := range entries {
			if s := entries[i].selector; s != nil && !yield(i, s.required()) {
				return
			}
		}
	})
}

// required returns the labels that a node must have to be selected.
func (s selector) required() (all []labelindex.Requirement) {
	for i := range s {
		if !s[i].absent {
			all = append(all, s[i].requirement())
		}
	}
	return all
}

// requirement returns the constraint for nodes that have the label.
func (c *constraint) requirement() labelindex.Requirement {
	if c.except {
		return labelindex.Requirement{Key: c.key, Any: true}
	}
	return labelindex.Requirement{Key: c.key, Values: c.values}
}

// candidates appends the entries that may select a node, in no particular order, each once.
func (c *Config) candidates(into []int, labels map[string]string) []int {
	into = append(into, c.index.Always()...)
	for key, value := range labels {
		into = c.index.Append(into, key, value)
	}
	return into
}

// near yields the entries that may overlap with a selector on its own labels, possibly several times.
func (c *Config) near(s selector) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, n := range c.index.Always() {
			if !yield(n) {
				return
			}
		}
		for i := range s {
			for n := range c.index.Near(s[i].requirement()) {
				if !yield(n) {
					return
				}
			}
		}
	}
}
