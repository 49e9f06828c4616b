package override

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/internal/selector"
)

// place is a kind of values that a request has and an override may ask for.
type place struct {
	kind placeKind
	key  string // of a label; otherwise empty
}

type placeKind int

const (
	byNamespace placeKind = iota
	byCaller              // a user or a group; a user with the name of a group is a candidate in vain
	byNamespaceLabel
	byObjectLabel
)

// index finds the overrides that may match a request. The zero index is empty.
type index struct {
	always              []int // the positions of overrides that may match any request
	namespaces, callers *selector.Shelf
	labels              []labelShelf
}

type labelShelf struct {
	place
	*selector.Shelf
}

func newIndex(overrides []*stepOverride) index {
	all := selector.NewIndex(func(yield func(int, []selector.Term[place]) bool) {
		for i, o := range overrides {
			if !yield(i, requiredBy(&o.Override)) {
				return
			}
		}
	})
	x := index{always: all.Always(), namespaces: all.Shelf(place{kind: byNamespace}), callers: all.Shelf(place{kind: byCaller})}
	for p, shelf := range all.Shelves() {
		if p.kind == byNamespaceLabel || p.kind == byObjectLabel {
			x.labels = append(x.labels, labelShelf{p, shelf})
		}
	}
	return x
}

// requiredBy returns what a request must have to match an override.
func requiredBy(o *admit.Override) (all []selector.Term[place]) {
	if len(o.Namespaces) > 0 {
		all = append(all, selector.Term[place]{Key: place{kind: byNamespace}, Values: o.Namespaces})
	}
	if len(o.Users)+len(o.Groups) > 0 {
		all = append(all, selector.Term[place]{Key: place{kind: byCaller}, Values: slices.Concat(o.Users, o.Groups)})
	}
	addLabels := func(kind placeKind, s labels.Selector) {
		for _, t := range selector.Terms(s) {
			all = append(all, selector.Term[place]{Key: place{kind, t.Key}, Any: t.Any, Values: t.Values})
		}
	}
	addLabels(byNamespaceLabel, o.NamespaceSelector)
	addLabels(byObjectLabel, o.Selector)
	return all
}

// candidates appends the positions of the overrides that may match a request, in order. A position may occur twice.
// space has the labels of the request's namespace.
func (x *index) candidates(into []int, req *admit.Request, name string, space map[string]string) []int {
	into = append(into, x.always...)
	if name != "" {
		into = x.namespaces.Append(into, name)
	}
	into = x.callers.Append(into, req.UserInfo.Username)
	for _, group := range req.UserInfo.Groups {
		into = x.callers.Append(into, group)
	}
	for _, filed := range x.labels {
		if filed.kind == byNamespaceLabel {
			if value, found := space[filed.key]; found {
				into = filed.Append(into, value)
			}
			continue
		}
		for _, object := range [...]*document.Document{req.Object, req.OldObject} {
			if object != nil {
				into = filed.Append(into, admit.AsMeta(object).Label(filed.key))
			}
		}
	}
	slices.Sort(into)
	return into
}
