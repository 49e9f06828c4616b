package review

import (
	"fmt"
	"slices"

	"usher.dev/usher/admit"
)

// MissingRecorder records the objects that steps ask for and that are not known here, for suite.Source.Missing and Choice.TakeUnknown.
type MissingRecorder struct {
	// Remedy says how to make a Namespace known: it follows the Namespace's name.
	Remedy string
	what   []string
}

// Missing records that a step has asked for an object that is in none of the files.
func (m *MissingRecorder) Missing(collection, key string) {
	what := fmt.Sprintf("the %s %s", collection, key)
	if collection == admit.CollectionNamespaces {
		what = fmt.Sprintf("the Namespace %s%s", key, m.Remedy)
	}
	if !slices.Contains(m.what, what) {
		m.what = append(m.what, what)
	}
}

// TakeUnknown returns and clears the recorded requests.
func (m *MissingRecorder) TakeUnknown() []string {
	what := m.what
	m.what = nil
	return what
}
