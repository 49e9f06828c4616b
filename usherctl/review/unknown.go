package review

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/internal/printable"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// warnUnknown notes the fields that the type does not know, and warns of those that a patch added.
func (r *reviewed) warnUnknown(make func() any) {
	if len(r.Calls) == 0 {
		return
	}
	r.Unknown = unknown(r.Before, make)
	last := &r.Calls[len(r.Calls)-1]
	last.Warnings = append(last.Warnings, dropped(make, r.Before, r.After)...)
}

const droppedSilently = ": the API server drops it silently"

func isDropped(warning string) bool { return strings.HasSuffix(warning, droppedSilently) }

// dropped warns of the fields of the result of a patch that the type does not know, and the object did not have.
func dropped(make func() any, before, after json.RawMessage) (warnings []string) {
	fields := unknown(after, make)
	if len(fields) == 0 {
		return nil
	}
	had := unknown(before, make)
	for _, field := range fields {
		if !slices.Contains(had, field) {
			warnings = append(warnings, fmt.Sprintf("the result has an %s%s", field, droppedSilently))
		}
	}
	return warnings
}

// unknown lists the fields that a type does not know.
func unknown(raw []byte, make func() any) (fields []string) {
	if make == nil {
		return nil
	}
	problems, err := kjson.UnmarshalStrict(raw, make(), kjson.DisallowUnknownFields)
	if err != nil {
		return nil
	}
	for _, p := range problems {
		fields = append(fields, p.Error())
	}
	return fields
}

// doubtStored notes in a report what is not known of the stored object. Pods that replace others may find a quota that these leave.
func doubtStored(r *report.Report, d requests.Document) {
	ofQuota := func(p report.Plugin) bool { return p.Name == quotaPlugin && p.Outcome == "refused" }
	why := ""
	switch file := d.File(); {
	case file.OldErr != nil:
		why = printable.Line(file.OldErr.Error())
	case len(file.Old) > 0 && !file.KeepsTemplate() && r.Operation == string(admissionv1.Create) && slices.ContainsFunc(r.Plugins, ofQuota):
		why = "whether the quota has room when the pods that the update replaces are gone"
	default:
		return
	}
	if r.Unjudged = append(r.Unjudged, why); r.Verdict != report.Errored && (d.Of == "" || r.Verdict != report.Denied) {
		r.Verdict = report.NotJudged
	}
}
