package webhooks

import (
	"encoding/json"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// adopt makes usher the owner of the fields of its entries that kubectl applied, so that the next apply removes what usher
// no longer needs. All else that kubectl applied, such as labels and the entries of others, remains kubectl's: what is
// usher's and not applied by it would be removed.
func adopt(metadata map[string]any) {
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	}
	var all []any
	fields, _ := metadata["managedFields"].([]any)
	for _, f := range fields {
		theirs, ok := f.(map[string]any)
		if !ok || theirs["manager"] != kubectlApply {
			all = append(all, f)
			continue
		}
		ours := maps.Clone(theirs)
		ours["manager"], ours["operation"] = manager, string(metav1.ManagedFieldsOperationApply)
		if all = append(all, theirs); moveEntries(theirs, ours) {
			all = append(all, ours)
		}
	}
	metadata["managedFields"] = all
}

// moveEntries moves the fields of usher's entries from what one manager owns to another, and reports whether there are any.
func moveEntries(from, to map[string]any) bool {
	owned, _ := from["fieldsV1"].(map[string]any)
	entries, _ := owned["f:webhooks"].(map[string]any)
	moved := map[string]any{}
	for key, fields := range entries {
		var named struct{ Name string }
		if text, is := strings.CutPrefix(key, "k:"); is && json.Unmarshal([]byte(text), &named) == nil && strings.HasSuffix(named.Name, entrySuffix) {
			moved[key] = fields
			delete(entries, key)
		}
	}
	to["fieldsV1"] = map[string]any{"f:webhooks": moved}
	return len(moved) > 0
}
