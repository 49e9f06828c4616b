package command

import (
	"cmp"
	"fmt"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/server/suite"
)

// clusterFlags say where usher learns what the cluster looks like.
type clusterFlags struct {
	source, dir, kubeconfig string
	askedOtherwise          bool     // another flag needs the API server, too
	static                  []string // directories of an API server: see reader.Source.WithStatic
}

func (o *clusterFlags) addTo(set *pflag.FlagSet) {
	set.StringVar(&o.source, "cluster", cmp.Or(o.source, "files"), "where the state of the cluster comes from: files, or api: an API server")
	o.addDirTo(set)
	set.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does, or as a pod of the cluster)")
}

func (o *clusterFlags) addDirTo(set *pflag.FlagSet) {
	set.StringVar(&o.dir, "cluster-dir", "", "directory of manifests that stand for the cluster, re-read on change (default: an empty cluster)")
}

// addStaticTo adds the flag for what an API server reads from its disk. when is what the usage begins with.
func (o *clusterFlags) addStaticTo(set *pflag.FlagSet, when string) {
	set.StringSliceVar(&o.static, "static-dir", nil, when+"directories of webhook configurations that the API server reads from its disk "+
		"(staticManifestsDir), separated by commas: these are examined, too, and the API does not show them")
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

// namespaceOr returns a namespace that a flag names or, without one, that which kubectl would use; in files it is default.
func (o *clusterFlags) namespaceOr(named string) (string, error) {
	switch {
	case named != "":
		return named, nil
	case o.source != "api":
		return metav1.NamespaceDefault, nil
	}
	return apiserver.Namespace(o.kubeconfig)
}

// from returns the source that the flags name.
func (o *clusterFlags) from() suite.Source {
	return suite.Source{From: o.source, Dir: o.dir, Kubeconfig: o.kubeconfig}
}
