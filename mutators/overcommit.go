package mutators

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/internal/selector"
	"usher.dev/usher/mutators/amplify"
)

// overcommit makes a node look larger to the scheduler, by the ratios of its pool. It stores the amounts that the
// kubelet reported on the node, so that the ratios never compound, no matter which client writes the node, and restores them when the
// policy is removed.
func overcommit(policy *amplify.Overcommit) admit.Mutator[admit.Node] {
	pools := compilePools(policy)
	return admit.Mutator[admit.Node]{
		Name:    "overcommit",
		Doc:     "multiplies a node's allocatable by the ratios of its pool, always from the kubelet's own numbers; never compounds",
		Section: amplify.Section,
		Run: func(_ context.Context, req *admit.Request, node *admit.Node) error {
			rates := ratesFor(pools, node)
			step := amplify.Amplifier{Step: "overcommit", Rate: func(name corev1.ResourceName, _ *amplify.Entry) amplify.Rate { return rates[name] }}
			step.Amplify(req, node)
			return nil
		},
	}
}

type compiledPool struct {
	selector labels.Selector // nil: all nodes
	rates    rates
}

type rates map[corev1.ResourceName]amplify.Rate

// compilePools prepares the pools of a policy, which was checked when it was loaded.
func compilePools(policy *amplify.Overcommit) []compiledPool {
	if policy == nil {
		return nil
	}
	var pools []compiledPool
	for _, pool := range policy.Pools {
		compiled := compiledPool{selector.Compile(&pool.Selector), rates{}}
		for name, text := range pool.Ratios {
			ratio, _ := quantity.ParseRatio(text) // cannot fail: it has been checked
			compiled.rates[name] = amplify.Rate{Ratio: ratio, By: "pool " + pool.Name, Raise: pool.Capacity == amplify.Raise}
		}
		pools = append(pools, compiled)
	}
	return pools
}

// ratesFor returns the rates of the first pool that matches; nil if no pool does.
func ratesFor(pools []compiledPool, node *admit.Node) rates {
	for _, pool := range pools {
		if pool.selector == nil || pool.selector.Matches(node.Selectable()) {
			return pool.rates
		}
	}
	return nil
}
