package ledger

import "k8s.io/apimachinery/pkg/util/resourceversion"

// older tells whether resourceVersion a is before b. An empty one is before all; what is no number (of a store that is no etcd) is
// before nothing: then nobody is ever told that he is late.
func older(a, b string) bool {
	switch {
	case b == "" || a == b:
		return false
	case a == "":
		return true
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// newest is the later of two resourceVersions.
func newest(a, b string) string {
	if older(a, b) {
		return b
	}
	return a
}
