package collections

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"usher.dev/usher/cluster"
	"usher.dev/usher/test/clustertest"
)

// keeping returns options for a cluster that keeps the collections.
func keeping(needs ...string) cluster.Options {
	return cluster.Options{Catalogue: Catalogue(types.NamespacedName{}, types.NamespacedName{}), Needs: needs}
}

// inFiles returns the queries of a cluster that is read from a manifest.
func inFiles(t testing.TB, manifest string, needs ...string) (Questions, *cluster.Cluster, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Files(dir, keeping(needs...))
	if err != nil {
		return Questions{}, nil, err
	}
	return Questions{c.Reader(needs)}, c, nil
}

// samples returns the queries of the sample cluster.
func samples(t testing.TB, needs ...string) (Questions, *cluster.Cluster) {
	t.Helper()
	c, err := cluster.Files("../../samples/cluster", keeping(needs...))
	if err != nil {
		t.Fatal(err)
	}
	return Questions{c.Reader(needs)}, c
}

// watching returns the queries of a cluster that watches a server until the test ends.
func watching(t testing.TB, f *clustertest.Server, o cluster.Options) (Questions, *cluster.Cluster) {
	t.Helper()
	o.Backoff = clustertest.Backoff()
	c, err := cluster.API(&rest.Config{Host: f.URL}, o)
	if err != nil {
		t.Fatal(err)
	}
	go c.Run(t.Context())
	return Questions{c.Reader(o.Needs)}, c
}

// notListed returns the queries of a cluster before anything was listed.
func notListed(t testing.TB, needs ...string) Questions {
	t.Helper()
	c, err := cluster.API(&rest.Config{Host: "http://127.0.0.1:1"}, keeping(needs...))
	if err != nil {
		t.Fatal(err)
	}
	return Questions{c.Reader(needs)}
}

// kind returns a collection for a test server.
func kind[T any](c *cluster.Collection[T]) clustertest.Kind {
	return clustertest.Kind{GroupVersionKind: c.Kind, Resource: c.Resource}
}

var elasticQuotas, podRequests = kind(&ElasticQuotas.Collection), kind(PodRequests)

// names returns the names of all collections.
func names() (all []string) {
	return []string{"namespaces", "priorityclasses", "clustercolocationprofiles", "reservations", "pods", "nodes", "enhancedrules", "sloconfig",
		"nodemetrics", "podrequests", "elasticquotas", "elasticquotaprofiles"}
}

// TestNames: the names appear in logs and metrics, and dashboards rely on them.
func TestNames(t *testing.T) {
	_, c := samples(t, names()...)
	var got []string
	for _, s := range c.Status() {
		got = append(got, s.Name)
	}
	if !slices.Equal(got, names()) {
		t.Errorf("%v", got)
	}
}
