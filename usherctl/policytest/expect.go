package policytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// compare returns a finding for each expectation that is not met.
func (r *run) compare() (findings []report.Finding) {
	for _, key := range members {
		e, found := r.c.expect[key]
		if !found {
			continue
		}
		want, err := r.c.wanted(key, e)
		if err != nil {
			findings = append(findings, report.Finding{ID: key, Severity: report.Unknown, Object: r.c.where(e.line), Message: err.Error()})
			continue
		}
		if !met(key, e, want, r.got[key]) && !(key == "after" && e.contains && r.stores(want)) {
			findings = append(findings, r.unmet(key, e, want))
		}
	}
	return findings
}

// stores reports whether the object contains something with the fields that the API server fills in.
func (r *run) stores(want any) bool {
	stored, err := requests.DecodeJSON(r.report.Stored)
	return err == nil && r.got["after"] != nil && contains(stored, want)
}

// wanted returns the value of an expectation, without the ids of refusals.
func (c *Case) wanted(key string, e expectation) (any, error) {
	want := e.value
	if e.file != "" {
		text, err := os.ReadFile(c.find(e.file))
		if err != nil {
			return nil, fmt.Errorf("expect.%s: %w", key, err)
		}
		raw, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			return nil, fmt.Errorf("expect.%s: %s: %w", key, e.file, err)
		}
		if want, err = requests.DecodeJSON(raw); err != nil {
			return nil, fmt.Errorf("expect.%s: %s: %w", key, e.file, err)
		}
	}
	switch key {
	case "message":
		if text, ok := want.(string); ok {
			want = withoutID(text)
		}
	case "causes":
		want = withoutIDs(want)
	}
	return want, nil
}

// met reports whether an expectation is met.
func met(key string, e expectation, want, got any) bool {
	switch {
	case key == "message" && e.contains:
		return containsTexts(got.(string), want)
	case e.contains:
		return contains(got, want)
	case key == "steps":
		return len(otherSteps(want.(map[string]any), got.(map[string]any))) == 0
	}
	return equal(want, got)
}

// otherSteps returns the steps that did not do what was expected. Those that are not named are expected to do nothing.
func otherSteps(want, got map[string]any) (others []string) {
	for name, outcome := range want {
		if is, ran := got[name]; is != outcome && (ran || outcome != "off") {
			others = append(others, name)
		}
	}
	for name, outcome := range got {
		if _, named := want[name]; !named && (outcome == "changed" || outcome == "refused") {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return others
}

// unmet returns the finding for an expectation that is not met.
func (r *run) unmet(key string, e expectation, want any) report.Finding {
	f := report.Finding{ID: key, Severity: report.Error, Object: r.c.where(e.line)}
	got := r.got[key]
	switch {
	case key == "verdict":
		f.Message = fmt.Sprintf("expected %s, got %s", shown(want), shown(got)) + r.because()
	case key == "steps":
		f.Message = stepsMessage(want.(map[string]any), got.(map[string]any))
	case e.contains:
		lacks := missing(got, want)
		if text, ok := got.(string); ok {
			lacks = missingTexts(text, want)
		}
		f.Message = fmt.Sprintf("does not contain:\n%s\ngot:\n%s", indented(asYAML(lacks)), indented(asYAML(got)))
	case key == "after" && got == nil:
		f.Message = "expected an object, got none: nothing is stored"
	case isScalar(want) && isScalar(got):
		f.Message = "expected " + shown(want) + "\ngot      " + shown(got)
	default:
		f.Message = "differs:"
		f.Diff = report.DiffNamed("expected", "got", asJSON(want), asJSON(got))
	}
	return f
}

// because returns why the verdict is as it is.
func (r *run) because() string {
	if message, _ := r.got["message"].(string); message != "" && r.report.Verdict != report.Invalid && r.report.Verdict != report.NotJudged {
		return ": " + message
	}
	reasons := slices.Concat(r.report.Invalid, r.report.Unjudged)
	for _, n := range r.report.NotCalled {
		reasons = append(reasons, n.Path+" is not called: "+n.Why)
	}
	if r.report.Hint != "" {
		reasons = append(reasons, r.report.Hint)
	}
	if len(reasons) == 0 {
		return ""
	}
	return ": " + strings.Join(reasons, "; ")
}

func stepsMessage(want, got map[string]any) string {
	var lines []string
	for _, name := range otherSteps(want, got) {
		expected, is := want[name], got[name]
		if expected == nil {
			expected = "untouched or off, as it is not named"
		}
		if is == nil {
			is = "not run"
		}
		lines = append(lines, fmt.Sprintf("%s: expected %s, got %s", name, expected, is))
	}
	return strings.Join(lines, "\n")
}

// shown returns a scalar as text.
func shown(value any) string {
	switch value {
	case nil:
		return "nothing"
	case "":
		return "an empty text"
	}
	return fmt.Sprint(value)
}

func asJSON(value any) []byte {
	raw, _ := json.Marshal(value) // it has been decoded from JSON
	return raw
}

func asYAML(value any) string {
	text, _ := yaml.JSONToYAML(asJSON(value))
	return string(text)
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

// sortedSteps returns steps with their outcomes for expect: those that did something, and those that are named.
func sortedSteps(want, got map[string]any) map[string]any {
	steps := maps.Clone(got)
	maps.DeleteFunc(steps, func(name string, outcome any) bool {
		_, named := want[name]
		return !named && outcome != "changed" && outcome != "refused"
	})
	for name := range want {
		if _, ran := got[name]; !ran {
			steps[name] = "off"
		}
	}
	return steps
}
