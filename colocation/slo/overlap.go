package slo

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"usher.dev/usher/internal/selector"
)

// Two selectors overlap if both select a node that has no labels except those that one of the two names. So a=1
// overlaps with a=1,b=2, with a NotIn [2] and with b DoesNotExist. a=1 and b=1 do not: both select a node with both
// labels, but whether such a node exists depends on the nodes. (Koordinator tries label sets made from the values in
// the selectors: all products of their numbers, but only along the diagonal, and none for Exists, so that it misses
// overlaps and may need gigabytes.) Here the decision is made key by key, because the keys of a selector are
// independent.

// sample returns the labels of a node that both select and that has no labels except those that s names; false if there
// is none.
func sample(s, other selector.Constraints) (labels []string, ok bool) {
	i := 0
	for j := range s {
		if i, ok = missing(other, i, s[j].Key); !ok {
			return nil, false
		}
		by := &s[j] // a selector that does not name the key accepts any value
		if i < len(other) && other[i].Key == s[j].Key {
			by = &other[i]
			i++
		}
		value, present, ok := common(&s[j], by)
		if !ok {
			return nil, false
		}
		if present {
			labels = append(labels, s[j].Key+"="+value)
		}
	}
	_, ok = missing(other, i, "")
	return labels, ok && s != nil && other != nil
}

// missing reports whether all keys from index from up to the key before may be missing; "" means up to the end. next is
// the index after them.
func missing(s selector.Constraints, from int, before string) (next int, ok bool) {
	for next = from; next < len(s) && (before == "" || s[next].Key < before); next++ {
		if !s[next].Absent {
			return next, false
		}
	}
	return next, true
}

// common returns a value that both allow; present is false if both allow that the key is missing.
func common(c, d *selector.Constraint) (value string, present, ok bool) {
	if c.Absent && d.Absent {
		return "", false, true
	}
	if c.Except && d.Except {
		both := c.And(*d)
		return example(&both), true, true
	}
	if c.Except {
		c, d = d, c
	}
	for _, value := range c.Values {
		if d.Allows(value) {
			return value, true, true
		}
	}
	return "", true, false
}

// example returns a value that is not excluded.
func example(c *selector.Constraint) string {
	value := "any"
	for i := 2; !c.Allows(value); i++ {
		value = fmt.Sprintf("any-%d", i)
	}
	return value
}

// maxNamed is the number of entries or nodes that a message names.
const maxNamed = 10

// findOverlaps reports the overlapping entries of each section, at the later one.
func (c *Config) findOverlaps() {
	for n := range c.sections {
		s := &c.sections[n]
		met := map[int][]overlapWith{}
		for i := s.first; i < s.last && len(met) <= maxProblems; i++ {
			c.findOverlapsOf(i, met)
		}
		found := &c.findings[slices.IndexFunc(c.findings, func(f finding) bool { return f.key == s.key })]
		for i := s.first; i < s.last; i++ {
			if len(met[i]) > 0 {
				c.reportOverlap(i, met[i], found)
			}
		}
	}
}

// overlapWith is an overlap with another entry.
type overlapWith struct {
	with   int
	labels []string
}

// findOverlapsOf finds entries that overlap with one on its own labels. It stops at maxNamed, so that a text in which
// all entries overlap does not take minutes.
func (c *Config) findOverlapsOf(i int, met map[int][]overlapWith) {
	e := &c.entries[i]
	n := 0
	for j := range c.near(e.selector) {
		if i == j || c.entries[j].section != e.section {
			continue
		}
		labels, ok := sample(e.selector, c.entries[j].selector)
		if !ok {
			continue
		}
		later, sooner := max(i, j), min(i, j)
		if !slices.ContainsFunc(met[later], func(m overlapWith) bool { return m.with == sooner }) {
			met[later] = append(met[later], overlapWith{sooner, labels})
		}
		if n++; n >= maxNamed {
			return
		}
	}
}

func (c *Config) reportOverlap(i int, met []overlapWith, found *finding) {
	slices.SortFunc(met, func(a, b overlapWith) int { return a.with - b.with })
	var names []string
	for _, m := range met[:min(len(met), maxNamed)] {
		names = append(names, c.label(m.with))
	}
	example := "without labels"
	if labels := met[0].labels; len(labels) > 0 {
		example = "with labels " + shorten(strings.Join(labels, ","))
	}
	e := &c.entries[i]
	found.invalid(c.path(e).Child("nodeSelector"), c.label(i),
		"overlaps with %s: a node %s is selected by both, and only the first counts; make the selectors exclude each other",
		strings.Join(names, ", "), example)
}

// label returns the name of an entry for messages.
func (c *Config) label(i int) string {
	e := &c.entries[i]
	text := fmt.Sprintf("%s[%d]", c.sections[e.section].list, e.number)
	if e.name != "" {
		text += " (" + shorten(e.name) + ")"
	}
	return text
}

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
