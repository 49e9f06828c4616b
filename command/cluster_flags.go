package command

import (
	"cmp"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"usher.dev/usher/cluster"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/internal/poll"
)

// clusterFlags say where usher learns what the cluster looks like.
type clusterFlags struct {
	source, dir, kubeconfig string
	reread                  <-chan os.Signal // when to read dir again at once; nil for never
	askedOtherwise          bool             // another flag needs the API server, too
}

func (o *clusterFlags) addTo(set *pflag.FlagSet) {
	set.StringVar(&o.source, "cluster", cmp.Or(o.source, "files"), "where the state of the cluster comes from: files, or api: an API server")
	o.addDirTo(set)
	set.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does, or as a pod of the cluster)")
}

func (o *clusterFlags) addDirTo(set *pflag.FlagSet) {
	set.StringVar(&o.dir, "cluster-dir", "", "directory of manifests that stand for the cluster, re-read on change (default: an empty cluster)")
}

func (o *clusterFlags) check() error {
	switch {
	case o.source != "files" && o.source != "api":
		return fmt.Errorf("--cluster %s: must be files or api", o.source)
	case o.source == "api" && o.dir != "":
		return fmt.Errorf("--cluster-dir is for --cluster=files")
	case o.source == "files" && o.kubeconfig != "" && !o.askedOtherwise:
		return fmt.Errorf("--kubeconfig is for --cluster=api, --certs=managed and --debug-auth")
	}
	return nil
}

// open opens the cluster that the flags name.
func (o *clusterFlags) open(options cluster.Options) (*cluster.Cluster, error) {
	options.Poll = poll.Times{Every: pollEvery, Now: o.reread}
	if o.source != "api" {
		return cluster.Files(o.dir, options)
	}
	config, err := apiserver.LoadConfig(o.kubeconfig, "")
	if err != nil {
		return nil, fmt.Errorf("--cluster=api: %w; pass --kubeconfig FILE, or run usher as a pod with the token of its service account", err)
	}
	return cluster.API(config, options)
}
