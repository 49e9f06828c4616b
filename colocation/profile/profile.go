// Package profile knows which ClusterColocationProfiles a pod or a reservation gets. Profiles are compiled once, when
// they change, into a Set that never changes and that many requests use at the same time. It asks no cluster and changes
// no object.
package profile

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/labelindex"
	"usher.dev/usher/document/strategic"
)

// Profile is one compiled profile.
type Profile struct {
	Name string
	// Spec is what was compiled, to be read only.
	Spec *api.ClusterColocationProfileSpec
	// These are the maps of the spec by key, so that they are applied in the same order each time.
	Labels, Annotations, LabelKeysMapping, AnnotationKeysMapping, LabelSuffixes []Pair
	// Patch is spec.patch; nil if there is none.
	Patch *strategic.Patch
	// AsksForClass tells that the profile gives a QoS or priority class, so that cpu and memory are to become what the
	// class uses. One with AnnotationSkipUpdateResources asks for nothing, whatever it gives; it does not speak for other
	// profiles (W3).
	AsksForClass bool

	namespaces labels.Selector // nil: any
	selector   labels.Selector // nil: any
	percent    int             // of the workloads, 0 to 100
	problems   []Problem
}

// Problems are what keeps the profile from being evaluated; a profile that has any matches nobody.
func (p *Profile) Problems() []Problem { return p.problems }

// Problem is one thing that is wrong with a profile: where, which value, what the rule is and what to do.
type Problem struct {
	Profile string
	Err     *field.Error
}

// Error names the profile too.
func (p Problem) Error() string { return "profile " + p.Profile + ": " + p.Err.Error() }

// Set is a number of profiles, sorted by name byte by byte: the order in which they are applied. nil is the empty set.
type Set struct {
	profiles []*Profile
	pods     labelindex.Index // by the labels of pods
	spaces   labelindex.Index // of those that pods does not narrow down: by the labels of namespaces
}

// Profiles are all profiles in order, the broken ones included.
func (s *Set) Profiles() []*Profile {
	if s == nil {
		return nil
	}
	return s.profiles
}
