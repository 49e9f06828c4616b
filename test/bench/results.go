package main

import (
	"fmt"
	"slices"

	"usher.dev/usher/bench/report"
)

// Report is the data of one run.
type Report struct {
	report.Head
	Cells []Cell `json:"cells"`
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

// group holds the cells of the servers for the same work; plain and before are nil if they were not measured.
type group struct {
	usher, constant, plain, before *Cell
}

func (r *Report) group(review string, connections int) (g group, ok bool) {
	of := func(server string) *Cell { return r.find(review, server, connections) }
	g = group{of(usher), of(constant), of(plain), of(before)}
	return g, g.usher != nil && g.constant != nil
}

// aim is a target of the design and its result.
type aim struct {
	text string
	met  bool
}

// The numbers of connections in the table; the aims are about the first.
const cpuConnections, tailConnections = 8, 64

// aimOf returns the aim of a review: CPU as a multiple of the constant server's, with 8 connections.
func aimOf(review string) float64 {
	return map[string]float64{
		"2KB-pod": 1.9, "20KB-pod-changed": 2, "20KB-pod-unchanged": 1.5, "51KB-node-amplified": 1.5, "51KB-node-unchanged": 1.5, "220KB-pod": 2,
		"20KB-pod-1-of-10-profiles": 3, "20KB-pod-0-of-10-profiles": 1.6,
	}[review]
}

// aims compares a run with its targets.
func aims(r *Report) (list []aim) {
	for _, review := range r.reviews() {
		wanted := aimOf(review)
		if g, ok := r.group(review, cpuConnections); ok && wanted > 0 {
			is := report.Rounded(report.Ratio(g.usher.CPU, g.constant.CPU), 3)
			list = append(list, aim{fmt.Sprintf("%s: CPU %.2f × constant, aim %g ×", review, is, wanted), is <= wanted})
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
