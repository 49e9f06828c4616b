package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// report is the data of one run.
type report struct {
	Date       string     `json:"date"`   // RFC 3339, UTC
	Commit     string     `json:"commit"` // git describe of the tree
	Go         string     `json:"go"`
	CPU        string     `json:"cpu"`
	Cores      int        `json:"cores"`
	Kubernetes string     `json:"kubernetes"`
	Rounds     int        `json:"rounds"`
	Quick      bool       `json:"quick"`     // a rough result
	PodBytes   int        `json:"podBytes"`  // of the pod as it is posted
	NodeBytes  int        `json:"nodeBytes"` // of the node in JSON
	Pods       []podCell  `json:"pods"`
	Nodes      []nodeCell `json:"nodes"`
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

	Failed  int    `json:"failed,omitempty"` // requests, in all rounds
	Example string `json:"example,omitempty"`
}

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

// medianOf returns the median of a number of each round.
func medianOf[R any](rounds []R, number func(R) float64) float64 {
	var all []float64
	for _, r := range rounds {
		all = append(all, number(r))
	}
	return rounded(median(all), 4)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// podsOf sums up rounds.
func podsOf(way string, clients int, rounds []podRound) podCell {
	c := podCell{Way: way, Clients: clients}
	var used []usage
	for _, r := range rounds {
		c.Created, c.Failed, used = c.Created+len(r.latencies), c.Failed+r.failed, append(used, r.used)
		if r.example != nil {
			c.Example = r.example.Error()
		}
	}
	c.Used = middle(used)
	c.PerSecond = medianOf(rounds, func(r podRound) float64 { return ratio(float64(len(r.latencies)), r.took.Seconds()) })
	c.P50 = medianOf(rounds, func(r podRound) float64 { return millis(percentile(r.latencies, 50)) })
	c.P99 = medianOf(rounds, func(r podRound) float64 { return millis(percentile(r.latencies, 99)) })
	return c
}

// nodesOf sums up rounds.
func nodesOf(mode string, nodes int, rounds []nodeRound) nodeCell {
	c := nodeCell{Mode: mode, Nodes: nodes}
	var used []usage
	for _, r := range rounds {
		c.Failed, c.Skipped, used = c.Failed+r.failed, c.Skipped+r.skipped, append(used, r.used)
		if r.example != nil {
			c.Example = r.example.Error()
		}
	}
	c.Used = middle(used)
	c.Statuses = medianOf(rounds, func(r nodeRound) float64 { return ratio(float64(r.counts[status]), r.seconds) })
	c.Leases = medianOf(rounds, func(r nodeRound) float64 { return ratio(float64(r.counts[lease]), r.seconds) })
	c.P50 = medianOf(rounds, func(r nodeRound) float64 { return millis(percentile(r.latencies, 50)) })
	c.P99 = medianOf(rounds, func(r nodeRound) float64 { return millis(percentile(r.latencies, 99)) })
	return c
}

// String returns a line of progress.
func (c podCell) String() string {
	text := fmt.Sprintf("%4d clients  %-20s %6s pods/s  p50 %6s ms  p99 %6s ms  CPU per pod %s µs: API server %s, webhook %s, etcd %s, clients %s",
		c.Clients, wayTitles[c.Way], number(c.PerSecond), number(c.P50), number(c.P99), number(c.Used.cpu()),
		number(c.Used.APIServer), number(c.Used.Webhook), number(c.Used.Etcd), number(c.Used.Load))
	if c.Failed > 0 {
		text += fmt.Sprintf("\n     %d failed, such as: %s", c.Failed, c.Example)
	}
	return text
}

// String returns a line of progress.
func (c nodeCell) String() string {
	text := fmt.Sprintf("%4d nodes    %-22s %4s statuses/s  p50 %5s ms  p99 %5s ms  API server %s %%, etcd %s %% of a core, %s puts/s, %s MB/s",
		c.Nodes, modeTitles[c.Mode], number(c.Statuses), number(c.P50), number(c.P99), percent(c.Used.APIServer), percent(c.Used.Etcd),
		number(c.Used.Puts), mega(c.Used.PutBytes))
	if c.Failed > 0 {
		text += fmt.Sprintf("\n     %d failed, such as: %s", c.Failed, c.Example)
	}
	if c.Skipped > 0 {
		text += fmt.Sprintf("\n     %s statuses were stored without usher", number(c.Skipped))
	}
	return text
}

func readReport(file string) (*report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &report{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// writeReport writes JSON with a line for each cell, so that a diff of two runs is readable.
func writeReport(file string, r *report) error {
	head := *r
	head.Pods, head.Nodes = nil, nil
	text, err := json.MarshalIndent(head, "", "  ")
	if err != nil {
		return err
	}
	pods, err := lines(r.Pods)
	if err != nil {
		return err
	}
	nodes, err := lines(r.Nodes)
	if err != nil {
		return err
	}
	all := strings.Replace(string(text), `"pods": null`, `"pods": `+pods, 1)
	all = strings.Replace(all, `"nodes": null`, `"nodes": `+nodes, 1)
	return os.WriteFile(file, []byte(all+"\n"), 0o644)
}

// lines returns a list in JSON with a line for each element.
func lines[T any](list []T) (string, error) {
	var all []string
	for _, one := range list {
		line, err := json.Marshal(one)
		if err != nil {
			return "", err
		}
		all = append(all, "\n    "+string(line))
	}
	return "[" + strings.Join(all, ",") + "\n  ]", nil
}
