package admit

import "slices"

// CollectionNamespaces is the collection of all namespaces, for Needs: their labels, and whether they are being deleted. It is here because steps of
// every suite may ask about it.
const CollectionNamespaces = "namespaces"

// Needs are the collections that the chain's steps need, each once, in the order of the steps. The mode of a step does not matter: it may
// change while usher runs.
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

// PerStep makes the chain that of makes, but each step with a call of its own, which gets the collections that the step needs: so of can
// give the step answers about them, and about no others. The steps that of makes must always be the same.
func PerStep(of func(needs []string) Chain) Chain {
	c := of(nil)
	for i, s := range c.steps {
		c.steps[i] = of(s.Needs).steps[i]
	}
	return c
}
