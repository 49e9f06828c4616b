package cluster

import (
	"cmp"
	"fmt"
	"time"

	"usher.dev/usher/bench/report"
)

// Report is the data of one run, of pods or of nodes.
type Report struct {
	report.Head
	PodBytes  int        `json:"podBytes"`  // of the pod as it is posted
	NodeBytes int        `json:"nodeBytes"` // of the node in JSON
	Pods      []podCell  `json:"pods,omitempty"`
	Nodes     []nodeCell `json:"nodes,omitempty"`
}

// podCell is the result of a way for a number of clients: medians of the rounds.
type podCell struct {
	Way       string  `json:"way"`
	Clients   int     `json:"clients"`
	Created   int     `json:"created"` // pods, in all rounds
	PerSecond float64 `json:"perSecond"`
	P50       float64 `json:"p50"` // ms
	P99       float64 `json:"p99"`
	Used      usage   `json:"used"` // per pod

	Slow    *slow  `json:"slow,omitempty"`   // nil if it was not counted
	Failed  int    `json:"failed,omitempty"` // requests, in all rounds
	Example string `json:"example,omitempty"`
}

// slow counts requests, also those that failed.
type slow struct {
	Over1    int `json:"over1"` // of more than 1 s
	Over5    int `json:"over5"` // of more than 5 s
	TimedOut int `json:"timedOut"`
}

func (c podCell) requests() int { return c.Created + c.Failed }

// nodeCell is the result of a mode for a number of nodes: medians of the rounds.
type nodeCell struct {
	Mode     string  `json:"mode"`
	Nodes    int     `json:"nodes"`
	Statuses float64 `json:"statuses"` // per second
	Leases   float64 `json:"leases"`   // per second
	P50      float64 `json:"p50"`      // ms, of a status
	P99      float64 `json:"p99"`
	Used     usage   `json:"used"` // per second

	Failed  int     `json:"failed,omitempty"`  // writes, in all rounds
	Skipped float64 `json:"skipped,omitempty"` // statuses that were stored without usher, in all rounds
	Example string  `json:"example,omitempty"`
}

// usage describes what the processes and etcd have used: per pod, or per second.
type usage struct {
	APIServer float64 `json:"apiServer"` // CPU in µs; also the next three
	Webhook   float64 `json:"webhook"`   // of usher or the constant webhook
	Etcd      float64 `json:"etcd"`
	Load      float64 `json:"load"` // of the clients

	Puts     float64 `json:"puts"`     // objects written to etcd
	PutBytes float64 `json:"putBytes"` // of these objects, with their keys
	WALBytes float64 `json:"walBytes"` // written to etcd's log
	Syncs    float64 `json:"syncs"`    // of the log to the disk
	Growth   float64 `json:"growth"`   // of etcd's database, in bytes

	Connections float64 `json:"connections,omitempty"` // accepted on this machine
}

// all returns pointers to all numbers.
func (u *usage) all() []*float64 {
	return []*float64{&u.APIServer, &u.Webhook, &u.Etcd, &u.Load, &u.Puts, &u.PutBytes, &u.WALBytes, &u.Syncs, &u.Growth, &u.Connections}
}

// cpu returns the CPU time of all processes together.
func (u usage) cpu() float64 { return u.APIServer + u.Webhook + u.Etcd + u.Load }

// record is a line that test/e2e/throughput prints: what it measures first, and then one round each.
type record struct {
	Run *struct {
		Kubernetes          string
		Rounds              int
		PodBytes, NodeBytes int
	}
	Pods  *podRound
	Nodes *nodeRound
}

// round holds the common fields of podRound and nodeRound.
type round struct {
	Seconds   float64
	Latencies []time.Duration // of what succeeded
	Failed    int
	Example   string // of a failure
	Used      usage
	slow
}

type podRound struct {
	round
	Way     string
	Clients int
}

type nodeRound struct {
	round
	Mode                      string
	Nodes                     int
	Statuses, Leases, Skipped float64
}

// millis returns the median of a percentile of each round, in ms.
func millis[R any](rounds []R, p float64, latencies func(R) []time.Duration) float64 {
	return report.MedianOf(rounds, func(r R) float64 { return float64(report.Percentile(latencies(r), p)) / float64(time.Millisecond) })
}

