package review

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/flags"
	"usher.dev/usher/config"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/tool"
)

// Now is a cluster as it is, as far as a user may read it, with usher as it runs there.
type Now struct {
	Source     reader.Source
	Policy     *config.Policy
	Gates      gate.Set
	ShowValues bool // in the explanations of steps
}

// Review reviews the pod that a controller would create for a workload of a namespace, as usherctl review --cluster=api does.
func (n Now) Review(ctx context.Context, env tool.Env, namespace string, workload requests.Document) ([]report.Report, error) {
	run := &reviewing{Env: env, policy: n.Policy, absent: map[string][]string{}, kinds: requests.NewCatalogue(env.Suites.Table(suite.NoPolicy, n.Gates))}
	run.o.Options = requests.Options{Operation: admissionv1.Create, Namespace: namespace, DryRun: true}
	run.o.gates, run.o.explain, run.o.clusterSource = n.Gates, true, flags.Cluster{Source: "files"} // of what is read here
	pods := requests.WithPods([]requests.Document{workload}, nil, run.o.Options, func(*unstructured.Unstructured) bool { return false })
	for i := range pods {
		pods[i].Workload = nil // which the cluster has
	}
	run.readLive(ctx, n.Source, pods)
	if err := run.load(everything); err != nil {
		return nil, err
	}
	for i := range run.routes {
		if !n.ShowValues { // a mask knows whole values, and explanations cut them
			run.routes[i].Chain = run.routes[i].Chain.HidingValues()
		}
	}
	reports, failed := run.reports(ctx, pods)
	all := slices.Collect(reports)
	return all, failed()
}
