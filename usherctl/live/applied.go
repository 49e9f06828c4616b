// Package live reads what a cluster has that decides about requests, as far as a user may read it.
package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	applier "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/usherctl/discovery"
	"usher.dev/usher/usherctl/parallel"
	"usher.dev/usher/usherctl/requests"
)

// Object returns an object of JSON; an empty one if it is none.
func Object(raw []byte) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if json.Unmarshal(raw, &object.Object) != nil || object.Object == nil {
		object.Object = map[string]any{}
	}
	return object
}

// single is the number of documents up to which stored objects are read one at a time; of more, all of a kind in a namespace are.
const single = 100

// place is where a cluster may have objects of documents.
type place struct {
	schema.GroupVersionKind
	namespace string // also of kinds that are in none
}

// Applied returns documents as `kubectl apply` sends them in a namespace: those of which a cluster has the object are updates of it. What the
// cluster itself has printed, and nobody has changed, stays as it is. So do objects of controllers, which nobody applies.
func Applied(ctx context.Context, source reader.Source, documents []requests.Document, namespace string) []requests.Document {
	all, places, n := slices.Clone(documents), map[place][]*requests.Document{}, 0
	kinds := map[schema.GroupVersionKind]func() discovery.Resource{}
	for i, d := range all {
		is := Object(d.JSON)
		gvk := is.GroupVersionKind()
		if d.Err != nil || d.IsReview() || is.GetName() == "" || is.GetUID() != "" && metav1.GetControllerOf(is) != nil {
			continue
		}
		at := place{gvk, cmp.Or(is.GetNamespace(), namespace)}
		places[at], n = append(places[at], &all[i]), n+1
		if kinds[gvk] == nil {
			kinds[gvk] = sync.OnceValue(func() discovery.Resource { return discovery.ResourceOf(ctx, source, gvk) })
		}
	}
	var calls []func()
	for at, of := range places {
		together := 1
		if n > single {
			together = len(of)
		}
		for some := range slices.Chunk(of, together) {
			calls = append(calls, func() { at.read(ctx, source, kinds[at.GroupVersionKind](), some) })
		}
	}
	parallel.Run(calls...)
	return all
}

// read reads the stored objects of documents. What is not served is not stored.
func (p place) read(ctx context.Context, source reader.Source, is discovery.Resource, documents []*requests.Document) {
	kind, namespace, stored := reader.Kind{GroupVersionKind: p.GroupVersionKind, Resource: is.Name}, "", map[string]json.RawMessage{}
	if is.Namespaced {
		namespace = p.namespace
	}
	err := is.Err
	switch {
	case errors.Is(err, reader.ErrNotFound):
		return
	case err != nil:
	case len(documents) == 1:
		name := Object(documents[0].JSON).GetName()
		if stored[name], err = source.Get(ctx, kind, namespace, name); errors.Is(err, reader.ErrNotFound) {
			return
		}
	default:
		err = source.Each(ctx, kind, namespace, func(raw json.RawMessage) { stored[Object(raw).GetName()] = raw })
	}
	for _, d := range documents {
		switch raw, has := stored[Object(d.JSON).GetName()]; {
		case err != nil && len(documents) > 1 && is.Err == nil: // who may not list objects may get some
			p.read(ctx, source, is, []*requests.Document{d})
		case err != nil:
			d.OldErr = fmt.Errorf("whether it is stored: %w", err)
		case has:
			p.apply(d, raw, namespace)
		}
	}
}

// apply makes a document an update of a stored object.
func (p place) apply(d *requests.Document, raw []byte, namespace string) {
	stored, sent := Object(raw), Object(d.JSON)
	stored.SetGroupVersionKind(p.GroupVersionKind) // which lists do not have
	if sent.GetUID() != "" && (sent.GetUID() != stored.GetUID() || equality.Semantic.DeepEqual(asWritten(sent), asWritten(stored))) {
		return
	}
	stored.SetManagedFields(nil)
	sent.SetNamespace(namespace)
	old, err := stored.MarshalJSON()
	manifest, errSent := sent.MarshalJSON()
	if err = cmp.Or(err, errSent); err == nil {
		raw, err = merge3(p.GroupVersionKind, []byte(stored.GetAnnotations()[corev1.LastAppliedConfigAnnotation]), manifest, old)
	}
	if d.Old = old; err != nil {
		d.OldErr = fmt.Errorf("what `kubectl apply` makes of the stored object: %w", err)
		return
	}
	d.JSON = raw
}

// asWritten returns an object without what changes while nobody writes it.
func asWritten(object *unstructured.Unstructured) map[string]any {
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	object.SetResourceVersion("")
	object.SetGeneration(0)
	delete(object.Object, "status")
	return object.Object
}

// merge3 returns a stored object after `kubectl apply` of a manifest. last is the manifest that was applied before; empty: none was.
func merge3(gvk schema.GroupVersionKind, last, manifest, stored []byte) ([]byte, error) {
	typed, err := scheme.Scheme.New(gvk)
	if err != nil { // a custom resource
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(last, manifest, stored)
		if err != nil {
			return nil, err
		}
		return applier.MergePatch(stored, patch)
	}
	fields, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(last, manifest, stored, fields, true)
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergePatchUsingLookupPatchMeta(stored, patch, fields)
}
