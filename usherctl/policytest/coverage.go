package policytest

import (
	"fmt"
	"maps"
	"slices"

	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/report"
)

// Coverage describes what cases cover: that without which some case fails.
type Coverage struct {
	Steps    Share         `json:"steps"`
	Policies []PolicyShare `json:"policies"`
	// NotMeasured says what cannot be judged by leaving it out.
	NotMeasured []string `json:"notMeasured,omitempty"`
}

// Share counts the parts of something that cases cover.
type Share struct {
	All     int      `json:"all"`
	Shown   int      `json:"shown"`
	Percent float64  `json:"percent"`
	Missing []string `json:"missing"`
}

// PolicyShare counts the parts of a policy that cases cover.
type PolicyShare struct {
	File string `json:"file"`
	Share
}

// shareOf returns how many of all are shown.
func shareOf(all map[string]bool) Share {
	s := Share{All: len(all), Missing: []string{}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] {
			s.Shown++
		} else {
			s.Missing = append(s.Missing, name)
		}
	}
	s.count(s.Shown, s.All)
	return s
}

// count sets how many are shown. Of nothing, 0 percent are.
func (s *Share) count(shown, all int) {
	if s.Shown, s.All, s.Percent = shown, all, 0; all > 0 {
		s.Percent = float64(1000*shown/all) / 10
	}
}

// Report returns the coverage as a report.
func (c Coverage) Report() report.Report {
	return report.Report{Subject: report.Subject{Source: "coverage"}, Verdict: report.Passed,
		Notes: []suite.Note{{Name: "coverage", Value: c, Lines: c.lines()}}}
}

// lines are the coverage as text.
func (c Coverage) lines() (lines []string) {
	add := func(what, without string, s Share) {
		line := fmt.Sprintf("%s: %d of %d (%.1f %%)", what, s.Shown, s.All, s.Percent)
		if s.All == 0 {
			line = what + ": none in this policy"
		}
		if len(s.Missing) > 0 {
			line += "; " + without + ":"
		}
		lines = append(lines, line)
		for _, missing := range s.Missing {
			lines = append(lines, "  "+missing)
		}
	}
	add("steps without which a case fails", "no case fails without", c.Steps)
	for _, p := range c.Policies {
		add("parts of "+p.File+" without which a case fails", "no case fails without", p.Share)
	}
	for _, text := range c.NotMeasured {
		lines = append(lines, "not judged: "+text)
	}
	return lines
}
