package slo

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Conflict means that several entries of one key select the same node: only the first of them applies to it.
type Conflict struct {
	Key string
	// Entries says which, for example nodeConfigs[0] (spot).
	Entries []string
	numbers []int // of Config.entries, in order
}

// Conflicts returns the conflicts of a node with the given labels, in the order of the keys.
func (c *Config) Conflicts(labels map[string]string) []Conflict {
	if c == nil {
		return nil
	}
	var all []Conflict
	for _, numbers := range c.clashes(nil, labels) {
		all = append(all, c.conflict(numbers))
	}
	return all
}

func (c *Config) conflict(numbers []int) Conflict {
	found := Conflict{Key: c.sections[c.entries[numbers[0]].section].key, numbers: numbers}
	for _, i := range numbers {
		found.Entries = append(found.Entries, c.label(i))
	}
	return found
}

// clashes returns the sets of two or more entries of one section that select the given labels. selected is a buffer.
func (c *Config) clashes(selected []int, labels map[string]string) (sets [][]int) {
	selected = c.selecting(selected, labels)
	for first := 0; first < len(selected); {
		last := first + 1
		for last < len(selected) && c.entries[selected[last]].section == c.entries[selected[first]].section {
			last++
		}
		if last-first > 1 {
			sets = append(sets, slices.Clone(selected[first:last]))
		}
		first = last
	}
	return sets
}

// selecting returns the entries that select the given labels, in order.
func (c *Config) selecting(into []int, labels map[string]string) []int {
	into = c.index.Candidates(into[:0], labels)
	into = slices.DeleteFunc(into, func(i int) bool { return !c.entries[i].selector.Matches(labels) })
	slices.Sort(into)
	return into
}

// Within reports whether all entries of a conflict are among the entries of another conflict of the same Config, so
// that it adds nothing new.
func (f Conflict) Within(others []Conflict) bool {
	return slices.ContainsFunc(others, func(o Conflict) bool {
		return !slices.ContainsFunc(f.numbers, func(i int) bool { return !slices.Contains(o.numbers, i) })
	})
}

// NodeProblems returns the conflicts of nodes in the keys for which changed returns true: one problem for each set of
// entries, at the last of them, with the names of up to ten nodes. The nodes may be in any order.
func (c *Config) NodeProblems(nodes iter.Seq2[string, map[string]string], changed func(key string) bool) (problems []Problem) {
	groups := c.groupNodes(nodes, changed)
	slices.SortFunc(groups, func(a, b *nodeGroup) int { return slices.Compare(a.numbers, b.numbers) })
	for _, found := range groups[:min(len(groups), maxProblems)] {
		problems = append(problems, c.nodeProblem(found))
	}
	return problems
}

func (c *Config) groupNodes(nodes iter.Seq2[string, map[string]string], changed func(key string) bool) (all []*nodeGroup) {
	byEntries := map[string]*nodeGroup{}
	var buffer [64]int
	for name, labels := range nodes {
		for _, numbers := range c.clashes(buffer[:0], labels) {
			if !changed(c.sections[c.entries[numbers[0]].section].key) {
				continue
			}
			id := fmt.Sprint(numbers)
			if byEntries[id] == nil {
				byEntries[id] = &nodeGroup{numbers: numbers}
				all = append(all, byEntries[id])
			}
			byEntries[id].names = append(byEntries[id].names, name)
		}
	}
	return all
}

// nodeGroup holds the nodes that are all selected by the same entries.
type nodeGroup struct {
	numbers []int
	names   []string
}

func (c *Config) nodeProblem(found *nodeGroup) Problem {
	slices.Sort(found.names)
	nodes := strings.Join(found.names[:min(len(found.names), maxNamed)], ", ")
	if more := len(found.names) - maxNamed; more > 0 {
		nodes += fmt.Sprintf(" and %d more", more)
	}
	conflict := c.conflict(found.numbers)
	last := found.numbers[len(found.numbers)-1]
	return Problem{Key: conflict.Key, Err: field.Invalid(c.path(&c.entries[last]).Child("nodeSelector"), c.label(last),
		fmt.Sprintf("%s all select the nodes %s, and only the first counts; make the selectors exclude each other, or change "+
			"the nodes' labels", strings.Join(conflict.named(), ", "), nodes))}
}

// named returns the first entries.
func (f Conflict) named() []string {
	if len(f.Entries) <= maxNamed {
		return f.Entries
	}
	return append(slices.Clone(f.Entries[:maxNamed]), fmt.Sprintf("%d more", len(f.Entries)-maxNamed))
}

// String describes the conflict, for a message about a node.
func (f Conflict) String() string {
	return fmt.Sprintf("%s: %s select this node; only the first counts", f.Key, strings.Join(f.named(), ", "))
}

// HasSeveral reports whether one of the keys for which changed returns true has several entries, so that a conflict is
// possible.
func (c *Config) HasSeveral(changed func(key string) bool) bool {
	return slices.ContainsFunc(c.sections, func(s section) bool { return s.last-s.first > 1 && changed(s.key) })
}

// NameProblems returns entries without a name, and names used by several entries of a key. It implements Koordinator's
// flag --node-strategy-name-need-check.
func (c *Config) NameProblems(changed func(key string) bool) (problems []Problem) {
	for i := range c.sections {
		if s := &c.sections[i]; changed(s.key) {
			found := finding{key: s.key}
			c.checkNames(s, &found)
			problems = append(problems, found.all()...)
		}
	}
	return problems
}

func (c *Config) checkNames(s *section, found *finding) {
	seen := map[string]int{}
	for _, e := range c.entriesOf(s) {
		at := c.path(&e).Child("name")
		before, twice := seen[e.name]
		switch {
		case e.name == "":
			found.add(field.Required(at, "every entry needs a name of its own (--node-strategy-name-need-check)"))
		case twice:
			found.invalid(at, e.name, "is the name of %s[%d] too; give each entry its own", s.list, before)
		default:
			seen[e.name] = e.number
		}
	}
}
