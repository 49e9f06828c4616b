package admit

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// CollectionNamespaces is the collection of all namespaces, for Needs: their labels, and whether they are being
// deleted. It is declared here because steps of every suite may read it.
const CollectionNamespaces = "namespaces"

// CollectionLimitRanges is the collection of all LimitRanges, for Needs.
const CollectionLimitRanges = "limitranges"

// Namespace holds what steps know of a Namespace.
type Namespace struct {
	// Labels and Annotations come from its metadata, without the last configuration that kubectl applied.
	Labels, Annotations map[string]string
	// Deleting reports whether it is being deleted.
	Deleting bool
}

// Questions holds the questions that steps of the core suite may ask about the cluster. A step names the collection of
// a question in Needs. An error is never the user's fault; it wraps ErrNotReady if a later question may succeed.
type Questions struct {
	// Namespace returns a Namespace. known is false only if the cluster is read from files, which may lack it: the API
	// server admits nothing into a missing namespace. It needs CollectionNamespaces.
	Namespace func(name string) (is Namespace, known bool, err error)
	// LimitRanges returns the LimitRanges of a namespace. It needs CollectionLimitRanges.
	LimitRanges func(namespace string) ([]*corev1.LimitRange, error)
}

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

// PerStep builds each step of a chain by a call of build with the collections that the step needs, so that it can be given access to these
// and no others. Steps with the same needs come from one call: it compiles their sections of the policy. build must return the same steps
// on every call.
func PerStep(build func(needs []string) Chain) Chain {
	c := build(nil)
	built := map[string]Chain{}
	for i, s := range c.steps {
		needs := strings.Join(s.Needs, ",")
		of, found := built[needs]
		if !found {
			of = build(s.Needs)
			built[needs] = of
		}
		c.steps[i] = of.steps[i]
	}
	return c
}

// NamespaceOf returns the Namespace of a request. If the cluster is read from files and lacks it, it counts as a
// namespace without labels and annotations, and the step's explanation says so.
func (q Questions) NamespaceOf(req *Request) (Namespace, error) {
	is, known, err := q.Namespace(req.Namespace)
	if err == nil && !known {
		req.Explain("the namespace %s is not known here: it counts as one without labels and annotations", req.Namespace)
	}
	return is, err
}

// LabelsOfNamespace returns a function that returns the labels of the request's namespace. It asks at most once, when it
// is first called.
func (q Questions) LabelsOfNamespace(req *Request) func() (map[string]string, error) {
	var known *Namespace
	return func() (map[string]string, error) {
		if known == nil {
			is, err := q.NamespaceOf(req)
			if err != nil {
				return nil, err
			}
			known = &is
		}
		return known.Labels, nil
	}
}
