package review

import (
	"encoding/json"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/usherctl/requests"
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
func (c Choice) arrivalOf(req *admit.Request, d requests.Document) (a arrival, err error) {
	a.manifest = !d.IsReview()
	a.created = a.manifest && req.Operation == admissionv1.Create && req.SubResource == ""
	if a.manifest {
		a.unfilled = requests.Unfilled(req.Kind)
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
	return requests.EditObject(body, func(object *document.Document) {
		if object.Root().Get("kind").Text() == podKind.Kind {
			workload.FillResources(admit.AsPod(object), a.ranges)
		}
	})
}

// unclear returns an error if what the LimitRanges give a pod depends on their order: that of the API server is not defined.
func (a arrival) unclear(object json.RawMessage) error {
	spec := func(ranges []*corev1.LimitRange) (pod corev1.Pod) {
		if requests.Decode(requests.EditJSON(object, func(d *document.Document) { workload.FillResources(admit.AsPod(d), ranges) }), &pod) != nil {
			return corev1.Pod{} // it is refused as it is
		}
		return pod
	}
	another := slices.Clone(a.ranges)
	slices.Reverse(another)
	if equality.Semantic.DeepEqual(spec(a.ranges).Spec, spec(another).Spec) {
		return nil
	}
	return fmt.Errorf("several LimitRanges of the Namespace %s have different defaults, and the API server may apply them in any order",
		a.ranges[0].Namespace)
}

// atValidating returns a review as validating webhooks get it: with all fields that an API server fills in, and with a name.
func (a arrival) atValidating(body []byte) []byte {
	if !a.manifest {
		return body
	}
	if body = requests.WithDefaults(body); !a.created {
		return body
	}
	return withName(body)
}

// withName returns a review whose object, if it has no name, has one from its generateName; the request has it, too.
func withName(body []byte) []byte {
	name := ""
	with := requests.EditObject(body, func(object *document.Document) {
		if meta := admit.AsMeta(object); meta.Name() == "" {
			workload.FillName(*meta)
			name = meta.Name()
		}
	})
	text, err := json.Marshal(name)
	if err != nil || name == "" {
		return body
	}
	if with, err = requests.WithMember(with, "name", text); err != nil {
		return body
	}
	return with
}
