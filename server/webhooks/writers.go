package webhooks

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/certs/rotation"
)

// writers says who wrote the fields of an entry, as managedFields do.
type writers struct {
	registrar string              // who registered the entry: of those who wrote its name, the writer of most fields
	of        map[string][]string // the writers of a field; a match condition is "matchConditions/NAME"
}

// writersOf returns the writers of an entry. Without managedFields, none are known.
func (c configuration) writersOf(entry string) writers {
	w, most := writers{of: map[string][]string{}}, 0
	for _, m := range c.ManagedFields {
		fields := writtenFields(m, entry)
		for _, field := range fields {
			w.of[field] = append(w.of[field], m.Manager)
		}
		if slices.Contains(fields, "name") && len(fields) > most {
			w.registrar, most = m.Manager, len(fields)
		}
	}
	return w
}

// changedBy returns who wrote a field, if the one who registered the entry did not. It returns "" if nobody else did, or if
// that is not known.
func (w writers) changedBy(field string) string {
	all := w.of[field]
	if len(all) == 0 || w.registrar == "" || slices.Contains(all, w.registrar) {
		return ""
	}
	return all[len(all)-1]
}

// writtenFields returns the fields of an entry that a manager wrote, without the caBundle, which controllers fill in.
func writtenFields(m metav1.ManagedFieldsEntry, entry string) (fields []string) {
	for key, parts := range rotation.Owned(m, entry) {
		field, found := strings.CutPrefix(key, "f:")
		_, bundle := parts["f:caBundle"]
		switch {
		case !found || bundle && len(parts) == 1:
		case field == "matchConditions":
			fields = append(fields, writtenConditions(parts)...)
		default:
			fields = append(fields, field)
		}
	}
	return fields
}

// writtenConditions returns the match conditions whose expression was written.
func writtenConditions(parts map[string]json.RawMessage) (fields []string) {
	for key, text := range parts {
		var condition struct{ Name string }
		var fieldsOf map[string]json.RawMessage
		name, is := strings.CutPrefix(key, "k:")
		if !is || json.Unmarshal([]byte(name), &condition) != nil || json.Unmarshal(text, &fieldsOf) != nil {
			continue
		}
		if _, wrote := fieldsOf["f:expression"]; wrote {
			fields = append(fields, "matchConditions/"+condition.Name)
		}
	}
	return fields
}

// written is a field of an entry that somebody else has written since the entry was registered.
type written struct{ entry, field, by string }

// theirs returns what others have written since the registration, where an apply has the same value.
func theirs(apply, is configuration) (all []written) {
	for _, w := range apply.Webhooks {
		was := is.entry(w.Name)
		if was == nil {
			continue
		}
		wrote, ours, registered := is.writersOf(w.Name), fieldsOf(w), fieldsOf(*was)
		for _, field := range slices.Sorted(maps.Keys(wrote.of)) {
			if by := wrote.changedBy(field); by != "" && ours[field] != nil && reflect.DeepEqual(ours[field], registered[field]) {
				all = append(all, written{w.Name, field, by})
			}
		}
	}
	return all
}

// fieldsOf returns the values of an entry's fields, of each match condition by itself.
func fieldsOf(w Hook) (fields map[string]any) {
	text, _ := json.Marshal(w)
	_ = json.Unmarshal(text, &fields)
	for _, c := range w.MatchConditions {
		fields["matchConditions/"+c.Name] = map[string]any{"name": c.Name, "expression": c.Expression}
	}
	delete(fields, "matchConditions")
	return fields
}

// entryText returns an entry as it is sent: without the fields that stay others'.
func entryText(w Hook, leave []written) map[string]any {
	fields := fieldsOf(w)
	for _, one := range leave {
		if one.entry == w.Name {
			delete(fields, one.field)
		}
	}
	var conditions []any
	for _, c := range w.MatchConditions {
		key := "matchConditions/" + c.Name
		if condition, stays := fields[key]; stays {
			conditions = append(conditions, condition)
		}
		delete(fields, key)
	}
	if conditions != nil {
		fields["matchConditions"] = conditions
	}
	return fields
}
