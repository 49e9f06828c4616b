package policytest

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// actual returns what the members of expect are compared with.
func actual(r report.Report) (map[string]any, error) {
	code, reason, message := 0, "", ""
	warnings, causes, patch, steps := []string{}, []metav1.StatusCause{}, []report.Operation{}, map[string]any{}
	if call, called := r.Decisive(); called {
		code, reason, message = call.Code, call.Reason, call.Message
	}
	for _, call := range r.Calls {
		warnings, patch = append(warnings, call.Warnings...), append(patch, call.Patch...)
		if len(call.Causes) > 0 && len(causes) == 0 {
			causes = call.Causes
		}
		for _, s := range call.Steps {
			addOutcome(steps, s)
		}
	}
	after := r.After
	if r.Verdict != report.Allowed || len(after) == 0 {
		after = json.RawMessage("null") // nothing is stored
	}
	got := map[string]any{"verdict": string(r.Verdict), "code": code, "reason": reason, "message": withoutID(message), "causes": causes,
		"warnings": warnings, "steps": steps, "patch": patch, "after": after}
	for key, value := range got {
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		if got[key], err = requests.DecodeJSON(raw); err != nil {
			return nil, err
		}
	}
	got["causes"] = withoutIDs(got["causes"])
	return got, nil
}

// addOutcome adds the outcome of a step. Of a step on several routes what it did counts, and not where it did nothing.
func addOutcome(steps map[string]any, s report.Step) {
	outcome := "untouched"
	switch {
	case s.Mode == "off":
		outcome = "off"
	case len(s.Refused) > 0:
		outcome = "refused"
	case len(s.Patch) > 0:
		outcome = "changed"
	}
	if before, found := steps[s.Name]; !found || before == "off" || before == "untouched" {
		steps[s.Name] = outcome
	}
}
