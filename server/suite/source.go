package suite

import (
	"fmt"

	"usher.dev/usher/cluster"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/internal/poll"
)

// Source says where the state of the cluster comes from. The zero value stands for an empty cluster.
type Source struct {
	From       string            // api for an API server; files, or "", for files
	Kubeconfig string            // how to reach the API server; "" for as kubectl does, or as a pod
	Dir        string            // directory of manifests
	Manifests  map[string][]byte // contents of files, in the place of Dir
	Poll       poll.Times        // when Dir is read again
	Given      []manifest.Object // count beside files, see cluster.Options
	Missing    func(collection, key string)
}

// Open opens a cluster with the given options.
func (s Source) Open(o cluster.Options) (*cluster.Cluster, error) {
	o.Poll, o.Given, o.Missing = s.Poll, s.Given, s.Missing
	switch {
	case s.Manifests != nil:
		return cluster.Manifests(s.Manifests, o)
	case s.From != "api":
		return cluster.Files(s.Dir, o)
	}
	config, err := apiserver.LoadConfig(s.Kubeconfig, "")
	if err != nil {
		return nil, fmt.Errorf("--cluster=api: %w; pass --kubeconfig FILE, or run usher as a pod with the token of its service account", err)
	}
	return cluster.API(config, o)
}
