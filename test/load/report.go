package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Report is the data of one run.
type Report struct {
	Date   string `json:"date"`   // RFC 3339, UTC
	Commit string `json:"commit"` // git describe of the tree
	Usher  string `json:"usher"`  // version of the binary
	Go     string `json:"go"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Pinned string `json:"pinned"` // in words
	Rounds int    `json:"rounds"`
	Quick  bool   `json:"quick"` // a rough result
	Cells  []Cell `json:"cells"`
}

// Cell is the result of one server for one review and a number of connections: medians of the rounds.
type Cell struct {
	Review      string    `json:"review"`
	Bytes       int       `json:"bytes"` // of the review
	Server      string    `json:"server"`
	Connections int       `json:"connections"`
	Reviews     int       `json:"reviews"` // in each round
	PerSecond   float64   `json:"perSecond"`
	P50         float64   `json:"p50"`        // µs, seen by the client
	P99         float64   `json:"p99"`        // µs
	CPU         float64   `json:"cpu"`        // µs of the server process per review
	CPURounds   []float64 `json:"cpuRounds"`  // µs, of each round
	Objects     float64   `json:"objects"`    // allocated per review
	Allocated   float64   `json:"allocated"`  // bytes per review
	PeakMemory  int64     `json:"peakMemory"` // bytes, resident, since the server was started for this review
}

// find returns a cell, or nil.
func (r *Report) find(review, server string, connections int) *Cell {
	i := slices.IndexFunc(r.Cells, func(c Cell) bool {
		return c.Review == review && c.Server == server && c.Connections == connections
	})
	if i < 0 {
		return nil
	}
	return &r.Cells[i]
}

// reviews returns the names in the order of the run.
func (r *Report) reviews() (names []string) {
	for _, c := range r.Cells {
		if !slices.Contains(names, c.Review) {
			names = append(names, c.Review)
		}
	}
	return names
}

// triple holds the cells of the three servers for the same work.
type triple struct {
	usher, constant, plain *Cell
}

func (r *Report) triple(review string, connections int) (t triple, ok bool) {
	t = triple{r.find(review, usher, connections), r.find(review, constant, connections), r.find(review, plain, connections)}
	return t, t.usher != nil && t.constant != nil && t.plain != nil
}

// aim is a target of the design and its result.
type aim struct {
	text string
	met  bool
}

// The aims: CPU per review against the constant server at cpuConnections, by review; against the plain pipeline for
// all; p99 at tailConnections against the constant server, for all.
const (
	cpuConnections, tailConnections = 8, 64
	aimOfPlain, aimTail             = 15, 2
)

func aimOfConstant(review string) float64 {
	return map[string]float64{
		"20KB-pod-changed": 4, "20KB-pod-unchanged": 2.5, "51KB-node-amplified": 4, "51KB-node-unchanged": 2.5,
	}[review]
}

// aims compares a run with its targets.
func aims(r *Report) (list []aim) {
	for _, review := range r.reviews() {
		t, ok := r.triple(review, cpuConnections)
		if wanted := aimOfConstant(review); ok && wanted > 0 {
			is := ratio(t.usher.CPU, t.constant.CPU)
			list = append(list, aim{fmt.Sprintf("%s: CPU %.2f × constant, aim %g ×", review, is, wanted), is <= wanted})
		}
		if ok {
			is := ratio(t.plain.CPU, t.usher.CPU)
			list = append(list, aim{fmt.Sprintf("%s: CPU 1/%.1f of plain, aim 1/%d", review, is, aimOfPlain), is >= aimOfPlain})
		}
		if t, ok := r.triple(review, tailConnections); ok {
			is := ratio(t.usher.P99, t.constant.P99)
			list = append(list, aim{fmt.Sprintf("%s: p99 at %d connections %.2f × constant, aim %d ×", review, tailConnections, is, aimTail), is <= aimTail})
		}
	}
	return list
}

func (a aim) String() string {
	if a.met {
		return a.text + ": met"
	}
	return a.text + ": MISSED"
}

func readReport(file string) (*Report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	report := &Report{}
	if err := json.Unmarshal(text, report); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return report, nil
}

// writeReport writes JSON with a line for each cell, so that a diff of two runs is readable.
func writeReport(file string, report *Report) error {
	head := *report
	head.Cells = nil
	text, err := json.MarshalIndent(head, "", "  ")
	if err != nil {
		return err
	}
	var cells []string
	for _, c := range report.Cells {
		line, err := json.Marshal(c)
		if err != nil {
			return err
		}
		cells = append(cells, string(line))
	}
	list := "\"cells\": [\n    " + strings.Join(cells, ",\n    ") + "\n  ]"
	return os.WriteFile(file, []byte(strings.Replace(string(text), `"cells": null`, list, 1)+"\n"), 0o644)
}
