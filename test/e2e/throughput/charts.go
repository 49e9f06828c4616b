package main

import "fmt"

// chart is a line chart as test/plot/draw reads it.
type chart struct {
	Title, Note string
	X, Y        axis
	Lines       []line
}

type axis struct {
	Title string
	Log   bool
}

type line struct {
	Name   string
	Points []point
}

type point struct{ X, Y float64 }

// charts returns what the page shows as curves.
func charts(r *report) []chart {
	note := fmt.Sprintf("usher %s, Kubernetes %s, %d cores for everything", r.Commit, r.Kubernetes, r.Cores)
	return []chart{
		{"Pods created per second", note, axis{"clients", true}, axis{"pods per second", false}, podLines(r, func(c podCell) float64 { return c.PerSecond })},
		{"Median time to create a pod", note, axis{"clients", true}, axis{"ms", true}, podLines(r, func(c podCell) float64 { return c.P50 })},
		{"Written to etcd by nodes", note, axis{"nodes", false}, axis{"MB per second", false}, nodeLines(r, func(c nodeCell) float64 { return c.Used.PutBytes / 1e6 })},
		{"CPU of the API server for nodes", note, axis{"nodes", false}, axis{"% of a core", false}, nodeLines(r, func(c nodeCell) float64 { return c.Used.APIServer / 1e4 })},
	}
}

// podLines returns a line for each way.
func podLines(r *report, y func(podCell) float64) (lines []line) {
	for _, way := range wayNames {
		one := line{Name: wayTitles[way]}
		for _, c := range r.Pods {
			if c.Way == way {
				one.Points = append(one.Points, point{float64(c.Clients), y(c)})
			}
		}
		lines = append(lines, one)
	}
	return lines
}

// nodeLines returns a line for each mode, as far as the nodes kept their rate.
func nodeLines(r *report, y func(nodeCell) float64) (lines []line) {
	for _, mode := range modes {
		one := line{Name: modeTitles[mode]}
		for _, c := range r.Nodes {
			if (c.Mode == mode || c.Nodes == 0) && !c.late() { // without nodes the modes are the same
				one.Points = append(one.Points, point{float64(c.Nodes), y(c)})
			}
		}
		lines = append(lines, one)
	}
	return lines
}
