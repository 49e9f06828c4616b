package review

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/admit"
	"usher.dev/usher/command/flags"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/tool"
)

// Now is a cluster as it is: an instance has its state, and those of the routes are called that are registered there and reached.
type Now struct {
	suite.Instance
	Routes  []admit.Route
	Cluster flags.Cluster
}

// Review reviews the pods that a controller would create for a workload, in a namespace.
func (n Now) Review(ctx context.Context, env tool.Env, o requests.Options, workload, namespace requests.Document) ([]report.Report, error) {
	run := &reviewing{Env: env, absent: map[string][]string{}, instance: n.Instance, routes: n.Routes,
		kinds: requests.NewCatalogue(env.Suites.Table(suite.NoPolicy, n.Gates))}
	run.o.Options, run.o.explain, run.o.doctor, run.o.registered = o, true, true, n.Cluster
	pods := requests.WithPods([]requests.Document{workload}, nil, o, func(*unstructured.Unstructured) bool { return false })
	reports, failed := run.reports(ctx, pods, namespace)
	all := slices.Collect(reports)
	return all, failed()
}
