package slo

import "usher.dev/usher/admit/document"

// Keys returns the data keys that are checked, in the order in which problems are reported.
func Keys() []string {
	keys := make([]string, len(tables))
	for i := range tables {
		keys[i] = tables[i].key
	}
	return keys
}

// Changed returns the keys whose configuration differs between two versions of a ConfigMap's data. The layout of the
// JSON and the order of its members make no difference. old is nil if there is no previous version. A removed key has
// not changed: there is nothing to check.
func Changed(old, data map[string]string) func(key string) bool {
	changed := map[string]bool{}
	for i := range tables {
		key := tables[i].key
		changed[key] = data[key] != "" && (old == nil || !document.SameText(old[key], data[key]))
	}
	return func(key string) bool { return changed[key] }
}
