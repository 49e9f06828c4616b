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
	none, constant, patching, core, both = "none", "constant", "patching", "core", "both"
	seldom, often, amplified             = "seldom", "often", "amplified"
)

var wayNames, modes = []string{none, constant, patching, core, both}, []string{seldom, often, amplified}

// Titles for readers.
var (
	wayTitles = map[string]string{none: "no webhook", constant: "constant", patching: "constant, patch", core: "usher, core",
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

// section returns everything that the page shows of a run.
func section(r *Report) string {
	headline := fmt.Sprintf("usher %s, Kubernetes %s, %s, %s; %s, %d cores for everything; medians of %d rounds. A pod is posted in %.1f KB, a node has %.1f KB.%s",
		r.Commit, r.Kubernetes, r.Go, r.Date, r.CPU, r.Cores, r.Rounds, float64(r.PodBytes)/1024, float64(r.NodeBytes)/1024, r.Roughly())
	return headline + "\n\n" + podTable(r) + "\n" + podReasons(r) + "\n" + nodeTable(r) + "\n" + nodeReasons(r)
}

// pods returns a cell, or an empty one.
func (r *Report) pods(way string, clients int) (c podCell) {
	i := slices.IndexFunc(r.Pods, func(c podCell) bool { return c.Way == way && c.Clients == clients })
	if i >= 0 {
		c = r.Pods[i]
	}
	return c
}

func podTable(r *Report) string {
	var b strings.Builder
	b.WriteString("| clients | way | pods/s | p50 ms | × no webhook | × constant | p99 ms | CPU ms per pod | API server | webhook | etcd | writes | KB |\n" +
		"|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, c := range r.Pods {
		u := c.Used
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", c.Clients, wayTitles[c.Way], report.Number(c.PerSecond),
			report.Number(c.P50), report.Times(c.P50, r.pods(none, c.Clients).P50), report.Times(c.P50, r.pods(constant, c.Clients).P50), report.Number(c.P99),
			report.Number(u.cpu()/1000), report.Number(u.APIServer/1000), report.Number(u.Webhook/1000), report.Number(u.Etcd/1000), report.Number(u.Puts), report.Number(u.PutBytes/1024))
	}
	return b.String()
}

// aimClients is the number of clients that the aims are for.
const aimClients = 100

// podReasons compares usher with the aims, says where the time goes, and which requests failed.
func podReasons(r *Report) string {
	var b strings.Builder
	if r.pods(core, aimClients).Created > 0 {
		writeAims(&b, r)
	}
	for _, c := range r.Pods {
		if c.Failed > 0 {
			fmt.Fprintf(&b, "- %s, %d clients: failed requests %d, created pods %d.\n", wayTitles[c.Way], c.Clients, c.Failed, c.Created)
		}
	}
	return b.String()
}

func writeAims(b *strings.Builder, r *Report) {
	n, c, p, u := r.pods(none, aimClients), r.pods(constant, aimClients), r.pods(patching, aimClients), r.pods(core, aimClients)
	for _, aim := range []struct {
		of     podCell
		name   string
		wanted float64
	}{{n, "no webhook", 1.15}, {c, "the constant webhook", 1.05}} {
		outcome := "missed"
		if report.Ratio(u.P50, aim.of.P50) <= aim.wanted {
			outcome = "met"
		}
		fmt.Fprintf(b, "- %d clients, usher's core suite: median %s × %s, aim %.2f: %s.\n", aimClients, report.Times(u.P50, aim.of.P50), aim.name, aim.wanted, outcome)
	}
	fmt.Fprintf(b, "- %d clients, usher's core suite: median %s × the constant webhook that returns the same patch.\n", aimClients, report.Times(u.P50, p.P50))
	fmt.Fprintf(b, "- CPU per pod at %d clients, all processes: %s ms without a webhook, %s with the constant one (× %s), %s if it patches (× %s), %s with usher "+
		"(× %s). Of this, usher itself uses %s ms (%.0f %%), and the constant webhook that patches %s ms.\n", aimClients, report.Number(n.Used.cpu()/1000),
		report.Number(c.Used.cpu()/1000), report.Times(c.Used.cpu(), n.Used.cpu()), report.Number(p.Used.cpu()/1000), report.Times(p.Used.cpu(), n.Used.cpu()),
		report.Number(u.Used.cpu()/1000), report.Times(u.Used.cpu(), n.Used.cpu()), report.Number(u.Used.Webhook/1000), 100*report.Ratio(u.Used.Webhook, u.Used.cpu()),
		report.Number(p.Used.Webhook/1000))
}

func nodeTable(r *Report) string {
	var b strings.Builder
	b.WriteString("| nodes | status | statuses/s | leases/s | p50 ms | p99 ms | CPU %: API server | usher | etcd | etcd: writes/s | MB/s | log MB/s | database MB/min |\n" +
		"|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, c := range r.Nodes {
		u := c.Used
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", c.Nodes, modeTitles[c.Mode], report.Number(c.Statuses), report.Number(c.Leases),
			report.Number(c.P50), report.Number(c.P99), percent(u.APIServer), percent(u.Webhook), percent(u.Etcd), report.Number(u.Puts), mega(u.PutBytes), mega(u.WALBytes), mega(u.Growth*60))
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
	fmt.Fprintf(&b, "- %d nodes write %s times as many bytes into etcd if they are amplified, in %s times as many writes. The API server uses %s times as much CPU for them.\n",
		most, factor(a.Used.PutBytes, s.Used.PutBytes), factor(a.Used.Puts, s.Used.Puts), factor(a.Used.APIServer, s.Used.APIServer))
	kept := report.Ratio(a.Used.Growth, a.Statuses)
	fmt.Fprintf(&b, "- With its lease, a status takes %s KB of etcd's database until it is removed. In ten minutes that is %s MB for each 100 amplified nodes. With half of the database for "+
		"this history, a database of %.0f GiB, which is the default, is enough for %s amplified nodes, and one of %.0f GiB for %s.\n",
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
