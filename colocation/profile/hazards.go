package profile

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

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
	written, otherwise := p.written("label"), p.writtenAfterCopying("label")
	for _, key := range p.selectedLabels() {
		if written.Has(key) && !p.stillMatches(key, otherwise) {
			hazards = append(hazards,
				fmt.Sprintf("profile %s selects on label %s, which it writes itself: it may not match twice", p.Name, key))
		}
	}
	for _, kind := range kinds {
		hazards = append(hazards, p.copyHazards(kind)...)
	}
	return hazards
}

// kinds lists what profiles write and copy.
var kinds = []string{"label", "annotation"}

// copies returns the keys of a kind that the profile copies to others.
func (p *Profile) copies(kind string) []Pair {
	if kind == "annotation" {
		return p.AnnotationKeysMapping
	}
	return p.LabelKeysMapping
}

// copyHazards returns the hazards of copies. A key that is written after it was copied has another value in the next
// run.
func (p *Profile) copyHazards(kind string) (hazards []string) {
	written, targets := p.writtenAfterCopying(kind), map[string]bool{}
	for _, keys := range p.copies(kind) {
		if written.Has(keys.Key) && keys.Key != keys.Value {
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
func (p *Profile) stillMatches(key string, otherwise sets.Set[string]) bool {
	value, constant := p.Spec.Labels[key]
	if !constant || otherwise.Has(key) {
		return false
	}
	requirements, _ := p.selector.Requirements()
	return !slices.ContainsFunc(requirements, func(r labels.Requirement) bool {
		return r.Key() == key && !r.Matches(labels.Set{key: value})
	})
}

func (p *Profile) selectsWhatIsWrittenBy(o *Profile) (hazards []string) {
	written := o.written("label")
	for _, key := range p.selectedLabels() {
		if written.Has(key) {
			hazards = append(hazards, fmt.Sprintf("profile %s selects on label %s, which profile %s writes: a second run matches others",
				p.Name, key, o.Name))
		}
	}
	return hazards
}

// copiesWhatIsWrittenBy is called on the profile that is applied before later.
func (p *Profile) copiesWhatIsWrittenBy(later *Profile) (hazards []string) {
	for _, kind := range kinds {
		written := later.written(kind)
		for _, keys := range p.copies(kind) {
			if written.Has(keys.Key) {
				hazards = append(hazards, fmt.Sprintf("profile %s copies %s %s, which profile %s writes later: a second run copies that",
					p.Name, kind, keys.Key, later.Name))
			}
		}
	}
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

// written returns the keys of a kind that the profile may change.
func (p *Profile) written(kind string) sets.Set[string] {
	written, constant := p.writtenAfterCopying(kind), p.Labels
	if kind == "annotation" {
		constant = p.Annotations
	}
	for _, pair := range constant {
		written.Insert(pair.Key)
	}
	return written
}

// writtenAfterCopying returns the keys that the profile may change after it has read what it copies. A suffix for a key
// that is also a copy target adds nothing.
func (p *Profile) writtenAfterCopying(kind string) sets.Set[string] {
	written := sets.New[string]()
	for _, keys := range p.copies(kind) {
		if keys.Key != keys.Value {
			written.Insert(keys.Value)
		}
	}
	if p.Patch != nil {
		written.Insert(p.Patch.Members("metadata", kind+"s")...)
	}
	if kind == "annotation" {
		return written
	}
	for _, suffix := range p.LabelSuffixes {
		written.Insert(suffix.Key)
	}
	if p.Spec.QoSClass != "" {
		written.Insert(api.LabelQoSClass)
	}
	if p.Spec.KoordinatorPriority != nil {
		written.Insert(api.LabelPriority)
	}
	return written
}
