package suite

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/cluster"
	"usher.dev/usher/config"
)

// Deps holds the dependencies of a suite's chains. Cluster is nil while routes are only listed.
type Deps struct {
	Policy  *config.Policy
	Cluster *cluster.Cluster
}

// Mutate returns the chain of a list of mutators, each of which can ask only about the collections that it needs.
func Mutate[T any](d Deps, view func(*document.Document) *T, list func(*config.Policy, admit.Questions) []admit.Mutator[T]) admit.Chain {
	return admit.PerStep(func(needs []string) admit.Chain {
		return admit.Mutate(view, list(d.Policy, d.Cluster.Reader(needs).Questions()))
	})
}

// Validate is like Mutate for a list of validators.
func Validate[T any](d Deps, view func(*document.Document) *T, list func(*config.Policy, admit.Questions) []admit.Validator[T]) admit.Chain {
	return admit.PerStep(func(needs []string) admit.Chain {
		return admit.Validate(view, list(d.Policy, d.Cluster.Reader(needs).Questions()))
	})
}
