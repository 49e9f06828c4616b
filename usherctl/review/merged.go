package review

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"

	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// routine are the plug-ins that complete each object of a kind. What they add is left out of a difference.
var routine = []string{"ServiceAccount", "Priority", "DefaultTolerationSeconds", "TaintNodesByCondition", "StorageObjectInUseProtection"}

// Routine reports whether a plug-in completes each object of a kind.
func Routine(plugin string) bool { return slices.Contains(routine, plugin) }

// pluginsOf names what changed or refused a request, beside usher.
func pluginsOf(v engine.Verdict, documents bool) (all []report.Plugin) {
	for _, change := range v.Plugins {
		if slices.Contains(callers, change.Plugin) {
			continue
		}
		p := report.Plugin{Name: change.Plugin, Outcome: "changed", Round: change.Round + 1}
		if documents {
			p.Before, p.After = change.Before(), change.After()
		}
		all = append(all, p)
	}
	return append(all, refusing(v)...)
}

// refusing names the plug-in that refused a request, if it calls no webhooks.
func refusing(v engine.Verdict) []report.Plugin {
	if v.By == "" || slices.Contains(callers, v.By) {
		return nil
	}
	return []report.Plugin{{Name: v.By, Outcome: "refused", Message: v.Refusal.Message}}
}

// merged returns an object as it was sent, with what plug-ins and webhooks changed: defaults are no changes.
func merged(sent json.RawMessage, changes []engine.Change) json.RawMessage {
	for _, change := range changes {
		if !Routine(change.Plugin) {
			sent = Merge(sent, change.Before(), change.After())
		}
	}
	return sent
}

// Merge returns an object with the change from before to after of the same object in another form, such as with defaults.
func Merge(now, before, after json.RawMessage) json.RawMessage {
	is, err := requests.DecodeJSON(now)
	was, errBefore := requests.DecodeJSON(before)
	becomes, errAfter := requests.DecodeJSON(after)
	if cmp.Or(err, errBefore, errAfter) != nil {
		return now
	}
	text, err := json.Marshal(merge(is, was, becomes))
	if err != nil {
		return now
	}
	return text
}

// merge returns a value with the change from before to after.
func merge(now, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return now
	}
	switch is := after.(type) {
	case map[string]any:
		return mergeMaps(now, before, is)
	case []any:
		return mergeLists(now, before, is)
	}
	return after
}

func mergeMaps(now, before any, after map[string]any) any {
	old, _ := before.(map[string]any)
	has, _ := now.(map[string]any)
	made := map[string]any{}
	for key, value := range has {
		if _, was := old[key]; !was || after[key] != nil {
			made[key] = value
		}
	}
	for key, value := range after {
		if was, there := old[key]; !there || !reflect.DeepEqual(was, value) {
			made[key] = merge(has[key], was, value)
		}
	}
	return made
}

// mergeLists merges lists. Elements are the same at the same index, unless a change was left out; then if they have the same name, or are equal.
func mergeLists(now, before any, after []any) any {
	old, _ := before.([]any)
	has, _ := now.([]any)
	aligned := len(has) == len(old)
	made := []any{}
	for _, element := range after {
		at := indexIn(old, element)
		if at < 0 {
			made = append(made, element)
			continue
		}
		here := at
		if !aligned {
			here = indexIn(has, old[at])
		}
		if here >= 0 {
			made = append(made, merge(has[here], old[at], element))
		} else if !reflect.DeepEqual(old[at], element) {
			made = append(made, element)
		}
	}
	for _, element := range has {
		if !aligned && indexIn(old, element) < 0 && indexIn(after, element) < 0 {
			made = append(made, element)
		}
	}
	return made
}

// indexIn returns the index of an element in a list: of the one with its name, or else of an equal one.
func indexIn(list []any, element any) int {
	name := Identity(element)
	return slices.IndexFunc(list, func(other any) bool {
		if name != "" {
			return Identity(other) == name
		}
		return reflect.DeepEqual(other, element)
	})
}

// Identity returns the name of an element; with the path if it is a mount of the volume of that name.
func Identity(element any) string {
	fields, _ := element.(map[string]any)
	name, _ := fields["name"].(string)
	path, _ := fields["mountPath"].(string)
	return name + path
}
