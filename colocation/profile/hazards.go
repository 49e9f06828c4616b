package profile

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/colocation/api"
)

// Hazards describes in which ways a profile, together with the others of a set, gives a different result when it runs a
// second time, which the API server may request. Without hazards they are idempotent together. A profile of the same
// name in the set is the previous version and is skipped.
func (p *Profile) Hazards(others *Set) (hazards []string) {
	hazards = p.ownHazards()
	for _, o := range others.Profiles() {
		if o.Name == p.Name {
			continue
		}
		hazards = append(hazards, p.selectsWhatIsWrittenBy(o)...)
		hazards = append(hazards, o.selectsWhatIsWrittenBy(p)...)
		first, second := p, o
		if o.Name < p.Name {
			first, second = o, p
		}
		hazards = append(hazards, first.copiesWhatIsWrittenBy(second)...)
	}
	return hazards
}

// Hazards returns the hazards of all profiles of the set.
func (s *Set) Hazards() (hazards []string) {
	for i, p := range s.Profiles() {
		hazards = append(hazards, p.Hazards(&Set{profiles: s.profiles[:i]})...)
	}
	return hazards
}

func (p *Profile) ownHazards() (hazards []string) {
	written, otherwise := setOf(p.writtenLabels()), setOf(p.writtenAfterCopying("label"))
	for _, key := range p.selectedLabels() {
		if written[key] && !p.stillMatches(key, otherwise) {
			hazards = append(hazards,
				fmt.Sprintf("profile %s selects on label %s, which it writes itself: it may not match twice", p.Name, key))
		}
	}
	hazards = append(hazards, p.copyHazards("label", p.LabelKeysMapping)...)
	return append(hazards, p.copyHazards("annotation", p.AnnotationKeysMapping)...)
}

// copyHazards returns the hazards of a mapping. A key that is written after it was copied has another value in the next
// run.
func (p *Profile) copyHazards(kind string, mapping []Pair) (hazards []string) {
	written, targets := setOf(p.writtenAfterCopying(kind)), map[string]bool{}
	for _, keys := range mapping {
		if written[keys.Key] && keys.Key != keys.Value {
			hazards = append(hazards, fmt.Sprintf("profile %s copies %s %s, and then writes it: a second run copies another value",
				p.Name, kind, keys.Key))
		}
		if targets[keys.Value] {
			hazards = append(hazards, fmt.Sprintf("profile %s copies two keys to %s %s: the last by name wins", p.Name, kind, keys.Value))
		}
		targets[keys.Value] = true
	}
	return hazards
}

// stillMatches reports whether the selector matches the constant that the profile writes to key. otherwise holds the
// keys that it also writes by other means.
func (p *Profile) stillMatches(key string, otherwise map[string]bool) bool {
	value, constant := p.Spec.Labels[key]
	if !constant || otherwise[key] {
		return false
	}
	requirements, _ := p.selector.Requirements()
	return !slices.ContainsFunc(requirements, func(r labels.Requirement) bool {
		return r.Key() == key && !r.Matches(labels.Set{key: value})
	})
}

func (p *Profile) selectsWhatIsWrittenBy(o *Profile) (hazards []string) {
	written := setOf(o.writtenLabels())
	for _, key := range p.selectedLabels() {
		if written[key] {
			hazards = append(hazards, fmt.Sprintf("profile %s selects on label %s, which profile %s writes: a second run matches others",
				p.Name, key, o.Name))
		}
	}
	return hazards
}

// copiesWhatIsWrittenBy is called on the profile that is applied before later.
func (p *Profile) copiesWhatIsWrittenBy(later *Profile) (hazards []string) {
	copies := func(kind string, mapping []Pair, list []string) {
		written := setOf(list)
		for _, keys := range mapping {
			if written[keys.Key] {
				hazards = append(hazards, fmt.Sprintf("profile %s copies %s %s, which profile %s writes later: a second run copies that",
					p.Name, kind, keys.Key, later.Name))
			}
		}
	}
	copies("label", p.LabelKeysMapping, later.writtenLabels())
	copies("annotation", p.AnnotationKeysMapping, later.writtenAnnotations())
	return hazards
}

// selectedLabels returns the keys that the selector reads.
func (p *Profile) selectedLabels() (keys []string) {
	if p.selector == nil {
		return nil
	}
	requirements, _ := p.selector.Requirements()
	for _, r := range requirements {
		keys = append(keys, r.Key())
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// writtenLabels returns the keys of the labels that the profile may change.
func (p *Profile) writtenLabels() []string {
	return append(keys(p.Spec.Labels), p.writtenAfterCopying("label")...)
}

func (p *Profile) writtenAnnotations() []string {
	return append(keys(p.Spec.Annotations), p.writtenAfterCopying("annotation")...)
}

// writtenAfterCopying returns the keys that the profile may change after it has read what it copies. A suffix for a key
// that is also a copy target adds nothing.
func (p *Profile) writtenAfterCopying(kind string) (written []string) {
	s := p.Spec
	if kind == "annotation" {
		written = values(s.AnnotationKeysMapping)
	} else {
		written = append(values(s.LabelKeysMapping), keys(s.LabelSuffixes)...)
		if s.QoSClass != "" {
			written = append(written, api.LabelQoSClass)
		}
		if s.KoordinatorPriority != nil {
			written = append(written, api.LabelPriority)
		}
	}
	if p.Patch != nil {
		written = append(written, p.Patch.Members("metadata", kind+"s")...)
	}
	return written
}

// setOf avoids quadratic comparisons for profiles with hundreds of keys.
func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, key := range list {
		set[key] = true
	}
	return set
}

func keys(m map[string]string) (list []string) {
	for _, pair := range Sorted(m) {
		list = append(list, pair.Key)
	}
	return list
}

func values(m map[string]string) (list []string) {
	for _, pair := range Sorted(m) {
		if pair.Key != pair.Value {
			list = append(list, pair.Value)
		}
	}
	return list
}
