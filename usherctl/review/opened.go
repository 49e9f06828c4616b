package review

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/internal/printable"
	"usher.dev/usher/usherctl/requests"
)

// servers are API servers of the files: one, or with --doctor one for each set of routes that are registered for a request.
type servers struct {
	run       *reviewing
	documents []requests.Document
	opened    map[string]*API
}

func (r *reviewing) servers(documents []requests.Document) servers {
	return servers{r, documents, map[string]*API{}}
}

// of returns the API server for a review.
func (s servers) of(ctx context.Context, chooser Chooser, d requests.Document, body []byte) (*API, error) {
	c, key := Cluster{Routes: s.run.routes, Path: s.run.o.path, All: s.run.o.allRoutes, Labels: s.run.o.namespaceLabels}, ""
	existing := d.Existing || d.KeepsSpec()
	if existing {
		key = "existing "
	}
	if s.run.o.doctor && c.Path == "" && !c.All {
		chooser.Routes = s.run.routes
		choice, err := chooser.Choose(body)
		if err != nil {
			return nil, err
		}
		c.Routes, c.All = choice.Routes, true
		for _, route := range c.Routes {
			key += route.Path
		}
	}
	if a := s.opened[key]; a != nil {
		return a, nil
	}
	a, err := s.open(ctx, c, existing)
	if err != nil {
		return nil, err
	}
	s.opened[key] = a
	return a, nil
}

// quotaKind is the kind of ResourceQuotas.
var quotaKind = schema.GroupVersionKind{Version: "v1", Kind: quotaPlugin}

// inOrder reports whether documents are reviewed one after the other, as a ResourceQuota counts them.
func (s servers) inOrder() bool {
	is := func(o *unstructured.Unstructured) bool { return o.GroupVersionKind() == quotaKind }
	return slices.ContainsFunc(s.documents, func(d requests.Document) bool { return !d.File().Existing }) &&
		slices.ContainsFunc(slices.Concat(s.run.files, Objects(s.run.given)), is)
}

// open returns an API server, for objects that exist one without ResourceQuotas: these count them already.
func (s servers) open(ctx context.Context, c Cluster, existing bool) (*API, error) {
	c.Objects = slices.Concat(requests.Presupposed(s.documents), s.run.files)
	var given []*unstructured.Unstructured
	for _, o := range s.run.given {
		if o.File != assumedNamespace { // which is assumed
			given = append(given, objectOf(o.JSON))
		}
	}
	all := slices.Concat(given, c.Objects)
	for _, object := range given {
		if Decides(object.GroupVersionKind(), all) {
			c.Objects = append(c.Objects, object)
		}
	}
	if existing {
		c.Objects = slices.DeleteFunc(c.Objects, func(o *unstructured.Unstructured) bool {
			return o.GroupVersionKind() == quotaKind
		})
	}
	if c.Registered = s.run.live != nil && c.Path == "" && !c.All; s.run.live != nil {
		c.Absent = s.run.live.absent
	}
	if !s.run.o.doctor && len(s.opened) == 0 {
		for _, line := range unasked(s.run.o.answers, c.Objects) {
			_, _ = fmt.Fprintf(s.run.Err, "warning: --answers: %s\n", line)
		}
	}
	a, err := c.Open(ctx, s.documents, s.run.o.Options)
	if err != nil {
		return nil, err
	}
	for _, err := range a.LeftOut {
		_, _ = fmt.Fprintf(s.run.Err, "warning: counts as absent: %s\n", printable.Line(strings.TrimSpace(err.Error())))
	}
	return a, nil
}
