package explain

import (
	"maps"
	"reflect"
	"slices"

	"usher.dev/usher/server/recording/mask"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// change is one difference between two documents.
type change struct {
	path path
	what string // added, removed, set, or moved: the elements of a list are the same in another order
	to   any    // the value, if there is one
}

// differences returns what changed from one document to another. Elements of lists are matched by their names.
func differences(before, after any) []change { return differ(nil, nil, before, after) }

func differ(all []change, p path, before, after any) []change {
	if reflect.DeepEqual(before, after) {
		return all
	}
	was, wasMap := before.(map[string]any)
	is, isMap := after.(map[string]any)
	if wasMap && isMap {
		return differMaps(all, p, was, is)
	}
	wasList, wasL := before.([]any)
	isList, isL := after.([]any)
	if wasL && isL {
		return differLists(all, p, wasList, isList)
	}
	return append(all, change{p, "set", after})
}

func differMaps(all []change, p path, was, is map[string]any) []change {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(was)), maps.Keys(is))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		before, had := was[key]
		after, has := is[key]
		at := p.member(key)
		switch {
		case had && has:
			all = differ(all, at, before, after)
		case has:
			all = whole(all, at, "added", after)
		default:
			all = whole(all, at, "removed", before)
		}
	}
	return all
}

// whole returns the changes for a member that was added or removed: one for each part of it that has a name.
func whole(all []change, at path, what string, value any) []change {
	last := at[len(at)-1].key
	switch v := value.(type) {
	case map[string]any:
		if mask.IsMap(last) && len(v) > 0 {
			for _, key := range slices.Sorted(maps.Keys(v)) {
				all = whole(all, at.member(key), what, v[key])
			}
			return all
		}
	case []any:
		if len(v) > 0 && names(last, v) != nil && what == "added" {
			return differLists(all, at, nil, v)
		} else if len(v) > 0 && names(last, v) != nil {
			return differLists(all, at, v, nil)
		}
	}
	if what == "removed" {
		value = nil
	}
	return append(all, change{at, what, value})
}

func differLists(all []change, p path, was, is []any) []change {
	list := ""
	if len(p) > 0 {
		list = p[len(p)-1].key
	}
	before, after := names(list, was), names(list, is)
	if before == nil && len(was) > 0 || after == nil && len(is) > 0 {
		return differByIndex(all, p, was, is)
	}
	for i, name := range before {
		if !slices.Contains(after, name) {
			all = append(all, change{p.to(segment{isItem: true, index: i, name: name}), "removed", nil})
		}
	}
	var common []int // places in the old list of what is in both, in the new order
	for i, name := range after {
		at := p.to(segment{isItem: true, index: i, name: name})
		old := slices.Index(before, name)
		if old < 0 {
			all = append(all, change{at, "added", is[i]})
			continue
		}
		common = append(common, old)
		all = differ(all, at, was[old], is[i])
	}
	if !slices.IsSorted(common) {
		all = append(all, change{p, "moved", nil})
	}
	return all
}

// differByIndex compares lists whose elements have no names: what is the same at both ends is left out.
func differByIndex(all []change, p path, was, is []any) []change {
	start, end := 0, 0
	for start < min(len(was), len(is)) && reflect.DeepEqual(was[start], is[start]) {
		start++
	}
	for end < min(len(was), len(is))-start && reflect.DeepEqual(was[len(was)-1-end], is[len(is)-1-end]) {
		end++
	}
	was, is = was[start:len(was)-end], is[start:len(is)-end]
	for i := range max(len(was), len(is)) {
		at := p.to(segment{isItem: true, index: start + i})
		switch {
		case i >= len(was):
			all = append(all, change{at, "added", is[i]})
		case i >= len(is):
			all = append(all, change{at, "removed", nil})
		default:
			all = differ(all, at, was[i], is[i])
		}
	}
	return all
}

// byOperations returns the changes that operations say they make, for a document that is not known.
func byOperations(patch []report.Operation) (all []change) {
	for _, o := range patch {
		at := pathOf(o.Path)
		value, _ := requests.DecodeJSON(o.Value)
		if n := len(at); n > 1 && at[n-1].isItem {
			at[n-1].name = nameIn(at[n-2].key, value)
		}
		switch o.Op {
		case "add", "replace":
			what := map[string]string{"add": "added", "replace": "set"}[o.Op]
			if len(at) == 0 || what == "set" || at[len(at)-1].isItem {
				all = append(all, change{at, what, value})
				continue
			}
			all = whole(all, at, "added", value)
		case "remove":
			all = append(all, change{at, "removed", nil})
		case "move":
			all = append(all, change{pathOf(o.From), "removed", nil}, change{at, "set", nil})
		case "copy":
			all = append(all, change{at, "set", nil})
		}
	}
	return all
}
