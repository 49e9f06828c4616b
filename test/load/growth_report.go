package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Growth is the data of a growth run.
type Growth struct {
	Head   growthHead `json:"run"`
	Points []Point    `json:"points"`
}

// growthHead says when, where and of what the run was, as Report does.
type growthHead struct {
	Date   string `json:"date"`
	Commit string `json:"commit"`
	Usher  string `json:"usher"`
	Go     string `json:"go"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Pinned string `json:"pinned"`
	Rounds int    `json:"rounds"`
	Quick  bool   `json:"quick"`
}

// Point is the result for one size of a subject.
type Point struct {
	Subject  string  `json:"subject"`
	Count    int     `json:"count"`
	Ready    float64 `json:"ready"`    // s from the start of the process until it was ready, on one core
	StartCPU float64 `json:"startCPU"` // s, of the process until then
	Heap     int64   `json:"heap"`     // bytes after garbage collection, ready and without reviews
	Peak     int64   `json:"peak"`     // bytes, resident, until it was ready
	Costs    []Cost  `json:"costs,omitempty"`
}

// Cost is what one review costs.
type Cost struct {
	Line    string  `json:"line"`
	CPU     float64 `json:"cpu"`     // µs of the process
	Objects float64 `json:"objects"` // allocated
}

// of returns the points of a subject.
func (g *Growth) of(subject string) (points []Point) {
	for _, p := range g.Points {
		if p.Subject == subject {
			points = append(points, p)
		}
	}
	return points
}

func readGrowth(file string) (*Growth, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	report := &Growth{}
	if err := json.Unmarshal(text, report); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return report, nil
}

// encode returns JSON with a line for each point, so that a diff of two runs is readable.
func (g *Growth) encode() ([]byte, error) {
	head, err := json.Marshal(g.Head)
	if err != nil {
		return nil, err
	}
	var points []string
	for _, p := range g.Points {
		line, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		points = append(points, "  "+string(line))
	}
	return fmt.Appendf(nil, "{\"run\": %s,\n\"points\": [\n%s\n]}\n", head, strings.Join(points, ",\n")), nil
}
