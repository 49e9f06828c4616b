package policytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/admit"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// again sends the result of an allowed case once more, and once more with a foreign sidecar. The findings say what is changed
// that must not be.
func (r *run) again() (findings []report.Finding) {
	result := r.report.After
	if len(result) == 0 || string(result) == "null" || r.report.Operation != "CREATE" && r.report.Operation != "UPDATE" {
		return nil
	}
	for _, check := range []func(json.RawMessage) *report.Finding{r.idempotence, r.withSidecar} {
		if f := check(result); f != nil {
			return []report.Finding{*f}
		}
	}
	return nil
}

// idempotence sends the result again: nothing may change.
func (r *run) idempotence(result json.RawMessage) *report.Finding {
	second, err := r.send(result)
	if err != nil {
		return r.finding("idempotence", "the result could not be sent again: "+err.Error(), "")
	}
	if second.Verdict != report.Allowed && second.Verdict != report.Skipped {
		return r.finding("idempotence", "the result, sent again, is not allowed: "+because(second), "")
	}
	if second.Changed() {
		return r.finding("idempotence", "the result, sent again, is changed again:", report.DiffNamed("result", "sent again", result, second.After))
	}
	return nil
}

func (r *run) finding(id, message, diff string) *report.Finding {
	return &report.Finding{ID: id, Severity: report.Error, Object: r.c.where(r.c.line), Message: message, Diff: diff,
		Fix: "change the policy: an API server asks again when another webhook has changed the object; or write once: REASON into the case"}
}

func because(r report.Report) string {
	call, called := r.Decisive()
	if !called {
		return string(r.Verdict)
	}
	return fmt.Sprintf("%s: %s", r.Verdict, withoutID(call.Message))
}

// sidecarName is the name of the foreign sidecar, and of its volume.
const sidecarName = "foreign-sidecar"

// withSidecar sends the result with a container in front, as injectors add it: nothing else may change.
func (r *run) withSidecar(result json.RawMessage) *report.Finding {
	original, _ := requests.DecodeJSON(r.report.Before)
	object, err := requests.DecodeJSON(result)
	if err != nil || r.report.Operation != "CREATE" || !addSidecar(r.podSpec(object), r.podSpec(original)) {
		return nil
	}
	third, err := r.send(asJSON(object))
	if err != nil {
		return r.finding(sidecarName, "the result with a foreign sidecar could not be sent: "+err.Error(), "")
	}
	if third.Verdict == report.Invalid {
		return nil // such as by a LimitRange, which bounds all containers together
	}
	if third.Verdict != report.Allowed && third.Verdict != report.Skipped {
		return r.finding(sidecarName, "the result is not allowed any more after another webhook has added a container: "+because(third), "")
	}
	after, err := requests.DecodeJSON(third.After)
	if err != nil {
		return r.finding(sidecarName, "the result with a foreign sidecar cannot be read: "+err.Error(), "")
	}
	removeSidecar(r.podSpec(object))
	removeSidecar(r.podSpec(after))
	removeSummaries(object, after)
	if !equal(object, after) {
		return r.finding(sidecarName, "more is changed than the container that another webhook has added:",
			report.DiffNamed("result", "after a foreign sidecar", asJSON(object), asJSON(after)))
	}
	return nil
}

// podSpec returns the spec of a pod, or of the template of a workload; nil for other objects.
func (r *run) podSpec(object any) map[string]any {
	if r.report.Kind == "Pod" {
		return memberOf(object, "spec")
	}
	for _, k := range admit.WorkloadKinds() {
		if k.Kind == r.report.Kind {
			return memberOf(memberOf(object, k.Template...), "spec")
		}
	}
	return nil
}

// memberOf returns the mapping at a path of keys; nil if there is none.
func memberOf(object any, path ...string) map[string]any {
	mapping, _ := object.(map[string]any)
	found, _, _ := unstructured.NestedFieldNoCopy(mapping, path...)
	member, _ := found.(map[string]any)
	return member
}

// addSidecar adds a container and its volume in front of a pod's own, and reports whether that is possible. The container
// is like the first one that was sent, so that it keeps the same rules for images and resources.
func addSidecar(spec, sent map[string]any) bool {
	containers, _ := spec["containers"].([]any)
	originals, _ := sent["containers"].([]any)
	if len(containers) == 0 || len(originals) == 0 {
		return false
	}
	like, ok := originals[0].(map[string]any)
	if !ok {
		return false
	}
	sidecar := map[string]any{"name": sidecarName, "volumeMounts": []any{map[string]any{"name": sidecarName, "mountPath": "/foreign-sidecar"}}}
	for _, key := range []string{"image", "imagePullPolicy", "resources", "securityContext"} {
		if value, found := like[key]; found {
			sidecar[key] = value
		}
	}
	volumes, _ := spec["volumes"].([]any)
	spec["containers"] = slices.Insert(slices.Clone(containers), 0, any(sidecar))
	spec["volumes"] = slices.Insert(slices.Clone(volumes), 0, any(map[string]any{"name": sidecarName, "emptyDir": map[string]any{}}))
	return true
}

// removeSidecar removes the container and the volume that addSidecar has added.
func removeSidecar(spec map[string]any) {
	for _, key := range []string{"containers", "volumes"} {
		list, _ := spec[key].([]any)
		list = slices.DeleteFunc(slices.Clone(list), func(element any) bool {
			mapping, _ := element.(map[string]any)
			return mapping["name"] == sidecarName
		})
		maps.DeleteFunc(spec, func(k string, _ any) bool { return k == key })
		if len(list) > 0 {
			spec[key] = list
		}
	}
}

// removeSummaries removes the annotations that name the sidecar from a result: such as a summary of the resources of all
// containers, which is about the sidecar as well.
func removeSummaries(before, after any) {
	old, now := memberOf(before, "metadata", "annotations"), memberOf(after, "metadata", "annotations")
	for key, value := range now {
		if text, ok := value.(string); ok && strings.Contains(text, sidecarName) {
			delete(old, key)
			delete(now, key)
		}
	}
}
