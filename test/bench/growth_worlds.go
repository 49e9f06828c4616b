package main

import (
	"fmt"

	"usher.dev/usher/test/reviews"
)

// subject is something that grows, in one form.
type subject struct {
	name  string
	sizes []int
	world func(count int) world
}

// world is a cluster and a policy of one size.
type world struct {
	has       map[string]objects // beside the surroundings
	asList    bool               // the API server sends a list, not a watch with initial events
	overrides string             // a policy file, or empty
	memory    string             // GOMEMLIMIT; empty for more than the largest state needs
	decoded   bool               // also measure what it costs to decode the pods, and nothing else
	lines     []growthLine
}

// growthLine is a review whose cost is measured while a subject grows.
type growthLine struct {
	name   string
	review reviews.Review
	allows bool // whether the first answer must be a permission
	// fewest is the number of reviews of a round if it is more than the plan's: where much memory is in use, garbage is
	// collected seldom and for long, and the reviews must pay for it. The result is then the mean of the rounds.
	fewest int
}

// subjects returns what is measured; a short run has fewer and smaller sizes.
func subjects(quick bool) []subject {
	counts, podCounts := []int{10, 100, 1000, 10_000}, []int{0, 20_000, 150_000, 200_000}
	if quick {
		counts, podCounts = []int{10, 1000}, []int{0, 5_000}
	}
	return subjectsOf(counts, podCounts)
}

// subjectsOf returns the subjects to measure. The most pods are not listed, as by API servers before 1.34.
func subjectsOf(counts, podCounts []int) []subject {
	return []subject{
		{"profiles", counts, func(n int) world { return profileWorld(n, false) }},
		{"broad profiles", counts, func(n int) world { return profileWorld(n, true) }},
		{"overrides", counts, func(n int) world { return overrideWorld(n, false) }},
		{"broad overrides", counts, func(n int) world { return overrideWorld(n, true) }},
		{"flat quotas", counts, func(n int) world { return quotaWorld(n, true) }},
		{"quota tree", counts, func(n int) world { return quotaWorld(n, false) }},
		{"pods", podCounts, podWorld},
		{"pods in a list", podCounts[:max(2, len(podCounts)-1)], func(n int) world {
			w := podWorld(n)
			w.asList, w.lines = true, nil
			return w
		}},
		{"whole clusters", podCounts, func(n int) world { return wholeCluster(n, pods(n)) }},
		{"whole clusters of pause pods", podCounts, func(n int) world { return wholeCluster(n, pausePods(n)) }},
	}
}

// wholeCluster has nodes and namespaces for its pods in the proportions of the envelope of SIG Scalability, 150,000 pods to 5,000
// nodes and 10,000 namespaces, and usher the memory of the shipped Deployment: four fifths of 256 MiB.
func wholeCluster(count int, pods objects) world {
	w := podWorld(count)
	w.has["pods"], w.has["nodes"], w.has["namespaces"] = pods, nodes(count/30), namespaces(count/15)
	w.memory, w.decoded = "204MiB", true
	return w
}

func profileWorld(count int, broad bool) world {
	pod := func(team string) reviews.Review {
		return creation("/mutate-pod", "web", map[string]string{"app": "web", "team": team})
	}
	lines := []growthLine{{name: "one matches", review: pod("team-0"), allows: true}, {name: noMatch, review: pod("none"), allows: true}}
	if broad {
		lines = []growthLine{{name: "one of all that could", review: pod("team-0"), allows: true}}
	}
	return world{has: map[string]objects{"clustercolocationprofiles": profiles(count, broad)}, lines: lines}
}

func overrideWorld(count int, broad bool) world {
	pod := func(team string) reviews.Review {
		return creation("/validate-pods", "offensive", map[string]string{"app": "web", "team": team})
	}
	lines := []growthLine{{name: "one matches", review: pod("team-0"), allows: true}, {name: noMatch, review: pod("none")}}
	if broad {
		lines = []growthLine{{name: "one of all that could", review: pod("team-0"), allows: true}}
	}
	return world{overrides: overrides(count, broad), lines: lines}
}

func quotaWorld(count int, flat bool) world {
	all, i := quotas(count, flat), leaf(count, flat)
	form := map[bool]string{true: "flat", false: "5 levels"}[flat]
	return world{has: map[string]objects{"elasticquotas": all}, lines: []growthLine{
		{name: "new pod, " + form, review: newPodIn(i), allows: true},
		{name: "changed quota, " + form, review: quotaUpdate(all, i), allows: true},
	}}
}

func podWorld(count int) world {
	return world{has: map[string]objects{"pods": pods(count), "elasticquotas": quotas(100, true)}, lines: []growthLine{
		{name: "new pod in a quota", review: newPodIn(7), allows: true, fewest: min(8000, 100+count)},
	}}
}

// newPodIn returns the review of a new pod in a quota.
func newPodIn(quota int) reviews.Review {
	return creation("/validate-pod", "web", map[string]string{quotaName: fmt.Sprintf("quota-%d", quota)})
}
