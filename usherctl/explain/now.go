package explain

import (
	"context"

	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/review"
	"usher.dev/usher/usherctl/tool"
)

// explainWorkload explains why the pods of a workload do not come, or who changed a pod that exists.
func explainWorkload(ctx context.Context, env tool.Env, o options, args []string) ([]report.Report, error) {
	source, err := o.clusterSource.OpenSource()
	if err != nil {
		return nil, err
	}
	namespace, err := o.clusterSource.NamespaceOr(o.namespace)
	if err != nil {
		return nil, err
	}
	in := Cluster{Options: o.Options, Source: source, Namespace: namespace, Requests: requestsOf(env, o), UID: o.uid}
	in.Policy = func(ctx context.Context) (by Policy, err error) {
		policy, err := policyOf(ctx, env, &o, source)
		if err == nil {
			by = explainedBy(env, policy, o.gates)
		}
		by.Hooks = hooksOf(ctx, source)
		return by, err
	}
	in.Review = func(ctx context.Context, workload []byte, policy Policy) ([]report.Report, error) {
		now := review.Now{Source: source, Policy: policy.Policy, Gates: o.gates, ShowValues: o.ShowValues}
		return now.Review(ctx, env, namespace, requests.Document{Source: "as of now", JSON: workload})
	}
	return in.Explain(ctx, args)
}
