package admit

import "slices"

// CollectionNamespaces is the collection of all namespaces, for Needs: their labels, and whether they are being
// deleted. It is declared here because steps of every suite may read it.
const CollectionNamespaces = "namespaces"

// Needs returns the collections that the chain's steps need, without duplicates, in the order of the steps. It does not
// depend on the modes of the steps, which may change while usher runs.
func (c Chain) Needs() (all []string) {
	for _, s := range c.steps {
		for _, name := range s.Needs {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// PerStep builds each step of a chain by a separate call of build, with the collections that the step needs, so that
// the step can be given access to these and no others. build must return the same steps on every call.
func PerStep(build func(needs []string) Chain) Chain {
	c := build(nil)
	for i, s := range c.steps {
		c.steps[i] = build(s.Needs).steps[i]
	}
	return c
}
