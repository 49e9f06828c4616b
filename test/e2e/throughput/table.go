package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// percent returns µs of CPU per second as percent of a core.
func percent(micros float64) string { return number(micros / 1e4) }

// mega returns bytes as MB.
func mega(bytes float64) string { return number(bytes / 1e6) }

// markdown returns everything that a page shows of a run.
func markdown(r *report) string {
	return r.headline() + "\n\n" + podTable(r) + "\n" + podReasons(r) + "\n" + nodeTable(r) + "\n" + nodeReasons(r)
}

// headline describes what was measured, on which machine and when.
func (r *report) headline() string {
	quick := ""
	if r.Quick {
		quick = " A quick run: for a look only."
	}
	return fmt.Sprintf("usher %s, Kubernetes %s, %s, %s; %s, %d cores for everything; medians of %d rounds. A pod is posted in %.1f KB, a node has %.1f KB.%s",
		r.Commit, r.Kubernetes, r.Go, r.Date, r.CPU, r.Cores, r.Rounds, float64(r.PodBytes)/1024, float64(r.NodeBytes)/1024, quick)
}

// pods returns a cell, or an empty one.
func (r *report) pods(way string, clients int) (c podCell) {
	i := slices.IndexFunc(r.Pods, func(c podCell) bool { return c.Way == way && c.Clients == clients })
	if i >= 0 {
		c = r.Pods[i]
	}
	return c
}

func podTable(r *report) string {
	var b strings.Builder
	b.WriteString("| clients | way | pods/s | p50 ms | × no webhook | × constant | p99 ms | CPU ms per pod | API server | webhook | etcd | writes | KB |\n" +
		"|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, c := range r.Pods {
		u := c.Used
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", c.Clients, wayTitles[c.Way], number(c.PerSecond),
			number(c.P50), times(c.P50, r.pods(none, c.Clients).P50), times(c.P50, r.pods(constant, c.Clients).P50), number(c.P99),
			number(u.cpu()/1000), number(u.APIServer/1000), number(u.Webhook/1000), number(u.Etcd/1000), number(u.Puts), number(u.PutBytes/1024))
	}
	return b.String()
}

func times(a, b float64) string { return fmt.Sprintf("%.2f", ratio(a, b)) }

// aimClients is the number of clients that the aims are for.
const aimClients = 100

// podReasons compares usher with the aims, and says where the time goes.
func podReasons(r *report) string {
	n, c, p, u := r.pods(none, aimClients), r.pods(constant, aimClients), r.pods(patching, aimClients), r.pods(core, aimClients)
	var b strings.Builder
	for _, aim := range []struct {
		of     string
		is, at float64
	}{{"no webhook", ratio(u.P50, n.P50), 1.15}, {"the constant webhook", ratio(u.P50, c.P50), 1.05}, {"the constant webhook with a patch", ratio(u.P50, p.P50), 0}} {
		switch {
		case aim.at == 0:
			fmt.Fprintf(&b, "- %d clients, usher's core suite: median %.2f × %s.\n", aimClients, aim.is, aim.of)
		case aim.is <= aim.at:
			fmt.Fprintf(&b, "- %d clients, usher's core suite: median %.2f × %s, aim %.2f: met.\n", aimClients, aim.is, aim.of, aim.at)
		default:
			fmt.Fprintf(&b, "- %d clients, usher's core suite: median %.2f × %s, aim %.2f: missed.\n", aimClients, aim.is, aim.of, aim.at)
		}
	}
	fmt.Fprintf(&b, "- CPU per pod at %d clients, all processes: %s ms without a webhook, %s with the constant one (× %s), %s if it patches (× %s), %s with usher "+
		"(× %s), of which usher itself uses %s (%.0f %%), and the constant webhook %s.\n", aimClients, number(n.Used.cpu()/1000),
		number(c.Used.cpu()/1000), times(c.Used.cpu(), n.Used.cpu()), number(p.Used.cpu()/1000), times(p.Used.cpu(), n.Used.cpu()),
		number(u.Used.cpu()/1000), times(u.Used.cpu(), n.Used.cpu()), number(u.Used.Webhook/1000), 100*ratio(u.Used.Webhook, u.Used.cpu()),
		number(p.Used.Webhook/1000))
	for _, c := range r.Pods {
		if c.Failed > 0 {
			fmt.Fprintf(&b, "- %s, %d clients: %d requests failed, %d pods were created.\n", wayTitles[c.Way], c.Clients, c.Failed, c.Created)
		}
	}
	return b.String()
}

