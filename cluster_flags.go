package main

import (
	"fmt"
	"os"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"usher.dev/usher/cluster"
	"usher.dev/usher/gate"
	"usher.dev/usher/poll"
)

// clusterFlags say where usher learns what the cluster looks like.
type clusterFlags struct {
	source, dir, kubeconfig string
	reread                  <-chan os.Signal // when to read dir again at once; nil for never
}

func (o *clusterFlags) addTo(set *pflag.FlagSet) {
	set.StringVar(&o.source, "cluster", "files", "where the state of the cluster comes from: files, or api: an API server")
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
	case o.source == "files" && o.kubeconfig != "":
		return fmt.Errorf("--kubeconfig is for --cluster=api")
	}
	return nil
}

// open opens the cluster for the suites, with what the steps that the gates leave need. It is current while its Run runs.
func (o *clusterFlags) open(suites Suites, gates gate.Set, log logrus.FieldLogger) (*cluster.Cluster, error) {
	served := suites.routes(nothing, gates)
	options := suites.watched(served)
	options.Log, options.Poll = log, poll.Times{Every: pollEvery, Now: o.reread}
	for _, suite := range suites {
		if suite.Open != nil {
			suite.Open(Opening{o.source, gates, served, &options})
		}
	}
	known, err := o.openSource(options)
	if err != nil {
		return nil, err
	}
	for _, suite := range suites {
		if suite.Use != nil {
			suite.Use(known)
		}
	}
	return known, nil
}

func (o *clusterFlags) openSource(options cluster.Options) (*cluster.Cluster, error) {
	if o.source != "api" {
		return cluster.Files(o.dir, options)
	}
	config, err := cluster.LoadConfig(o.kubeconfig, "")
	if err != nil {
		return nil, fmt.Errorf("--cluster=api: %w", err)
	}
	return cluster.API(config, options)
}