// middle returns the median of each number.
func middle[R any](rounds []R, used func(R) usage) (u usage) {
	for i, value := range u.all() {
		*value = report.MedianOf(rounds, func(r R) float64 {
			one := used(r)
			return *one.all()[i]
		})
	}
	return u
}

// groups returns lists of what has the same key, in the order of their first elements.
func groups[R any, K comparable](all []R, key func(R) K) (lists [][]R) {
	seen := map[K]int{}
	for _, r := range all {
		i, known := seen[key(r)]
		if !known {
			i, lists = len(lists), append(lists, nil)
			seen[key(r)] = i
		}
		lists[i] = append(lists[i], r)
	}
	return lists
}

// podsOf sums up the rounds of a way with some clients.
func podsOf(rounds []podRound) podCell {
	c := podCell{Way: rounds[0].Way, Clients: rounds[0].Clients, Slow: &slow{}}
	for _, r := range rounds {
		c.Created, c.Failed, c.Example = c.Created+len(r.Latencies), c.Failed+r.Failed, cmp.Or(r.Example, c.Example)
		*c.Slow = slow{c.Slow.Over1 + r.Over1, c.Slow.Over5 + r.Over5, c.Slow.TimedOut + r.TimedOut}
	}
	latencies := func(r podRound) []time.Duration { return r.Latencies }
	c.P50, c.P99 = millis(rounds, 50, latencies), millis(rounds, 99, latencies)
	c.PerSecond = report.MedianOf(rounds, func(r podRound) float64 { return report.Ratio(float64(len(r.Latencies)), r.Seconds) })
	c.Used = middle(rounds, func(r podRound) usage { return r.Used })
	return c
}

// nodesOf sums up the rounds of a mode with some nodes.
func nodesOf(rounds []nodeRound) nodeCell {
	c := nodeCell{Mode: rounds[0].Mode, Nodes: rounds[0].Nodes}
	for _, r := range rounds {
		c.Failed, c.Skipped, c.Example = c.Failed+r.Failed, c.Skipped+r.Skipped, cmp.Or(r.Example, c.Example)
	}
	latencies := func(r nodeRound) []time.Duration { return r.Latencies }
	c.P50, c.P99 = millis(rounds, 50, latencies), millis(rounds, 99, latencies)
	c.Statuses = report.MedianOf(rounds, func(r nodeRound) float64 { return report.Ratio(r.Statuses, r.Seconds) })
	c.Leases = report.MedianOf(rounds, func(r nodeRound) float64 { return report.Ratio(r.Leases, r.Seconds) })
	c.Used = middle(rounds, func(r nodeRound) usage { return r.Used })
	return c
}

// String returns a line of progress.
func (c podCell) String() string {
	text := fmt.Sprintf("%4d clients  %-21s %6s pods/s  p50 %6s ms  p99 %6s ms  CPU per pod %s µs: API server %s, webhook %s, etcd %s, clients %s",
		c.Clients, wayTitles[c.Way], report.Number(c.PerSecond), report.Number(c.P50), report.Number(c.P99), report.Number(c.Used.cpu()),
		report.Number(c.Used.APIServer), report.Number(c.Used.Webhook), report.Number(c.Used.Etcd), report.Number(c.Used.Load))
	if c.Slow.Over1 > 0 {
		text += fmt.Sprintf("\n     of %d requests, %d took more than 1 s, %d more than 5 s, %d timed out", c.requests(), c.Slow.Over1, c.Slow.Over5, c.Slow.TimedOut)
	}
	if c.Failed > 0 {
		text += fmt.Sprintf("\n     %d failed, such as: %s", c.Failed, c.Example)
	}
	return text
}

// String returns a line of progress.
func (c nodeCell) String() string {
	text := fmt.Sprintf("%4d nodes    %-22s %4s statuses/s  p50 %5s ms  p99 %5s ms  API server %s %%, etcd %s %% of a core, %s puts/s, %s MB/s",
		c.Nodes, modeTitles[c.Mode], report.Number(c.Statuses), report.Number(c.P50), report.Number(c.P99), percent(c.Used.APIServer), percent(c.Used.Etcd),
		report.Number(c.Used.Puts), mega(c.Used.PutBytes))
	if c.Failed > 0 {
		text += fmt.Sprintf("\n     %d failed, such as: %s", c.Failed, c.Example)
	}
	if c.Skipped > 0 {
		text += fmt.Sprintf("\n     %s statuses were stored without usher", report.Number(c.Skipped))
	}
	return text
}
