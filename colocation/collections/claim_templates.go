package collections

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
)

// ClaimTemplates holds the requests for devices of all ResourceClaimTemplates, which are immutable. An API server that does not serve
// the version must not keep usher from being ready: pods that name templates are refused then, and all others pass.
var ClaimTemplates = &cluster.Collection[*resourcev1.ResourceClaimSpec]{
	Name: api.CollectionClaimTemplates, Kind: resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"), Resource: "resourceclaimtemplates",
	Namespaced: true, CRD: true,
	Keep: cluster.Keep(func(o *resourcev1.ResourceClaimTemplate) *resourcev1.ResourceClaimSpec {
		return &resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: o.Spec.Spec.Devices.Requests}}
	}),
}

// ClaimTemplate returns the spec of the claims that a template makes. A watch may not have brought the template yet: it is waited for
// until ctx ends. A file that lacks it will not get it.
func (q Questions) ClaimTemplate(ctx context.Context, watched bool, namespace, name string) (*resourcev1.ResourceClaimSpec, bool, error) {
	key := namespace + "/" + name
	if !watched {
		return ClaimTemplates.Expect(q.Now(), key)
	}
	for {
		now := q.Now()
		spec, known, err := ClaimTemplates.Find(now, key)
		if known || err != nil {
			return spec, known, err
		}
		select {
		case <-now.Changed():
		case <-ctx.Done():
			return nil, false, nil
		}
	}
}
