package collections

import (
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/profile"
)

// ColocationProfiles holds the name, labels, annotations and spec of all ClusterColocationProfiles, compiled to a set.
var ColocationProfiles = &cluster.Compiled[*api.ClusterColocationProfile, *profile.Set]{
	Collection: cluster.Collection[*api.ClusterColocationProfile]{
		Name: api.CollectionColocationProfiles, Kind: api.ClusterColocationProfileKind, Resource: api.ClusterColocationProfileResource.Resource, CRD: true,
		Keep: cluster.Keep(func(o *api.ClusterColocationProfile) *api.ClusterColocationProfile {
			return &api.ClusterColocationProfile{ObjectMeta: nameAndKeys(o), Spec: o.Spec}
		}),
	},
	Compile: compileProfiles,
}

func compileProfiles(all cluster.Objects[*api.ClusterColocationProfile]) (*profile.Set, []error, error) {
	list := make([]api.ClusterColocationProfile, 0, all.Len())
	for _, p := range all.Sorted() {
		list = append(list, *p)
	}
	set, broken := profile.Compile(list)
	problems := make([]error, len(broken))
	for i := range broken {
		problems[i] = broken[i]
	}
	return set, problems, nil
}

// Profiles returns the colocation profiles.
func (q Questions) Profiles() (*profile.Set, error) { return ColocationProfiles.Get(q.Now()) }
