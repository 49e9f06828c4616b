// Package profile determines which ClusterColocationProfiles apply to a pod or a reservation. Profiles are compiled
// once, when they change, into an immutable Set that concurrent requests share. The package reads no cluster and
// changes no object.
package profile

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document/strategic"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/internal/selector"
)

// Profile is one compiled profile.
type Profile struct {
	Name string
	// Spec is the compiled spec; it must not be modified.
	Spec *api.ClusterColocationProfileSpec
	// These are the maps of the spec sorted by key, so that they are applied in a fixed order.
	Labels, Annotations, LabelKeysMapping, AnnotationKeysMapping, LabelSuffixes []Pair
	// Patch is spec.patch; nil if there is none.
	Patch *strategic.Patch
	// LeftOut are the errors of the parts of spec.patch that are not in Patch.
	LeftOut field.ErrorList
	// RequestsClass reports that the profile sets a QoS or priority class, so that cpu and memory are translated for
	// that class. A profile with AnnotationSkipUpdateResources never asks for it; that does not affect other profiles.
	RequestsClass bool

	namespaces labels.Selector // nil matches any
	selector   labels.Selector // nil matches any
	percent    int             // of the workloads, 0 to 100
	problems   []Problem
}

// Problems are the errors that keep the profile from being evaluated; a profile with problems matches no object.
func (p *Profile) Problems() []Problem { return p.problems }

// Problem is one error of a profile: the field, the value, the rule and what to do.
type Problem struct {
	Profile string
	Err     *field.Error
}

// Error includes the name of the profile.
func (p Problem) Error() string { return "profile " + p.Profile + ": " + p.Err.Error() }

// Set is a number of profiles, sorted by name byte by byte: the order in which they are applied. nil is the empty set.
type Set struct {
	profiles []*Profile
	pods     selector.Index[string] // by the labels of pods
	spaces   selector.Index[string] // the profiles that pods does not narrow down, by the labels of namespaces
}

// Profiles returns all profiles in order, including broken ones.
func (s *Set) Profiles() []*Profile {
	if s == nil {
		return nil
	}
	return s.profiles
}

// Pair is a label or an annotation.
type Pair struct{ Key, Value string }

// Sorted returns the pairs of a map by key, for a deterministic order.
func Sorted(m map[string]string) []Pair {
	pairs := make([]Pair, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, Pair{key, m[key]})
	}
	return pairs
}
