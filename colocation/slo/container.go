package slo

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The rules of arrays and objects: each checks its elements.

func (r list) check(f *finding, at *field.Path, value any) {
	elements, ok := value.([]any)
	if !ok {
		f.wrongType(at, value, "an array")
		return
	}
	_, always := r.rule.(duration) // which accepts null, and cannot
	for i, element := range elements {
		if element != nil || always {
			r.rule.check(f, at.Index(i), element)
		}
	}
}

func (r dict) check(f *finding, at *field.Path, value any) {
	members, ok := value.(map[string]any)
	if !ok {
		f.wrongType(at, value, "an object")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if members[name] != nil {
			r.rule.check(f, at.Key(shorten(name)), members[name])
		}
	}
}

func (r fields) check(f *finding, at *field.Path, value any) {
	members, ok := value.(map[string]any)
	if !ok {
		f.wrongType(at, value, "an object")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		known := r.known(name)
		if known == "" {
			f.warnf("%s: unknown%s", at.Child(shorten(name)), suggestion(name, slices.Sorted(maps.Keys(r))))
			continue
		}
		if known != name && !f.rename(at, members, name, known) {
			continue
		}
		if value := members[known]; value != nil {
			r[known].check(f, at.Child(known), value)
		}
	}
}

// known returns the member that a name stands for. Koordinator matches names in any case, so usher must too, or a value
// would not be checked.
func (r fields) known(name string) string {
	if r[name] != nil {
		return name
	}
	for known := range r {
		if strings.EqualFold(known, name) {
			return known
		}
	}
	return ""
}

// rename gives a member its proper name; false if there is one of that name already.
func (f *finding) rename(at *field.Path, members map[string]any, name, known string) bool {
	if _, twice := members[known]; twice {
		f.invalid(at.Child(name), name,
			"is %s a second time, in another case: readers do not agree on which one counts; remove one", known)
		return false
	}
	f.warnf("%s: is read, but should be written %s", at.Child(name), known)
	members[known] = members[name]
	delete(members, name)
	return true
}