func nodeTable(r *report) string {
	var b strings.Builder
	b.WriteString("| nodes | status | statuses/s | leases/s | p50 ms | p99 ms | CPU %: API server | usher | etcd | etcd: writes/s | MB/s | log MB/s | database MB/min |\n" +
		"|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, c := range r.Nodes {
		u := c.Used
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", c.Nodes, modeTitles[c.Mode], number(c.Statuses), number(c.Leases),
			number(c.P50), number(c.P99), percent(u.APIServer), percent(u.Webhook), percent(u.Etcd), number(u.Puts), mega(u.PutBytes), mega(u.WALBytes), mega(u.Growth*60))
	}
	return b.String()
}

// history is how long etcd keeps what was replaced: the API server removes every five minutes what was replaced more than
// five minutes before.
const history = 600

// quotas are sizes of etcd's database in GiB: the default, and the largest that etcd suggests.
var quotas = []float64{2, 8}

// stop returns the number of amplified nodes whose history takes half of a database of that size.
func (r *report) stop(gib float64) float64 {
	i := slices.IndexFunc(r.Nodes, func(c nodeCell) bool { return c.Mode == amplified && c.Nodes == r.mostNodes() })
	if i < 0 {
		return 0
	}
	perNode := r.Nodes[i].Used.Growth / float64(r.mostNodes())
	return rounded(ratio(gib*(1<<30)/2, perNode*history), 2)
}

func (r *report) mostNodes() (most int) {
	for _, c := range r.Nodes {
		most = max(most, c.Nodes)
	}
	return most
}

// nodeReasons says what amplification costs, and where to stop.
func nodeReasons(r *report) string {
	most := r.mostNodes()
	cell := map[string]usage{}
	for _, c := range r.Nodes {
		if c.Nodes == most {
			cell[c.Mode] = c.Used
		}
	}
	a, s := cell[amplified], cell[seldom]
	var b strings.Builder
	fmt.Fprintf(&b, "- %d nodes write %s times as many bytes into etcd if they are amplified, in %s times as many writes; the API server uses %s times as much CPU.\n",
		most, number(rounded(ratio(a.PutBytes, s.PutBytes), 2)), number(rounded(ratio(a.Puts, s.Puts), 2)), number(rounded(ratio(a.APIServer, s.APIServer), 2)))
	fmt.Fprintf(&b, "- Of ten minutes, etcd keeps %s MB for them. Half of a database of %.0f GiB, which is etcd's default, is full with %s amplified nodes, half of %.0f GiB with %s.\n",
		mega(a.Growth*history), quotas[0], number(r.stop(quotas[0])), quotas[1], number(r.stop(quotas[1])))
	return b.String()
}

// The marks around the tables in a page.
const pageBegins, pageEnds = "<!-- begin cluster -->\n", "<!-- end cluster -->"

// writePage brings the tables of a page up to date.
func writePage(page string, r *report) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), pageBegins)
	_, after, ends := strings.Cut(rest, pageEnds)
	if !begins || !ends {
		return fmt.Errorf("%s: has no lines %q and %q", page, strings.TrimSpace(pageBegins), pageEnds)
	}
	return os.WriteFile(page, []byte(before+pageBegins+markdown(r)+pageEnds+after), 0o644)
}
