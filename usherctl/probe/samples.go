package probe

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/requests"
)

//go:embed samples.yaml
var shipped []byte

// Shipped returns the objects that are sent if there are no others.
func Shipped() []requests.Document { return requests.Read("samples", bytes.NewReader(shipped)) }

// maxSamples bounds the objects that are sent of those that are shipped.
const maxSamples = 2

// addSamples adds to a webhook the requests for which the API server calls it, by its own code: of the given objects all, and of those that are
// shipped the first.
// Others, mutating ones, change an object before a validating one gets it.
func (c *registered) addSamples(ctx context.Context, given []requests.Document, dryRun bool, others ...*registered) error {
	plain, err := engine.New(ctx, engine.Cluster{Objects: c.cluster(given)})
	if err != nil {
		return err
	}
	c.close = plain.Close
	objects := append(c.cluster(given), c.configuration)
	for i, h := range others {
		if h.Mutates && !c.Mutates {
			configuration := h.configuration.DeepCopy()
			configuration.SetName(fmt.Sprintf("probe-before-%d", i)) // each has one webhook of an object
			objects = append(objects, configuration)
		}
	}
	calling, err := engine.New(ctx, engine.Cluster{Objects: objects, Webhook: c.after(others)})
	if err != nil {
		return err
	}
	defer calling.Close()
	for _, d := range given {
		if isDefinition(d) {
			continue
		}
		if s, called := c.sampleOf(ctx, calling, plain, d, dryRun); called {
			c.Samples = append(c.Samples, s)
		} else {
			c.uncalled = append(c.uncalled, d.Source)
		}
	}
	most := maxSamples
	if c.Configuration == "" {
		most = 1 // nothing says that it is called for others than Pods
	}
	for _, d := range Shipped() {
		if len(c.Samples) >= most || len(given) > 0 && c.Configuration == "" {
			break
		}
		d.JSON = labelled(d.JSON, c.objects)
		if s, called := c.sampleOf(ctx, calling, plain, d, dryRun); called {
			c.Samples = append(c.Samples, s)
		}
	}
	return nil
}

// cluster returns the objects on which the decision depends: namespaces that the selectors choose, and the definitions of custom resources
// among the given documents.
func (c *registered) cluster(given []requests.Document) []*unstructured.Unstructured {
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	namespace.SetName("default")
	namespace.SetLabels(chosen(c.namespaces))
	limits := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "LimitRange",
		"metadata": map[string]any{"name": "defaults", "namespace": "default"},
		"spec": map[string]any{"limits": []any{map[string]any{"type": "Container",
			"default": map[string]any{"ephemeral-storage": "1Gi"}, "defaultRequest": map[string]any{"ephemeral-storage": "64Mi"}}}}}}
	all := []*unstructured.Unstructured{namespace, limits}
	known := map[string]bool{"default": true, "": true}
	for _, d := range given {
		object := &unstructured.Unstructured{}
		if json.Unmarshal(d.JSON, &object.Object) != nil {
			continue
		}
		if isDefinition(d) {
			all = append(all, object)
		}
		if in := object.GetNamespace(); !known[in] {
			known[in] = true
			other := namespace.DeepCopy()
			other.SetName(in)
			all = append(all, other)
		}
	}
	return all
}

// chosen returns labels that a selector chooses, as far as labels can do it.
func chosen(s *metav1.LabelSelector) map[string]string {
	all := map[string]string{}
	if s == nil {
		return all
	}
	for key, value := range s.MatchLabels {
		all[key] = value
	}
	for _, e := range s.MatchExpressions {
		switch {
		case e.Operator == metav1.LabelSelectorOpIn && len(e.Values) > 0:
			all[e.Key] = e.Values[0]
		case e.Operator == metav1.LabelSelectorOpExists:
			all[e.Key] = "true"
		}
	}
	return all
}

