// Package slo knows the SLO configuration: the ConfigMap from which Koordinator's manager and node agent learn what to do on
// which nodes. Each data key holds the JSON text of one configuration: a strategy for the cluster, and a list of entries, each
// for the nodes that its selector selects. Compile reads such a ConfigMap once, into a Config that never changes and that many
// requests use at the same time. The package asks no cluster.
package slo

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/colocation/labelindex"
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

// Config is what a ConfigMap says. nil is the one that says nothing.
type Config struct {
	sections []section        // those that can be read, in the order of the tables
	entries  []entry          // of all sections, in order
	index    labelindex.Index // of entries
	findings []finding        // one for each key, and one for what two keys say together
	warnings []Warning
}

// Problem is one thing that is wrong with a configuration: where, which value, what the rule is and what to do.
type Problem struct {
	Key string // the data key
	// With is another key that the rule looks at too; empty for most.
	With string
	Err  *field.Error
}

// Error is that of the field.
func (p Problem) Error() string { return p.Err.Error() }

// Warning is about something that is allowed, but has no effect or not the one that was meant.
type Warning struct{ Key, Text string }

// Compile reads the data of a ConfigMap. What cannot be read, or breaks a rule, is among the problems; the rest of the
// configuration counts, as it does for those who work by it.
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
	section  int // Config.sections
	number   int // in the list, from 0
	name     string
	tree     map[string]any
	selector selector // nil: broken, so that it selects nothing
}

// add takes up a section, its entries and what is wrong with them.
func (c *Config) add(s section, found *finding) {
	s.first = len(c.entries)
	list, _ := s.tree[s.list].([]any)
	at := found.path().Child(s.list)
	for i, value := range list {
		tree, _ := value.(map[string]any) // null is an entry without a selector; anything else was found
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

// Problems gives what is wrong with the keys for which changed is true: with one of them, or with one of them beside another. nil
// stands for all keys.
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

// Warnings gives what people may want to know of the keys, in their order.
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

// section finds the configuration of a key; nil if there is none that can be read.
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

// entriesOf are the entries of a section.
func (c *Config) entriesOf(s *section) []entry { return c.entries[s.first:s.last] }

// path is where an entry stands.
func (c *Config) path(e *entry) *field.Path {
	s := &c.sections[e.section]
	return pathOf(s.key).Child(s.list).Index(e.number)
}
