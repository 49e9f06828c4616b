package slo

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/internal/selector"
)

// pair is two numbers of which one must be less than the other. If a strategy sets only one of them, the other comes
// from the cluster's strategy or is the default.
type pair struct {
	in                         []string // the path of members to both
	lower, upper               string
	lowerDefault, upperDefault *int64 // nil: it follows from the other one, or does not exist
}

// layer is a strategy and the strategy that provides its defaults.
type layer struct {
	at         *field.Path
	tree, base map[string]any
	nodes      selector.Constraints // that an entry selects; nil for the cluster's strategy
}

// layers returns the cluster's strategy, and those of entries.
func (s *section) layers(entries []entry) []layer {
	cluster, at := s.clusterOf(s.tree), pathOf(s.key)
	all := []layer{{at: at, tree: cluster}}
	if s.cluster != "" {
		all[0].at = at.Child(s.cluster)
	}
	for _, e := range entries {
		all = append(all, layer{at.Child(s.list).Index(e.number), e.tree, cluster, e.selector})
	}
	return all
}

// value returns a member below a path of members, nil if there is none, and whether it is the strategy's own.
func (l layer) value(in []string, name string) (value any, own bool) {
	if value := down(l.tree, in)[name]; value != nil {
		return value, true
	}
	return down(l.base, in)[name], false
}

// checkPairs checks the pairs of the cluster's strategy and of each entry.
func (s *section) checkPairs(entries []entry, found *finding) {
	for _, l := range s.layers(entries) {
		for _, p := range s.pairs {
			s.checkPair(p, l, found)
		}
	}
}

// limit is the effective number of a pair.
type limit struct {
	value int64
	given bool   // it is set anywhere
	ok    bool   // it is in its own range; otherwise that is reported, and it is not compared
	own   bool   // the strategy itself sets it
	from  string // what else sets it, for messages
}

func (l limit) String() string { return fmt.Sprint(l.value) + l.from }

func (s *section) checkPair(p pair, l layer, found *finding) {
	lower, upper := s.limit(p, p.lower, l, p.lowerDefault), s.limit(p, p.upper, l, p.upperDefault)
	at := l.at
	for _, name := range p.in {
		at = at.Child(name)
	}
	if lower.own && !upper.given {
		found.warnf("%s: no effect without %s", at.Child(p.lower), p.upper)
	}
	if !lower.ok || !upper.ok || lower.value < upper.value {
		return
	}
	if lower.own {
		found.invalid(at.Child(p.lower), lower.value, "must be less than %s, which is %s", p.upper, upper)
	}
	if upper.own {
		found.invalid(at.Child(p.upper), upper.value, "must be greater than %s, which is %s", p.lower, lower)
	}
}

// limit returns the effective number.
func (s *section) limit(p pair, name string, l layer, byDefault *int64) limit {
	rule := s.strategy
	for _, in := range p.in {
		rule = rule[in].(fields)
	}
	value, own := l.value(p.in, name)
	from := ""
	switch {
	case own:
	case value != nil:
		from = " by " + s.cluster
	case byDefault != nil:
		value, from = *byDefault, " by default"
	default:
		return limit{}
	}
	n, isInt := value.(int64)
	return limit{n, true, isInt && rule[name].(whole).allows(n), own, from}
}

// down follows a path of members; nil if one is missing.
func down(tree map[string]any, names []string) map[string]any {
	for _, name := range names {
		tree, _ = tree[name].(map[string]any)
	}
	return tree
}
