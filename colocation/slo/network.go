package slo

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/internal/selector"
)

// A strategy's share of the network is either a percentage, written as a number, or a bandwidth in bytes per second,
// written as a string. Percentages must not add up to more than 100, bandwidths to no more than system-config's
// totalNetworkBandwidth if that is known; the two are never added to each other. (Koordinator adds both, so that it
// refuses "50M", and every percentage without a totalNetworkBandwidth.)

// sharers are the classes that share the network.
var sharers = []string{"lsrClass", "lsClass", "beClass"}

// checkBandwidth checks the network requests of the entries of QoSKey, against the totals in SystemKey.
func (c *Config) checkBandwidth() finding {
	found := finding{key: QoSKey}
	s := c.section(QoSKey)
	if s == nil {
		return found
	}
	for _, l := range s.layers(c.entriesOf(s)) {
		l.checkFormat(&found)
		l.checkSums(&found, c.totalFor(l.nodes))
	}
	for i := range found.problems {
		found.problems[i].With = SystemKey
	}
	return found
}

// request returns the network request of a class, nil if there is none, and whether it is the strategy's own.
func (l layer) request(class, name string) (value any, own bool) {
	return l.value([]string{class, "networkQOS"}, name)
}

// checkFormat requires that the requests of a strategy are all percentages or all bandwidths.
func (l layer) checkFormat(found *finding) {
	var percents, bandwidths []string
	for _, class := range sharers {
		for _, name := range []string{"ingressRequest", "egressRequest"} {
			value, own := l.request(class, name)
			if !own {
				continue
			}
			switch value.(type) {
			case int64:
				percents = append(percents, class+"."+name)
			case string:
				bandwidths = append(bandwidths, class+"."+name)
			}
		}
	}
	if len(percents) > 0 && len(bandwidths) > 0 {
		found.invalid(l.at, field.OmitValueType{}, "network requests must be all percentages (numbers) or all bandwidths (strings); "+
			"percentages are %s, bandwidths are %s", strings.Join(percents, ", "), strings.Join(bandwidths, ", "))
	}
}

// checkSums checks the total of each direction. A strategy without requests of its own gets no errors for the
// cluster's.
func (l layer) checkSums(found *finding, total *resource.Quantity) {
	for _, name := range []string{"ingressRequest", "egressRequest"} {
		percents, bandwidths := l.sums(name)
		if percents.own && percents.total.CmpInt64(100) > 0 {
			found.invalid(l.at, percents.total.String(), "%s of %s must not sum to more than 100 percent", name, percents)
		}
		if total != nil && bandwidths.own && bandwidths.total.Cmp(*total) > 0 {
			found.invalid(l.at, bandwidths.total.String(), "%s of %s must not sum to more than totalNetworkBandwidth in %s, which is %s",
				name, bandwidths, SystemKey, total)
		}
	}
}

// sums returns the totals of the classes in one direction. Values outside their range are reported elsewhere, and left
// out.
func (l layer) sums(name string) (percents, bandwidths sum) {
	for _, class := range sharers {
		value, own := l.request(class, name)
		switch v := value.(type) {
		case int64:
			if percent.allows(v) {
				percents.add(class, *resource.NewQuantity(v, resource.DecimalSI), own)
			}
		case string:
			if q, err := quantity.ParseQuantity(strings.TrimSpace(v)); err == nil && q.Sign() >= 0 {
				bandwidths.add(class, q, own)
			}
		}
	}
	return percents, bandwidths
}

// sum is the total of several classes.
type sum struct {
	total resource.Quantity
	parts []string
	own   bool // the strategy itself contributes to it
}

func (s *sum) add(class string, q resource.Quantity, own bool) {
	s.total.Add(q)
	from := ""
	if !own {
		from = " by clusterStrategy"
	}
	s.parts = append(s.parts, fmt.Sprintf("%s (%s%s)", class, q.String(), from))
	s.own = s.own || own
}

func (s sum) String() string { return strings.Join(s.parts, ", ") }

// totalFor returns the bandwidth of the nodes that a selector selects, in bytes per second: from the entry of
// system-config with the same selector, otherwise from its cluster strategy. nil means unknown: the node agent then
// uses the speed of the network card.
func (c *Config) totalFor(nodes selector.Constraints) *resource.Quantity {
	s := c.section(SystemKey)
	if s == nil {
		return nil
	}
	entries := c.entriesOf(s)
	i := slices.IndexFunc(entries, func(e entry) bool { return nodes != nil && e.selector.Equal(nodes) })
	if i >= 0 {
		if q := totalIn(entries[i].tree); q != nil {
			return q
		}
	}
	return totalIn(s.clusterOf(s.tree))
}

// totalIn returns the bandwidth of a strategy; nil if it is not set.
func totalIn(tree map[string]any) *resource.Quantity {
	text, _ := quantityText(tree["totalNetworkBandwidth"])
	q, err := quantity.ParseQuantity(strings.TrimSpace(text))
	if err != nil || q.Sign() <= 0 {
		return nil
	}
	return &q
}
