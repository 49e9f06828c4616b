package slo

import (
	"fmt"
	"slices"
	"strings"
)

// Two selectors overlap if both select a node that has no labels but those that one of the two speaks of. So a=1 overlaps with
// a=1,b=2, with a NotIn [2] and with b DoesNotExist. a=1 and b=1 do not: they meet on a node with both labels, and whether
// there is such a node is a question to the nodes. (Koordinator tries labels made from the values that stand in the selectors:
// all products of their numbers, though along the diagonal only, and none for Exists, so that it misses overlaps and may need
// gigabytes.) Here it is decided key by key, as the keys of a selector do not depend on each other.

// sample gives the labels of a node that both select and that has none but those that s speaks of; false if there is none.
func (s selector) sample(other selector) (labels []string, ok bool) {
	i := 0
	for j := range s {
		if i, ok = other.missing(i, s[j].key); !ok {
			return nil, false
		}
		by := &s[j] // who does not speak of a key takes what the other wants
		if i < len(other) && other[i].key == s[j].key {
			by = &other[i]
			i++
		}
		value, present, ok := s[j].common(by)
		if !ok {
			return nil, false
		}
		if present {
			labels = append(labels, s[j].key+"="+value)
		}
	}
	_, ok = other.missing(i, "")
	return labels, ok && s != nil && other != nil
}

// missing reports whether all keys before the given one may be missing, from a number on; "" is after the last. It gives the number
// after them.
func (s selector) missing(from int, before string) (next int, ok bool) {
	for next = from; next < len(s) && (before == "" || s[next].key < before); next++ {
		if !s[next].absent {
			return next, false
		}
	}
	return next, true
}

// common gives a value that both allow; present is false if both allow that the key is missing.
func (c *constraint) common(d *constraint) (value string, present, ok bool) {
	if c.absent && d.absent {
		return "", false, true
	}
	if c.except && d.except {
		both := c.and(*d)
		return both.example(), true, true
	}
	if c.except {
		c, d = d, c
	}
	for _, value := range c.values {
		if d.allows(value) {
			return value, true, true
		}
	}
	return "", true, false
}

// example is a value that is none of those that are excepted.
func (c *constraint) example() string {
	value := "any"
	for i := 2; !c.allows(value); i++ {
		value = fmt.Sprintf("any-%d", i)
	}
	return value
}

// maxNamed is how many entries or nodes a message names.
const maxNamed = 10

// findOverlaps finds the entries of each section that overlap, and tells so at the later one.
func (c *Config) findOverlaps() {
	for n := range c.sections {
		s := &c.sections[n]
		met := map[int][]meeting{}
		for i := s.first; i < s.last && len(met) <= maxProblems; i++ {
			c.meet(i, met)
		}
		found := &c.findings[slices.IndexFunc(c.findings, func(f finding) bool { return f.key == s.key })]
		for i := s.first; i < s.last; i++ {
			if len(met[i]) > 0 {
				c.tellOverlap(i, met[i], found)
			}
		}
	}
}

// meeting is an overlap with another entry.
type meeting struct {
	with   int
	labels []string
}

// meet finds entries with which one overlaps on its own labels: not many more than are told, so that a text in which all overlap
// is not looked at for minutes.
func (c *Config) meet(i int, met map[int][]meeting) {
	e := &c.entries[i]
	n := 0
	for j := range c.near(e.selector) {
		if i == j || c.entries[j].section != e.section {
			continue
		}
		labels, ok := e.selector.sample(c.entries[j].selector)
		if !ok {
			continue
		}
		later, sooner := max(i, j), min(i, j)
		if !slices.ContainsFunc(met[later], func(m meeting) bool { return m.with == sooner }) {
			met[later] = append(met[later], meeting{sooner, labels})
		}
		if n++; n >= maxNamed {
			return
		}
	}
}

func (c *Config) tellOverlap(i int, met []meeting, found *finding) {
	slices.SortFunc(met, func(a, b meeting) int { return a.with - b.with })
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

// label is how messages call an entry.
func (c *Config) label(i int) string {
	e := &c.entries[i]
	text := fmt.Sprintf("%s[%d]", c.sections[e.section].list, e.number)
	if e.name != "" {
		text += " (" + shorten(e.name) + ")"
	}
	return text
}