// sampleOf returns the request with an object for which the webhook is called, and its updates for which it is.
func (c *registered) sampleOf(ctx context.Context, calling, plain *engine.Engine, d requests.Document, dryRun bool) (s Sample, called bool) {
	var object unstructured.Unstructured
	if d.Err != nil || utiljson.Unmarshal(d.JSON, &object.Object) != nil || object.GetKind() == "" {
		return Sample{}, false
	}
	for _, change := range changesOf(ctx, plain, object) {
		if called && change.operation == admissionv1.Delete {
			break
		}
		request := change.request(object)
		request.DryRun = dryRun
		one, is := c.asked(ctx, calling, plain, request, fmt.Sprintf("%s %s %s", change.what, article(object.GetKind()), object.GetName()))
		if is && change.operation == admissionv1.Update {
			c.Updates = append(c.Updates, one)
		}
		if is && !called {
			s, called = one, true
		}
	}
	if called {
		c.missStatus(object)
	}
	return s, called
}

// asked returns the review that the webhook gets for a request.
func (c *registered) asked(ctx context.Context, calling, plain *engine.Engine, request engine.Request, source string) (Sample, bool) {
	for _, call := range calling.Judge(ctx, request).Calls {
		review, err := ReadReview(call.Review)
		if call.Name != c.Name && !c.unregistered || call.Mutates != c.Mutates || err != nil {
			continue
		}
		return Sample{Source: source, Review: review.without("managedFields"), Judge: judged(plain, request)}, true
	}
	return Sample{}, false
}

// after returns the answers of mutating webhooks. One without an answer that allows changes nothing, and that is noted.
func (c *registered) after(others []*registered) engine.Webhook {
	return func(ctx context.Context, called engine.Registered, review []byte) (engine.Answer, error) {
		for _, h := range others {
			if h.Name != called.Name || !called.Mutates || c.Mutates {
				continue
			}
			x := h.Ask(ctx, review)
			if a := x.read(); a != nil && a.Review.Response.Allowed {
				return engine.Answer{Code: x.Code, Body: x.Answer}, nil
			}
			if note := fmt.Sprintf("sends what %s has not changed before: %s", h.Name, x.Outcome()); !slices.Contains(c.notes, note) {
				c.notes = append(c.notes, note)
			}
			break
		}
		return engine.Answer{}, engine.ErrNoAnswer
	}
}

// change is a request for an object, with nil for what there is not.
type change struct {
	operation         admissionv1.Operation
	what, subresource string
	now, old          *unstructured.Unstructured
}

// request returns what the API server is asked for.
func (c change) request(object unstructured.Unstructured) engine.Request {
	r := engine.Request{Operation: c.operation, SubResource: c.subresource, Kind: object.GroupVersionKind(), Name: object.GetName(),
		Namespace: object.GetNamespace(), User: "probe@example.com", Groups: []string{"system:authenticated"},
		New: c.operation == admissionv1.Create, Object: encoded(c.now), Old: encoded(c.old)}
	if object.GetKind() == "Node" {
		r.User, r.Groups = "system:node:"+object.GetName(), append(r.Groups, "system:nodes")
	}
	return r
}

// changesOf returns the requests for an object: the first for which the webhook is called is the sample, and the test update sends the updates.
func changesOf(ctx context.Context, plain *engine.Engine, object unstructured.Unstructured) []change {
	ended, bare := object.DeepCopy(), object.DeepCopy()
	since := metav1.Unix(1_700_000_000, 0)
	ended.SetDeletionTimestamp(&since)
	ended.SetFinalizers([]string{"probe.example.com/b"})
	held := ended.DeepCopy()
	held.SetFinalizers([]string{"probe.example.com/a", "probe.example.com/b"})
	delete(bare.Object, "status")
	return []change{
		{admissionv1.Create, "the creation of", "", &object, nil},
		updateOf(ctx, plain, object),
		{admissionv1.Update, "an update without a change of", "", &object, &object},
		{admissionv1.Update, "an update, while it is deleted, of", "", ended, held},
		{admissionv1.Update, "an update of the status of", "status", &object, bare},
		{admissionv1.Delete, "the deletion of", "", nil, &object},
	}
}

