package review

import (
	"fmt"
	"slices"

	"usher.dev/usher/admit"
)

// Asked collects what steps ask for that is not known here, for suite.Source.Missing and Choice.Unknown.
type Asked struct {
	// Remedy says how to make a Namespace known: it follows the Namespace's name.
	Remedy string
	what   []string
}

// Missing records that a step has asked for an object that is in none of the files.
func (a *Asked) Missing(collection, key string) {
	what := fmt.Sprintf("the %s %s", collection, key)
	if collection == admit.CollectionNamespaces {
		what = fmt.Sprintf("the Namespace %s%s", key, a.Remedy)
	}
	if !slices.Contains(a.what, what) {
		a.what = append(a.what, what)
	}
}

// Unknown returns what has been asked for since the last call.
func (a *Asked) Unknown() []string {
	what := a.what
	a.what = nil
	return what
}
