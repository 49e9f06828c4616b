package flags

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/server/suite"
)

// Cluster says where usher learns what the cluster looks like.
type Cluster struct {
	Source, Dir, Kubeconfig string
	AskedOtherwise          bool     // another flag needs the API server, too
	Static                  []string // directories of an API server: see reader.Source.WithStatic
}

// AddTo adds the flags --cluster, --cluster-dir and --kubeconfig.
func (o *Cluster) AddTo(set *pflag.FlagSet) {
	set.StringVar(&o.Source, "cluster", cmp.Or(o.Source, "files"), "where the state of the cluster comes from: files, or api: an API server")
	o.AddDirTo(set)
	set.StringVar(&o.Kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does, or as a pod of the cluster)")
}

// AddDirTo adds the flag --cluster-dir.
func (o *Cluster) AddDirTo(set *pflag.FlagSet) {
	set.StringVar(&o.Dir, "cluster-dir", "", "directory of manifests that stand for the cluster, re-read on change (default: an empty cluster)")
}

// AddStaticTo adds the flag for what an API server reads from its disk. when is what the usage begins with.
func (o *Cluster) AddStaticTo(set *pflag.FlagSet, when string) {
	set.StringSliceVar(&o.Static, "static-dir", nil, when+"directories of webhook configurations that the API server reads from its disk "+
		"(staticManifestsDir), separated by commas: these are examined, too, and the API does not show them")
}

// Check validates the values.
func (o *Cluster) Check() error {
	switch {
	case o.Source != "files" && o.Source != "api":
		return fmt.Errorf("--cluster %s: must be files or api", o.Source)
	case o.Source == "api" && o.Dir != "":
		return fmt.Errorf("--cluster-dir is for --cluster=files")
	case o.Source == "files" && o.Kubeconfig != "" && !o.AskedOtherwise:
		return fmt.Errorf("--kubeconfig is for --cluster=api, --certs=managed and --debug-auth")
	}
	return nil
}

// NamespaceOr returns a namespace that a flag names or, without one, that which kubectl would use; in files it is default.
func (o *Cluster) NamespaceOr(named string) (string, error) {
	switch {
	case named != "":
		return named, nil
	case o.Source != "api":
		return metav1.NamespaceDefault, nil
	}
	return apiserver.Namespace(o.Kubeconfig)
}

// From returns the source that the flags name.
func (o *Cluster) From() suite.Source {
	return suite.Source{From: o.Source, Dir: o.Dir, Kubeconfig: o.Kubeconfig}
}

// OpenSource returns the source that the flags name, with the files of the API server.
func (o *Cluster) OpenSource() (reader.Source, error) {
	switch {
	case o.Source != "api" && o.Dir == "":
		return reader.Source{}, errors.New("--cluster=files: pass --cluster-dir DIR with the manifests of a cluster")
	case o.Source != "api":
		source, err := reader.Files(o.Dir)
		if err != nil {
			return source, err
		}
		return source.WithStatic(o.Static...)
	}
	config, err := apiserver.LoadConfig(o.Kubeconfig, "")
	if err != nil {
		return reader.Source{}, fmt.Errorf("--cluster=api: %w; pass --kubeconfig FILE, or --cluster-dir DIR with the manifests of a cluster", err)
	}
	client, err := apiserver.New(config)
	if err != nil {
		return reader.Source{}, err
	}
	return reader.API(client).WithStatic(o.Static...)
}

// Roots returns the CAs that the API server is verified with; nil: none are configured.
func (o *Cluster) Roots() *x509.CertPool {
	if o.Source != "api" {
		return nil
	}
	from, err := apiserver.LoadConfig(o.Kubeconfig, "")
	if err != nil {
		return nil
	}
	verifying, err := rest.TLSConfigFor(from)
	if err != nil || verifying == nil {
		return nil
	}
	return verifying.RootCAs
}

// CompleteNamespaces completes a namespace of --cluster-dir or, without, of the cluster that kubectl uses.
func CompleteNamespaces(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	dir, _ := c.Flags().GetString("cluster-dir")
	kubeconfig, _ := c.Flags().GetString("kubeconfig")
	from := Cluster{Source: "api", Dir: dir, Kubeconfig: kubeconfig}
	if dir != "" {
		from.Source = "files"
	}
	ctx, cancel := context.WithTimeout(c.Context(), 2*time.Second)
	defer cancel()
	names := map[string]bool{}
	if source, err := from.OpenSource(); err == nil {
		list, err := source.List(ctx, reader.NewKind("", "v1", "Namespace", "namespaces"), "")
		all, _ := reader.All[corev1.Namespace](list, err)
		for _, namespace := range all {
			names[namespace.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), cobra.ShellCompDirectiveNoFileComp
}