// updateOf returns an update of the first field that the API server lets one change. If there is none, it adds an annotation.
func updateOf(ctx context.Context, plain *engine.Engine, object unstructured.Unstructured) change {
	update := change{operation: admissionv1.Update, now: object.DeepCopy(), old: &object}
	unchanged := plain.Judge(ctx, update.request(object)).Object
	if alter("", update.now.Object, nil, func(field string) bool {
		update.what = "an update of " + strings.TrimPrefix(field, ".") + " of"
		v := plain.Judge(ctx, update.request(object))
		return v.Allowed() && !bytes.Equal(v.Object, unchanged)
	}) {
		return update
	}
	update.what = "an update with an annotation of"
	update.now.SetAnnotations(labels.Merge(object.GetAnnotations(), map[string]string{"probe.example.com/changed": "true"}))
	return update
}

// alter changes the fields of a value by its path, one at a time, until a change is good. Names, metadata and status of an object stay.
func alter(path string, value any, set func(any), good func(path string) bool) bool {
	switch v := value.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Sorted(maps.Keys(v)), func(key string) bool {
			stays := path == "" && slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, key)
			return !stays && alter(path+"."+key, v[key], func(now any) { v[key] = now }, good)
		})
	case []any:
		for i := range v {
			if alter(fmt.Sprintf("%s[%d]", path, i), v[i], func(now any) { v[i] = now }, good) {
				return true
			}
		}
		return false
	case int64:
		set(v + 1)
	case bool:
		set(!v)
	case string:
		set(v + "-probe")
	}
	if good(path) {
		return true
	}
	set(value)
	return false
}

// missStatus says that the status of an object is in none of its updates.
func (c *registered) missStatus(object unstructured.Unstructured) {
	if status, is := object.Object["status"].(map[string]any); !is || len(status) == 0 {
		return
	}
	for _, s := range c.Updates {
		if is := (unstructured.Unstructured{Object: s.Review.object()}); is.GetName() == object.GetName() && is.GetKind() == object.GetKind() {
			return // the API server keeps the status of what is updated
		}
	}
	c.notes = append(c.notes, fmt.Sprintf("does not send the status of %s %s: no rule names its updates", article(object.GetKind()), object.GetName()))
}

// labelled returns an object with the labels that a selector asks for.
func labelled(raw json.RawMessage, s *metav1.LabelSelector) json.RawMessage {
	var object unstructured.Unstructured
	if json.Unmarshal(raw, &object.Object) != nil || s == nil {
		return raw
	}
	object.SetLabels(labels.Merge(object.GetLabels(), chosen(s)))
	return encoded(&object)
}

func encoded(object *unstructured.Unstructured) []byte {
	if object == nil {
		return nil
	}
	raw, err := object.MarshalJSON()
	if err != nil {
		panic(err) // it was read from JSON
	}
	return raw
}

func article(kind string) string {
	if strings.ContainsAny(kind[:1], "AEIOU") {
		return "an " + kind
	}
	return "a " + kind
}

// judged returns the API server's judgement of the object of a request in another form.
func judged(plain *engine.Engine, request engine.Request) func(context.Context, map[string]any) (map[string]any, string, string) {
	return func(ctx context.Context, object map[string]any) (stored map[string]any, refused, unknown string) {
		changed := request
		changed.Object = Review(object).JSON()
		if request.Operation == admissionv1.Delete {
			return nil, "", "a deletion has no object"
		}
		verdict := plain.Judge(ctx, changed)
		if !verdict.Allowed() {
			return nil, verdict.Refusal.Message, ""
		}
		_ = utiljson.Unmarshal(verdict.Object, &stored)
		return stored, "", strings.Join(verdict.Unjudged, "; ")
	}
}

// checkGiven returns an error for a document that cannot be sent.
func checkGiven(given []requests.Document) error {
	for _, d := range given {
		if d.Err != nil {
			return fmt.Errorf("--sample %w", d.Err)
		}
		if d.IsReview() {
			return fmt.Errorf("--sample %s: pass the manifest of an object, not an AdmissionReview: its review is made as the API server makes it", d.Source)
		}
	}
	return nil
}

func isDefinition(d requests.Document) bool {
	var of metav1.TypeMeta
	return json.Unmarshal(d.JSON, &of) == nil && of.Kind == "CustomResourceDefinition"
}
