package process

import (
	"net/http"
	"slices"
	"testing"

	"k8s.io/client-go/rest"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

// overriding returns the routes of both suites under an override, for a cluster whose namespaces have not arrived.
func overriding(t *testing.T, override string) []admit.Route {
	t.Helper()
	suites := routes.Suites()
	policy := harness.ParsePolicy(t, suites, []byte("overrides: [{name: a, reason: why, until: 2099-12-31, "+override+"}]"))
	in := harness.OpenInstance(t, suites, harness.DemoGates(t, suites), policy)
	var err error // overrides ask another cluster, which is not watched yet
	in.Cluster, err = cluster.API(&rest.Config{Host: "https://127.0.0.1:1"}, cluster.Options{
		Catalogue: []cluster.Declared{cluster.Namespaces}, Needs: []string{admit.CollectionNamespaces}})
	if err != nil {
		t.Fatal(err)
	}
	return in.Routes()
}

// TestOverrideWaitsForItsNamespace: if a mode depends on a namespace that has not arrived, the API server is asked to
// try again. Routes with other steps, and routes for nodes, do not wait.
func TestOverrideWaitsForItsNamespace(t *testing.T) {
	const byLabel = "namespaceSelector: {matchLabels: {team: web}}, mode: off, steps: "
	for _, c := range []struct {
		name, override, sample string
		code                   int
	}{
		{"the step", byLabel + "[denied-names]", "validate-pods/denied-names", http.StatusServiceUnavailable},
		{"a mutator", byLabel + "[environment]", "mutate-pods/environment", http.StatusServiceUnavailable},
		{"a step of the other suite", byLabel + "[qos-priority]", "validate-pod/qos-priority-be-with-prod-priority", http.StatusServiceUnavailable},
		{"another step", byLabel + "[denied-names]", "mutate-pods/environment", http.StatusOK},
		{"another group", byLabel + "[denied-names], groups: [nobody]", "validate-pods/denied-names", http.StatusOK},
		{"by name", "namespaces: [apps], mode: off, steps: [denied-names]", "validate-pods/denied-names", http.StatusOK},
		{"nodes", "groups: ['system:nodes'], mode: dryrun, steps: [overcommit]", "mutate-nodes/overcommit", http.StatusOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := harness.Post(harness.DefaultServer().Serve(overriding(t, c.override)), c.sample, harness.ReadSample(t, c.sample))
			if got.Code != c.code || (c.code != http.StatusOK) != (got.Header().Get("Retry-After") == "1") {
				t.Errorf("%d, Retry-After %q: %s", got.Code, got.Header().Get("Retry-After"), got.Body)
			}
		})
	}
}

// TestStepsOutsideOfNamespaces: an override of these cannot have conditions on namespaces.
func TestStepsOutsideOfNamespaces(t *testing.T) {
	_, clusterScoped := routes.Suites().Steps()
	if !slices.Contains(clusterScoped, "overcommit") || !slices.Contains(clusterScoped, "node-amplification") || slices.Contains(clusterScoped, "denied-names") ||
		slices.Contains(clusterScoped, "restrictions") {
		t.Errorf("steps outside of namespaces: %v", clusterScoped)
	}
}
