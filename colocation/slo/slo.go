// Package slo checks and evaluates the SLO configuration: the ConfigMap from which Koordinator's manager and node agent
// read what to do on which nodes. Each data key holds a configuration as JSON text: a strategy for the cluster, and a
// list of entries, each for the nodes that its selector selects. Compile turns such a ConfigMap into an immutable
// Config that concurrent requests share. The package reads no cluster.
package slo

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/internal/selector"
)

// The data keys of the ConfigMap.
const (
	ColocationKey    = "colocation-config"
	ThresholdKey     = "resource-threshold-config"
	QoSKey           = "resource-qos-config"
	SystemKey        = "system-config"
	CPUBurstKey      = "cpu-burst-config"
	HostAppKey       = "host-application-config"
	NormalizationKey = "cpu-normalization-config"
	AmplificationKey = "resource-amplification-config"
)

// Config is the content of a ConfigMap. nil is an empty one.
type Config struct {
	sections []section              // the valid ones, in the order of the tables
	entries  []entry                // of all sections, in order
	index    selector.Index[string] // of entries
	findings []finding              // one for each key, and one for rules across two keys
	warnings []Warning
}

// Problem is one error of a configuration: the field, the value, the rule and what to do.
type Problem struct {
	Key string // the data key
	// With is the other key that the rule involves; empty for most rules.
	With string
	Err  *field.Error
}

// Error returns the error of the field.
func (p Problem) Error() string { return p.Err.Error() }

// Warning is about something that is allowed, but has no effect or not the intended one.
type Warning struct{ Key, Text string }

// Compile compiles the data of a ConfigMap. What does not parse or violates a rule is among the problems; the rest of
// the configuration applies, as it does for its other readers.
func Compile(data map[string]string) *Config {
	c := &Config{}
	for i := range tables {
		t := &tables[i]
		found := finding{key: t.key, warn: c.warn}
		if tree := t.read(data[t.key], &found); tree != nil {
			c.add(section{table: t, tree: tree}, &found)
		}
		c.findings = append(c.findings, found)
	}
	c.warnOfKeys(data)
	c.index = newIndex(c.entries)
	c.findOverlaps()
	c.findings = append(c.findings, c.checkBandwidth())
	return c
}

// section is the configuration of one key.
type section struct {
	*table
	tree        map[string]any
	first, last int // its entries: Config.entries[first:last]
}

// entry is the part of a configuration for some nodes.
type entry struct {
	section  int // index in Config.sections
	number   int // index in the list
	name     string
	tree     map[string]any
	selector selector.Constraints // nil if it is broken, so that it selects nothing
}

// add adds a section with its entries and their problems.
func (c *Config) add(s section, found *finding) {
	s.first = len(c.entries)
	list, _ := s.tree[s.list].([]any)
	at := found.path().Child(s.list)
	for i, value := range list {
		tree, _ := value.(map[string]any) // null is an entry without a selector; anything else was reported
		if tree == nil && value != nil {
			continue
		}
		e := entry{section: len(c.sections), number: i, tree: tree}
		e.name, _ = tree["name"].(string)
		e.selector = compileSelector(tree["nodeSelector"], at.Index(i).Child("nodeSelector"), found)
		c.entries = append(c.entries, e)
	}
	s.last = len(c.entries)
	c.sections = append(c.sections, s)
	s.checkPairs(c.entries[s.first:s.last], found)
}

// Problems returns the problems of the keys for which changed returns true, including those that involve one of them
// and another key. nil means all keys.
func (c *Config) Problems(changed func(key string) bool) (all []Problem) {
	if c == nil {
		return nil
	}
	for i := range c.findings {
		for _, p := range c.findings[i].all() {
			if changed == nil || changed(p.Key) || p.With != "" && changed(p.With) {
				all = append(all, p)
			}
		}
	}
	return all
}

// Warnings returns the warnings about the keys, in their order.
func (c *Config) Warnings() []Warning {
	if c == nil {
		return nil
	}
	return c.warnings
}

// maxWarnings is more than an answer holds.
const maxWarnings = 64

func (c *Config) warn(w Warning) {
	if len(c.warnings) < maxWarnings {
		c.warnings = append(c.warnings, w)
	}
}

// section returns the configuration of a key; nil if there is none, or it does not parse.
func (c *Config) section(key string) *section {
	if c == nil {
		return nil
	}
	i := slices.IndexFunc(c.sections, func(s section) bool { return s.key == key })
	if i < 0 {
		return nil
	}
	return &c.sections[i]
}

// entriesOf returns the entries of a section.
func (c *Config) entriesOf(s *section) []entry { return c.entries[s.first:s.last] }

// path returns the field path of an entry.
func (c *Config) path(e *entry) *field.Path {
	s := &c.sections[e.section]
	return pathOf(s.key).Child(s.list).Index(e.number)
}

// Keys returns the data keys that are checked, in the order in which problems are reported.
func Keys() []string {
	keys := make([]string, len(tables))
	for i := range tables {
		keys[i] = tables[i].key
	}
	return keys
}

// Changed returns the keys whose configuration differs between two versions of a ConfigMap's data. The layout of the
// JSON and the order of its members make no difference. old is nil if there is no previous version. A removed key has
// not changed: there is nothing to check.
func Changed(old, data map[string]string) func(key string) bool {
	changed := map[string]bool{}
	for i := range tables {
		key := tables[i].key
		changed[key] = data[key] != "" && (old == nil || !document.SameText(old[key], data[key]))
	}
	return func(key string) bool { return changed[key] }
}

// warnOfKeys warns of data keys that look misspelt. Other unknown keys are ignored: third parties use the ConfigMap
// too.
func (c *Config) warnOfKeys(data map[string]string) {
	keys := Keys()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if nearest.Of(key, keys) != "" && !slices.Contains(keys, key) {
			c.warn(Warning{key, pathOf(key).String() + ": unknown" + suggestion(key, keys)})
		}
	}
}

// suggestion suggests the known name that is most similar to a misspelt one; without one, it says what happens to the
// field.
func suggestion(name string, known []string) string {
	if best := nearest.Of(name, known); best != "" {
		return "; is it " + best + "?"
	}
	return ", so without effect"
}
