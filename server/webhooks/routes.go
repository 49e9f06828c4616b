package webhooks

import (
	"fmt"
	"slices"

	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/admit"
)

// OneAmplifier leaves one route for heartbeats, the last: two amplifiers on one node would compound.
func OneAmplifier(routes []admit.Route) (kept []admit.Route) {
	for i, r := range routes {
		if !r.Heartbeat() || !slices.ContainsFunc(routes[i+1:], admit.Route.Heartbeat) {
			kept = append(kept, r)
		}
	}
	return kept
}

// AllPaths stands for every path in FailOpen.
const AllPaths = "all"

// FailOpen sets failurePolicy Ignore for the routes of those paths, or for all.
func FailOpen(routes []admit.Route, paths []string) error {
	for _, path := range paths {
		if path == AllPaths {
			for i := range routes {
				routes[i].FailurePolicy = registration.Ignore
			}
			continue
		}
		i := indexOf(routes, path)
		if i < 0 {
			return fmt.Errorf("--fail-open %s: --suite and --feature-gates register no such path", path)
		}
		routes[i].FailurePolicy = registration.Ignore
	}
	return nil
}

// FailClosed sets failurePolicy Fail for the routes of those paths.
func FailClosed(routes []admit.Route, paths []string) error {
	for _, path := range paths {
		i := indexOf(routes, path)
		switch {
		case i < 0:
			return fmt.Errorf("--fail-closed %s: --suite and --feature-gates register no such path", path)
		case routes[i].Heartbeat():
			return fmt.Errorf("--fail-closed %s: a node's heartbeat must pass whether usher answers or not", path)
		}
		routes[i].FailurePolicy = registration.Fail
	}
	return nil
}

func indexOf(routes []admit.Route, path string) int {
	return slices.IndexFunc(routes, func(r admit.Route) bool { return r.Path == path })
}
