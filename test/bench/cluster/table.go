package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.dev/usher/bench/report"
)

// The ways in which pods are created, and in which nodes report, as test/e2e/throughput names them.
const (
	none, core, both           = "none", "core", "both"
	constantCore, constantBoth = "constant-core", "constant-both"
	seldom, often, amplified   = "seldom", "often", "amplified"
)

// constantOf returns the way that an usher is compared with: a constant webhook with its configuration and its patch.
var constantOf = map[string]string{core: constantCore, both: constantBoth}

// Titles for readers.
var (
	wayTitles = map[string]string{none: "no webhook", constantCore: "constant, core", core: "usher, core", constantBoth: "constant, both suites",
		both: "usher, both suites"}
	modeTitles = map[string]string{seldom: "every 5 min", often: "every 10 s", amplified: "every 10 s, amplified"}
)

// heartbeat is the interval at which a node reports in the modes often and amplified. In the mode seldom, the interval is
// reportEvery times as long.
const (
	heartbeat   = 10 * time.Second
	reportEvery = 30
)

// percent returns µs of CPU per second as percent of a core.
func percent(micros float64) string { return report.Number(micros / 1e4) }

// mega returns bytes as MB.
func mega(bytes float64) string { return report.Number(bytes / 1e6) }

// podSection returns everything that the page shows of a run of pods.
func podSection(r *Report) string {
	return headline(r, fmt.Sprintf("A pod is posted in %.1f KB.", float64(r.PodBytes)/1024)) + podTable(r) + "\n" + podReasons(r)
}

// nodeSection returns everything that the page shows of a run of nodes.
func nodeSection(r *Report) string {
	return headline(r, fmt.Sprintf("A node has %.1f KB.", float64(r.NodeBytes)/1024)) + nodeTable(r) + "\n" + nodeReasons(r)
}

func headline(r *Report, of string) string {
	return fmt.Sprintf("usher %s, Kubernetes %s, %s, %s; %s, %d cores for everything; medians of %d rounds. %s%s\n\n",
		r.Commit, r.Kubernetes, r.Go, r.Date, r.CPU, r.Cores, r.Rounds, of, r.Roughly())
}

// pods returns a cell, or an empty one.
func (r *Report) pods(way string, clients int) (c podCell) {
	i := slices.IndexFunc(r.Pods, func(c podCell) bool { return c.Way == way && c.Clients == clients })
	if i >= 0 {
		c = r.Pods[i]
	}
	return c
}

// Numbers of clients and of nodes that the tables leave out: they say the same as the other rows.
var clientsLeftOut, nodesLeftOut = []int{8, 128}, []int{0, 100, 500}

// podTable returns a row for each number of clients and each way but those of the constant webhook, which are in a column.
func podTable(r *Report) string {
	var b strings.Builder
	b.WriteString("| clients | way | pods/s | p50 ms | × no webhook | × constant | p99 ms | CPU ms per pod: API server | webhook |\n" +
		"|---:|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, c := range r.Pods {
		if c.Way == constantCore || c.Way == constantBoth || slices.Contains(clientsLeftOut, c.Clients) {
			continue
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s | %s |\n", c.Clients, wayTitles[c.Way], report.Number(c.PerSecond), report.Number(c.P50),
			report.Times(c.P50, r.pods(none, c.Clients).P50), r.overConstant(c), report.Number(c.P99), report.Number(c.Used.APIServer/1000), report.Number(c.Used.Webhook/1000))
	}
	return b.String()
}

// besideConstant returns the median as a multiple of the constant webhook's. It is not ok if the way is not usher, or the constant
// webhook was not measured.
func (r *Report) besideConstant(c podCell) (ratio float64, ok bool) {
	beside := r.pods(constantOf[c.Way], c.Clients)
	return report.Ratio(c.P50, beside.P50), beside.Created > 0
}

// overConstant returns it in words.
func (r *Report) overConstant(c podCell) string {
	ratio, ok := r.besideConstant(c)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio)
}

// aim is what usher's median may be as a multiple of the constant webhook's.
const aim = 1.05

// podReasons compares usher with the aim, and says which requests failed.
func podReasons(r *Report) string {
	var b strings.Builder
	for _, way := range []string{core, both} {
		writeAim(&b, r, way)
	}
	for _, c := range r.Pods {
		if c.Failed > 0 {
			fmt.Fprintf(&b, "- %s, %d clients: %d of %d requests failed.\n", wayTitles[c.Way], c.Clients, c.Failed, c.requests())
		}
	}
	return b.String()
}

// writeAim says with how many clients a way meets the aim.
func writeAim(b *strings.Builder, r *Report, way string) {
	var met, missed []string
	for _, c := range r.Pods {
		ratio, ok := r.besideConstant(c)
		if c.Way != way || !ok {
			continue
		}
		of := fmt.Sprintf("%.2f with %d", ratio, c.Clients)
		if report.Rounded(ratio, 3) <= aim {
			met = append(met, of)
		} else {
			missed = append(missed, of)
		}
	}
	if len(met)+len(missed) == 0 {
		fmt.Fprintf(b, "- %s: the constant webhook was not measured.\n", wayTitles[way])
		return
	}
	fmt.Fprintf(b, "- %s: × constant, by clients, aim %.2f. Met: %s. Missed: %s.\n",
		wayTitles[way], aim, listed(met), listed(missed))
}

