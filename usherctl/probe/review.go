package probe

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Review is an AdmissionReview as any JSON, so that a test can send what no Go type holds.
type Review map[string]any

// ReadReview reads an AdmissionReview.
func ReadReview(body []byte) (r Review, err error) {
	err = utiljson.Unmarshal(body, &r)
	return r, err
}

// JSON returns the review as it is sent.
func (r Review) JSON() []byte {
	body, err := json.Marshal(r)
	if err != nil {
		panic(err) // it was read from JSON
	}
	return body
}

func (r Review) request() map[string]any {
	request, _ := r["request"].(map[string]any)
	return request
}

// with returns a copy that a function has changed.
func (r Review) with(change func(request map[string]any)) Review {
	c := Review(runtime.DeepCopyJSON(r))
	change(c.request())
	return c
}

// object returns the object, or the old one where there is no object.
func (r Review) object() map[string]any {
	object, _ := r.request()["object"].(map[string]any)
	return object
}

// withObject returns a copy whose object a function has changed.
func (r Review) withObject(change func(object map[string]any)) Review {
	return r.with(func(request map[string]any) {
		if object, is := request["object"].(map[string]any); is {
			change(object)
		}
	})
}

// without returns a copy without some fields of the metadata.
func (r Review) without(keys ...string) Review {
	return r.withObject(func(object map[string]any) {
		for _, key := range keys {
			delete(at(object, "metadata"), key)
		}
	})
}

// named returns the creation of the object under another name, and other requests as they are.
func (r Review) named(name string) Review {
	if text(r.request(), "operation") != "CREATE" {
		return r
	}
	return r.with(func(q map[string]any) { q["name"] = name }).withObject(func(object map[string]any) { at(object, "metadata")["name"] = name })
}

// mayShareName reports whether two creations may be of one name that they have from the tests.
func mayShareName(a, b Review) bool {
	one, other := a.request(), b.request()
	return reflect.DeepEqual(one["kind"], other["kind"]) && one["namespace"] == other["namespace"] && one["operation"] == "CREATE" &&
		other["operation"] == "CREATE" && strings.HasPrefix(text(one, "name"), fresh) && strings.HasPrefix(text(other, "name"), fresh)
}

// at returns the object at some keys, which are made if they are missing.
func at(object map[string]any, keys ...string) map[string]any {
	for _, key := range keys {
		below, is := object[key].(map[string]any)
		if !is {
			below = map[string]any{}
			object[key] = below
		}
		object = below
	}
	return object
}

// containers returns the containers of a pod, or of the pod template of a workload, with the object that has them.
func containers(object map[string]any) (spec map[string]any, all []any) {
	spec, _ = object["spec"].(map[string]any)
	if template, is := spec["template"].(map[string]any); is {
		spec, _ = template["spec"].(map[string]any)
	}
	all, _ = spec["containers"].([]any)
	return spec, all
}

func text(of map[string]any, key string) string {
	s, _ := of[key].(string)
	return s
}
