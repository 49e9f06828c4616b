package review

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	applier "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/usherctl/discovery"
	"usher.dev/usher/usherctl/parallel"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// single is the number of documents up to which stored objects are read one at a time; of more, all of a kind in a namespace are.
const single = 100

// place is where a cluster may have objects of documents.
type place struct {
	schema.GroupVersionKind
	namespace string // also of kinds that are in none
}

// applied returns documents as `kubectl apply` sends them: those of which a cluster has the object are updates of it.
func (r *reviewing) applied(ctx context.Context, source reader.Source, documents []requests.Document) []requests.Document {
	all, places, n := slices.Clone(documents), map[place][]*requests.Document{}, 0
	kinds := map[schema.GroupVersionKind]func() discovery.Resource{}
	for i, d := range all {
		is := objectOf(d.JSON)
		gvk := is.GroupVersionKind()
		if d.Err != nil || d.Existing || d.IsReview() || is.GetName() == "" {
			continue
		}
		at := place{gvk, cmp.Or(is.GetNamespace(), r.o.Namespace)}
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
		name := objectOf(documents[0].JSON).GetName()
		if stored[name], err = source.Get(ctx, kind, namespace, name); errors.Is(err, reader.ErrNotFound) {
			return
		}
	default:
		err = source.Each(ctx, kind, namespace, func(raw json.RawMessage) { stored[objectOf(raw).GetName()] = raw })
	}
	for _, d := range documents {
		switch raw, has := stored[objectOf(d.JSON).GetName()]; {
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
	stored, sent := objectOf(raw), objectOf(d.JSON)
	stored.SetGroupVersionKind(p.GroupVersionKind) // which lists do not have
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

// doubtStored notes in a report what is not known of the stored object. Pods that replace others may find a quota that these leave.
func doubtStored(r *report.Report, d requests.Document) {
	ofQuota := func(p report.Plugin) bool { return p.Name == "ResourceQuota" && p.Outcome == "refused" }
	why := ""
	switch file := d.File(); {
	case file.OldErr != nil:
		why = printable.Line(file.OldErr.Error())
	case len(file.Old) > 0 && r.Operation == string(admissionv1.Create) && slices.ContainsFunc(r.Plugins, ofQuota):
		why = "whether the quota has room when the pods that the update replaces are gone"
	default:
		return
	}
	if r.Unjudged = append(r.Unjudged, why); r.Verdict != report.Errored && (d.Of == "" || r.Verdict != report.Denied) {
		r.Verdict = report.NotJudged
	}
}