func listed(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

func nodeTable(r *Report) string {
	var b strings.Builder
	b.WriteString("| nodes | status | p50 ms | CPU %: API server | usher | etcd | etcd: writes/s | MB/s | database MB/min |\n" +
		"|---:|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, c := range r.Nodes {
		if slices.Contains(nodesLeftOut, c.Nodes) {
			continue
		}
		u := c.Used
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s | %s |\n", c.Nodes, modeTitles[c.Mode], report.Number(c.P50),
			percent(u.APIServer), percent(u.Webhook), percent(u.Etcd), report.Number(u.Puts), mega(u.PutBytes), mega(u.Growth*60))
	}
	return b.String()
}

// history is for how many seconds etcd keeps what was replaced: the API server removes every five minutes what was replaced
// more than five minutes before.
const history = 600

// quotas are sizes of etcd's database in GiB: the default, and the largest that etcd suggests.
var quotas = []float64{2, 8}

// nodes returns a cell, or an empty one.
func (r *Report) nodes(mode string, nodes int) (c nodeCell) {
	i := slices.IndexFunc(r.Nodes, func(c nodeCell) bool { return c.Mode == mode && c.Nodes == nodes })
	if i >= 0 {
		c = r.Nodes[i]
	}
	return c
}

// wanted returns how many statuses per second the nodes of a cell should have written.
func (c nodeCell) wanted() float64 {
	perSecond := float64(c.Nodes) / heartbeat.Seconds()
	if c.Mode == seldom {
		perSecond /= reportEvery
	}
	return perSecond
}

// late reports whether the machine was too slow for the rate.
func (c nodeCell) late() bool { return c.Mode != seldom && c.Statuses < 0.9*c.wanted() }

// most returns the largest number of amplified nodes that kept their rate.
func (r *Report) most() (nodes int) {
	for _, c := range r.Nodes {
		if c.Mode == amplified && !c.late() {
			nodes = max(nodes, c.Nodes)
		}
	}
	return nodes
}

// nodeReasons says what amplification costs, and where to stop.
func nodeReasons(r *Report) string {
	var b strings.Builder
	for _, c := range r.Nodes {
		if c.late() {
			fmt.Fprintf(&b, "- %d nodes, %s: this machine was too slow, %s of %s statuses per second were written.\n", c.Nodes, modeTitles[c.Mode],
				report.Number(c.Statuses), report.Number(c.wanted()))
		}
		if c.Skipped > 0 {
			fmt.Fprintf(&b, "- %d nodes, %s: statuses that were stored as the kubelet measured them, because the API server had no answer of usher within the "+
				"webhook's timeout: %s.\n", c.Nodes, modeTitles[c.Mode], report.Number(c.Skipped))
		}
		if c.Failed > 0 {
			fmt.Fprintf(&b, "- %d nodes, %s: failed writes %d.\n", c.Nodes, modeTitles[c.Mode], c.Failed)
		}
	}
	most := r.most()
	a, s := r.nodes(amplified, most), r.nodes(seldom, most)
	fmt.Fprintf(&b, "- %d amplified nodes write %s times as many bytes into etcd as others, in %s times as many writes, and cost the API server %s times as much CPU.\n",
		most, factor(a.Used.PutBytes, s.Used.PutBytes), factor(a.Used.Puts, s.Used.Puts), factor(a.Used.APIServer, s.Used.APIServer))
	kept := report.Ratio(a.Used.Growth, a.Statuses)
	fmt.Fprintf(&b, "- A status and its lease take %s KB of etcd's database, for ten minutes: %s MB for each 100 amplified nodes. Half of a database of %.0f GiB, the default, is "+
		"enough for %s of them, half of %.0f GiB for %s.\n",
		report.Number(kept/1024), report.Number(report.Rounded(kept*100*history/heartbeat.Seconds()/1e6, 2)), quotas[0], report.Number(stop(kept, quotas[0])), quotas[1], report.Number(stop(kept, quotas[1])))
	cpu := report.Ratio(a.Used.APIServer-s.Used.APIServer, a.Statuses-s.Statuses)
	fmt.Fprintf(&b, "- An amplified status costs the API server %s ms of CPU, and usher %s ms. For 1,000 amplified nodes the API server needs %s more cores.\n",
		report.Number(report.Rounded(cpu/1000, 2)), report.Number(report.Rounded(report.Ratio(a.Used.Webhook-s.Used.Webhook, a.Statuses)/1000, 2)), report.Number(report.Rounded(cpu*1000/heartbeat.Seconds()/1e6, 2)))
	return b.String()
}

func factor(a, b float64) string { return report.Number(report.Rounded(report.Ratio(a, b), 2)) }

// stop returns the number of nodes whose history takes half of a database, if a status takes kept bytes of it.
func stop(kept, gib float64) float64 {
	return report.Rounded(report.Ratio(gib*(1<<30)/2, kept*history/heartbeat.Seconds()), 2)
}
