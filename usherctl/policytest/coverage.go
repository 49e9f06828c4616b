package policytest

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"usher.dev/usher/admit"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/report"
)

// Coverage describes what cases show, and what they do not.
type Coverage struct {
	Steps    Share         `json:"steps"`
	Policies []PolicyShare `json:"policies"`
	Refusals Share         `json:"refusals"`
	// NotMeasured are parts of policies of which cases can show nothing.
	NotMeasured []string `json:"notMeasured,omitempty"`
}

// Share counts the parts of something that cases show.
type Share struct {
	All     int      `json:"all"`
	Shown   int      `json:"shown"`
	Percent float64  `json:"percent"`
	Missing []string `json:"missing"`
}

// PolicyShare counts the parts of a policy that cases show.
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

// eachStep calls do with each step of the routes of instances that is on, and has something to do.
func eachStep(instances map[setting]*instance, do func(path string, s admit.Step)) {
	for _, w := range instances {
		for _, route := range w.routes {
			for _, s := range route.Chain.Steps() {
				if !s.Idle && s.Mode != admit.Off {
					do(route.Path, s)
				}
			}
		}
	}
}

// stepsOf returns the steps of the routes of all instances, and whether a case shows each change or refuse something.
func stepsOf(results []Result, instances map[setting]*instance) Share {
	all := map[string]bool{}
	eachStep(instances, func(path string, s admit.Step) { all[path+"  "+s.Name] = false })
	for _, r := range results {
		for _, call := range r.Report.Calls {
			for _, s := range call.Steps {
				if len(s.Refused)+len(s.Patch) > 0 {
					all[call.Path+"  "+s.Name] = true
				}
			}
		}
	}
	return shareOf(all)
}

// knownRefusals lists the refusals that usher's own samples show: step, field and type of the problem.
//
//go:embed refusals.txt
var knownRefusals string

// refusalsOf returns the known refusals of the steps of all instances, and whether a case shows each. Steps with a section
// are left out: what they refuse is in the policy, of which the parts are counted.
func refusalsOf(results []Result, instances map[setting]*instance) Share {
	on, all := map[string]bool{}, map[string]bool{}
	eachStep(instances, func(_ string, s admit.Step) { on[s.Name] = on[s.Name] || s.Section == nil })
	for line := range strings.Lines(knownRefusals) {
		if step, _, _ := strings.Cut(line, " "); on[step] {
			all[strings.TrimSpace(line)] = false
		}
	}
	for _, r := range results {
		for _, call := range r.Report.Calls {
			for _, cause := range call.Causes {
				refusal := RefusalOf(cause.Message, cause.Field, string(cause.Type))
				if step, _, _ := strings.Cut(refusal, " "); on[step] {
					all[refusal] = true
				}
			}
		}
	}
	return shareOf(all)
}

// stepOf finds the step in the message of a cause, and entry what is in brackets in the path of a field.
var (
	stepOf = regexp.MustCompile(` \(usher, step ([a-z-]+), refusal [0-9a-f]{8}\)$`)
	entry  = regexp.MustCompile(`\[[^\[\]]*\]`)
)

// RefusalOf returns the kind of a refusal: its step, the path of the field without what differs from object to object, and the
// type of the problem. It returns "" for a cause that is not of a step.
func RefusalOf(message, field, reason string) string {
	found := stepOf.FindStringSubmatch(message)
	if found == nil {
		return ""
	}
	return fmt.Sprintf("%s  %s  %s", found[1], entry.ReplaceAllString(field, "[*]"), reason)
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
	add("steps that changed or refused something", "no case shows it of", c.Steps)
	for _, p := range c.Policies {
		add("parts of "+p.File+" without which a case would differ", "no case would differ without", p.Share)
	}
	add("kinds of refusal", "no case shows", c.Refusals)
	for _, text := range c.NotMeasured {
		lines = append(lines, "not measured: "+text)
	}
	return lines
}
