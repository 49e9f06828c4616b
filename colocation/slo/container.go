package slo

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/colocation/api"
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
		if value := members[name]; value != nil {
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

// namesIn returns the names of members in a value with a rule.
func namesIn(r rule) api.Names {
	switch r := r.(type) {
	case list:
		return namesIn(r.rule)
	case dict:
		return func(key string) (string, api.Names) { return key, namesIn(r.rule) }
	case fields:
		return func(key string) (string, api.Names) {
			if known := r.known(key); known != "" {
				return known, namesIn(r[known])
			}
			return key, nil
		}
	}
	return nil
}
