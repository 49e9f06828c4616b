package review

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/validators/workload"
)

// arrival is how the object of a manifest reaches webhooks: with what an API server fills in before it calls them. The object of an
// AdmissionReview has that already.
type arrival struct {
	manifest, created bool
	ranges            []*corev1.LimitRange // of its namespace, if it is a new pod or PersistentVolumeClaim
	unfilled          string               // which defaults of its kind are not known here, for checks; empty: none
}

var (
	podKind   = corev1.SchemeGroupVersion.WithKind("Pod")
	claimKind = corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
)

// arrivalOf returns how the object of a request arrives. The error says why that is not known: LimitRanges cannot be read, or
// contradict each other.
func (c Choice) arrivalOf(req *admit.Request, d Document) (a arrival, err error) {
	a.manifest = !d.IsReview()
	a.created = a.manifest && req.Operation == admissionv1.Create && req.SubResource == ""
	if a.manifest {
		a.unfilled = unfilled(req.Kind)
	}
	kind := schema.GroupVersionKind(req.Kind)
	if a.created && (kind == podKind || kind == claimKind) && c.LimitRanges != nil {
		a.ranges, err = c.LimitRanges(req.Namespace)
	}
	if err == nil && kind == podKind && len(a.ranges) > 1 {
		err = a.unclear(req.Object.Bytes())
	}
	return a, err
}

// atMutating returns a review as mutating webhooks get it: a new pod has the requests and limits that LimitRanges give it.
func (a arrival) atMutating(body []byte) []byte {
	if len(a.ranges) == 0 {
		return body
	}
	return editObject(body, func(object *document.Document) {
		if object.Root().Get("kind").Text() == podKind.Kind {
			workload.FillResources(admit.AsPod(object), a.ranges)
		}
	})
}

// unclear returns an error if what the LimitRanges give a pod depends on their order: that of the API server is not defined.
func (a arrival) unclear(object json.RawMessage) error {
	spec := func(ranges []*corev1.LimitRange) (pod corev1.Pod) {
		if decode(editJSON(object, func(d *document.Document) { workload.FillResources(admit.AsPod(d), ranges) }), &pod) != nil {
			return corev1.Pod{} // it is refused as it is
		}
		return pod
	}
	another := slices.Clone(a.ranges)
	slices.Reverse(another)
	if equality.Semantic.DeepEqual(spec(a.ranges).Spec, spec(another).Spec) {
		return nil
	}
	return fmt.Errorf("several LimitRanges of the Namespace %s have different defaults, and the API server may apply them in any order", a.ranges[0].Namespace)
}

// atValidating returns a review as validating webhooks get it: with all fields that an API server fills in, and with a name.
func (a arrival) atValidating(body []byte) []byte {
	if !a.manifest {
		return body
	}
	if body = withDefaults(body); !a.created {
		return body
	}
	return withName(body)
}

// withName returns a review whose object, if it has no name, has one from its generateName; the request has it, too.
func withName(body []byte) []byte {
	name := ""
	with := editObject(body, func(object *document.Document) {
		if meta := admit.AsMeta(object); meta.Name() == "" {
			workload.FillName(*meta)
			name = meta.Name()
		}
	})
	text, err := json.Marshal(name)
	if err != nil || name == "" {
		return body
	}
	if with, err = withMember(with, "name", text); err != nil {
		return body
	}
	return with
}

// editObject returns a review with its object edited, or unchanged if the object cannot be read or edited.
func editObject(body []byte, edit func(*document.Document)) []byte {
	before := objectIn(body)
	after := editJSON(before, edit)
	if bytes.Equal(before, after) {
		return body
	}
	with, err := WithObject(body, after)
	if err != nil {
		return body
	}
	return with
}

// editJSON returns an object edited, or unchanged if it cannot be read or edited.
func editJSON(raw json.RawMessage, edit func(*document.Document)) json.RawMessage {
	object, err := document.Parse(raw)
	if err != nil {
		return raw
	}
	if edit(object); object.Err() != nil {
		return raw
	}
	return bytes.Clone(object.Bytes())
}

// objectIn returns the object of a review, or nil if the review cannot be read.
func objectIn(body []byte) json.RawMessage {
	var review struct {
		Request struct{ Object json.RawMessage }
	}
	if json.Unmarshal(body, &review) != nil {
		return nil
	}
	return review.Request.Object
}
