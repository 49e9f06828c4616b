package cluster

import (
	"fmt"

	"usher.dev/usher/bench/plot"
)

func note(r *Report) string {
	return fmt.Sprintf("usher %s, Kubernetes %s, %d cores for everything", r.Commit, r.Kubernetes, r.Cores)
}

// podCharts returns what the page shows of pods as curves.
func podCharts(r *Report) []plot.Chart {
	clients := plot.Axis{Title: "clients", Log: true}
	return []plot.Chart{
		{Title: "Pods created per second", Note: note(r), X: clients, Y: plot.Axis{Title: "pods per second"},
			Lines: podLines(r, func(c podCell) float64 { return c.PerSecond })},
		{Title: "Median time to create a pod", Note: note(r), X: clients, Y: plot.Axis{Title: "ms", Log: true},
			Lines: podLines(r, func(c podCell) float64 { return c.P50 })},
	}
}

// nodeCharts returns what the page shows of nodes as curves.
func nodeCharts(r *Report) []plot.Chart {
	nodes := plot.Axis{Title: "nodes"}
	return []plot.Chart{
		{Title: "Written to etcd by nodes", Note: note(r), X: nodes, Y: plot.Axis{Title: "MB per second"},
			Lines: nodeLines(r, func(c nodeCell) float64 { return c.Used.PutBytes / 1e6 })},
		{Title: "CPU of the API server for nodes", Note: note(r), X: nodes, Y: plot.Axis{Title: "% of a core"},
			Lines: nodeLines(r, func(c nodeCell) float64 { return c.Used.APIServer / 1e4 })},
	}
}

// podLines returns a line for each way.
func podLines(r *Report, y func(podCell) float64) (lines []plot.Line) {
	for _, way := range wayNames {
		one := plot.Line{Name: wayTitles[way]}
		for _, c := range r.Pods {
			if c.Way == way {
				one.Points = append(one.Points, plot.Point{X: float64(c.Clients), Y: y(c)})
			}
		}
		lines = append(lines, one)
	}
	return lines
}

// nodeLines returns a line for each mode, as far as the nodes kept their rate.
func nodeLines(r *Report, y func(nodeCell) float64) (lines []plot.Line) {
	for _, mode := range modes {
		one := plot.Line{Name: modeTitles[mode]}
		for _, c := range r.Nodes {
			if (c.Mode == mode || c.Nodes == 0) && !c.late() { // without nodes the modes are the same
				one.Points = append(one.Points, plot.Point{X: float64(c.Nodes), Y: y(c)})
			}
		}
		lines = append(lines, one)
	}
	return lines
}
