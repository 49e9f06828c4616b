package admit

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"usher.dev/usher/admit/document"
)

// place is where an override is filed: under something without which it cannot match.
type place struct {
	kind placeKind
	key  string // of a label; otherwise empty
}

type placeKind int

const (
	byNamespace placeKind = iota
	byUser
	byGroup
	byNamespaceLabel
	byObjectLabel
)

// filing is one way to file an override: under these values, at least one of which a request must have.
type filing []struct {
	place
	value string
}

// overrideIndex finds the overrides that may match a request, so that all others cost nothing. An override is filed
// under its rarest condition. The zero index is empty.
type overrideIndex struct {
	filed  map[place]map[string][]int32 // positions of overrides, by value
	labels []place                      // those of filed that are about labels
	always []int32                      // the positions of overrides that may match any request
}

func newOverrideIndex(overrides []*stepOverride) overrideIndex {
	x := overrideIndex{filed: map[place]map[string][]int32{}}
	popular := map[place]map[string]int{}
	for _, o := range overrides {
		for _, way := range filings(&o.Override) {
			for _, v := range way {
				if popular[v.place] == nil {
					popular[v.place] = map[string]int{}
				}
				popular[v.place][v.value]++
			}
		}
	}
	for i, o := range overrides {
		x.file(int32(i), rarestFiling(filings(&o.Override), popular))
	}
	for p := range x.filed {
		if p.kind == byNamespaceLabel || p.kind == byObjectLabel {
			x.labels = append(x.labels, p)
		}
	}
	return x
}

// filings returns the ways to file an override.
func filings(o *Override) (ways []filing) {
	add := func(way filing, p place, values []string) filing {
		for _, v := range values {
			way = append(way, struct {
				place
				value string
			}{p, v})
		}
		return way
	}
	if len(o.Namespaces) > 0 {
		ways = append(ways, add(nil, place{kind: byNamespace}, o.Namespaces))
	}
	if len(o.Users)+len(o.Groups) > 0 {
		ways = append(ways, add(add(nil, place{kind: byUser}, o.Users), place{kind: byGroup}, o.Groups))
	}
	for kind, selector := range map[placeKind]labels.Selector{byNamespaceLabel: o.NamespaceSelector, byObjectLabel: o.Selector} {
		for _, r := range requirementsOf(selector) {
			if r.Operator() == selection.In || r.Operator() == selection.Equals || r.Operator() == selection.DoubleEquals {
				ways = append(ways, add(nil, place{kind, r.Key()}, r.ValuesUnsorted()))
			}
		}
	}
	return ways
}

// requirementsOf returns the parts of a selector; none if it is nil.
func requirementsOf(selector labels.Selector) labels.Requirements {
	if selector == nil {
		return nil
	}
	parts, _ := selector.Requirements()
	return parts
}

// rarestFiling returns the way whose values the fewest overrides share; nil if there is none.
func rarestFiling(ways []filing, popular map[place]map[string]int) (best filing) {
	least := 0
	for _, way := range ways {
		shared := 0
		for _, v := range way {
			shared = max(shared, popular[v.place][v.value])
		}
		if best == nil || shared < least {
			best, least = way, shared
		}
	}
	return best
}

func (x *overrideIndex) file(position int32, way filing) {
	if way == nil {
		x.always = append(x.always, position)
	}
	for _, v := range way {
		if x.filed[v.place] == nil {
			x.filed[v.place] = map[string][]int32{}
		}
		x.filed[v.place][v.value] = append(x.filed[v.place][v.value], position)
	}
}

// candidates appends the positions of the overrides that may match a request, in order. A position may occur twice.
// space has the labels of the request's namespace.
func (x *overrideIndex) candidates(into []int32, req *Request, name string, space map[string]string) []int32 {
	into = append(into, x.always...)
	if name != "" {
		into = append(into, x.filed[place{kind: byNamespace}][name]...)
	}
	into = append(into, x.filed[place{kind: byUser}][req.UserInfo.Username]...)
	if ofGroups := x.filed[place{kind: byGroup}]; ofGroups != nil {
		for _, group := range req.UserInfo.Groups {
			into = append(into, ofGroups[group]...)
		}
	}
	for _, p := range x.labels {
		if p.kind == byNamespaceLabel {
			if value, found := space[p.key]; found {
				into = append(into, x.filed[p][value]...)
			}
			continue
		}
		for _, object := range [...]*document.Document{req.Object, req.OldObject} {
			if object != nil {
				into = append(into, x.filed[p][Meta{object.Root()}.Label(p.key)]...)
			}
		}
	}
	slices.Sort(into)
	return into
}
