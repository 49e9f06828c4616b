package suite

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/config"
)

// Mutate returns the chain of a list of mutators, each of which can ask only about the collections that it needs.
func Mutate[T any](e Env, view func(*document.Document) *T, list func(*config.Policy, admit.Questions) []admit.Mutator[T]) admit.Chain {
	return admit.PerStep(func(needs []string) admit.Chain {
		return admit.Mutate(view, list(e.Policy, e.Cluster.Reader(needs).Questions()))
	})
}

// Validate is like Mutate for a list of validators.
func Validate[T any](e Env, view func(*document.Document) *T, list func(*config.Policy, admit.Questions) []admit.Validator[T]) admit.Chain {
	return admit.PerStep(func(needs []string) admit.Chain {
		return admit.Validate(view, list(e.Policy, e.Cluster.Reader(needs).Questions()))
	})
}
