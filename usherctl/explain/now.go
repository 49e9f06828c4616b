package explain

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/review"
	"usher.dev/usher/usherctl/tool"
)

// syncTime is the timeout for receiving the state of the cluster.
const syncTime = 15 * time.Second

// explainWorkload explains why the pods of a workload do not come, or who changed a pod that exists.
func explainWorkload(ctx context.Context, env tool.Env, o options, args []string) ([]report.Report, error) {
	from, err := apiserver.LoadConfig(o.clusterSource.Kubeconfig, "")
	if err != nil {
		return nil, fmt.Errorf("--cluster=api: %w; pass --kubeconfig FILE", err)
	}
	client, err := apiserver.New(from)
	if err != nil {
		return nil, err
	}
	namespace, err := o.clusterSource.NamespaceOr(o.namespace)
	if err != nil {
		return nil, err
	}
	source, err := reader.API(client).WithStatic(o.clusterSource.Static...)
	if err != nil {
		return nil, err
	}
	in := Cluster{Options: o.Options, Source: source, Namespace: namespace, Requests: requestsOf(env, o), UID: o.uid}
	in.Policy = func(ctx context.Context) (Policy, error) {
		hooks := hooksOf(ctx, in.Source)
		policy, err := policyOf(ctx, env, &o, in.Source)
		if err != nil {
			return Policy{Hooks: hooks}, err
		}
		by := explainedBy(env, policy, o.gates)
		by.Hooks = hooks
		return by, nil
	}
	in.Review = func(ctx context.Context, workload []byte, policy Policy) ([]report.Report, error) {
		return reviewNow(ctx, env, o, in, policy.Policy, workload)
	}
	return in.Explain(ctx, args)
}

// reviewNow reviews the pod that a controller would create for a workload. It is a dry run: nothing is written.
func reviewNow(ctx context.Context, env tool.Env, o options, in Cluster, policy *config.Policy, workload []byte) ([]report.Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now, err := loadNow(ctx, env, o, policy)
	if err != nil {
		return nil, err
	}
	namespace, err := in.Source.Get(ctx, reader.NewKind("", "v1", "Namespace", "namespaces"), "", in.Namespace)
	if err != nil {
		return nil, err
	}
	routes := review.Explained(now.Routes())
	for i := range routes {
		if !o.ShowValues { // the mask knows whole values, and explanations cut them
			routes[i].Chain = routes[i].Chain.HidingValues()
		}
	}
	const user = "kubernetes-admin"
	options := requests.Options{Operation: admissionv1.Create, Namespace: in.Namespace, User: user, Groups: requests.GroupsOf(user), DryRun: true}
	reports, err := review.Now{Instance: now, Routes: routes, Cluster: o.clusterSource}.Review(ctx, env, options,
		requests.Document{Source: "as of now", JSON: workload}, requests.Document{JSON: namespace})
	for i := range reports {
		if reports[i].Exit() == report.Fine {
			reports[i].Webhooks = nil // each is called, or is not for the pod
		}
	}
	return reports, err
}

// loadNow loads usher with the state of the cluster, and waits until it has arrived.
func loadNow(ctx context.Context, env tool.Env, o options, policy *config.Policy) (suite.Instance, error) {
	in, err := suite.Load(suite.Setup{Suites: env.Suites, Policy: policy, Gates: o.gates, Cluster: o.clusterSource.From()})
	if err != nil {
		return in, err
	}
	go in.Cluster.Run(ctx)
	ctx, cancel := context.WithTimeout(ctx, syncTime)
	defer cancel()
	for in.Cluster.Ready() != nil {
		select {
		case <-ctx.Done():
			return in, fmt.Errorf("the pod could not be reviewed as of now: %w", errors.Join(append(in.Cluster.Problems(), in.Cluster.Ready())...))
		case <-time.After(20 * time.Millisecond):
		}
	}
	return in, nil
}
