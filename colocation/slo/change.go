package slo

import "usher.dev/usher/document"

// Keys are the data keys that are checked, in the order in which problems are told.
func Keys() []string {
	keys := make([]string, len(tables))
	for i := range tables {
		keys[i] = tables[i].key
	}
	return keys
}

// Changed tells of two versions of a ConfigMap's data which keys hold another configuration. How the JSON is laid out, and in
// which order its members stand, makes no difference. old is nil if there is no older version. A key that was removed did not
// change: there is nothing to check.
func Changed(old, data map[string]string) func(key string) bool {
	changed := map[string]bool{}
	for i := range tables {
		key := tables[i].key
		changed[key] = data[key] != "" && (old == nil || !document.SameText(old[key], data[key]))
	}
	return func(key string) bool { return changed[key] }
}
