package requests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/validators/workload"
)

// podsOf returns the pods that controllers would make of the templates of an object: at most one for each template, as all pods of a template
// are alike except for their names. extra are paths of templates in kinds that Kubernetes does not know. Nil: it has no template.
func podsOf(d Document, object *unstructured.Unstructured, extra []string) (pods []Document) {
	if kind, found := admit.WorkloadKindOf(object.GroupVersionKind().GroupKind()); found {
		return podAt(d, object, kind.Template, kind.Controller, func(of *document.Document) *document.Document {
			return workload.Pod(kind, of)
		})
	}
	for _, path := range extra {
		template := strings.Split(path, ".")
		pods = append(pods, podAt(d, object, template, "", func(of *document.Document) *document.Document {
			return workload.Pod(admit.WorkloadKind{Template: template}, of)
		})...)
	}
	return pods
}

// CheckTemplates returns an error that names the paths of templates at which no custom resource has anything. What cannot be read may have it.
func CheckTemplates(documents []Document, paths []string) error {
	var problems []error
	for _, path := range paths {
		if !slices.ContainsFunc(documents, func(d Document) bool {
			return d.Err != nil || customAt(d.JSON, strings.Split(path, "."))
		}) {
			problems = append(problems, fmt.Errorf("--template-path %s: no custom resource has anything at this path; "+
				"name the path of a pod template, such as spec.template, or leave it out", path))
		}
	}
	return errors.Join(problems...)
}

// customAt reports whether a custom resource, or that of an AdmissionReview, has something at a path. Workloads of Kubernetes ignore it.
func customAt(raw json.RawMessage, path []string) bool {
	var is metav1.TypeMeta
	_ = json.Unmarshal(raw, &is)
	if is.Kind == "AdmissionReview" {
		return slices.ContainsFunc([]string{"object", "oldObject"}, func(key string) bool {
			object, found := rawAt(raw, []string{"request", key})
			return found && customAt(object, path)
		})
	}
	_, known := admit.WorkloadKindOf(is.GroupVersionKind().GroupKind())
	_, found := rawAt(raw, path)
	return found && !known
}

// podAt returns the pod of one template, or none if there is no template.
func podAt(d Document, object *unstructured.Unstructured, path []string, controller string,
	podOf func(*document.Document) *document.Document) []Document {
	template := strings.Join(path, ".")
	name := object.GetName()
	if d.unnamed() {
		name = object.GetGenerateName() + "*"
	}
	pod := Document{Source: d.Source, Line: d.Line, Template: template, Of: fmt.Sprintf("%s %s → its pods", object.GetKind(), name),
		Controller: controller}
	raw, found := rawAt(d.JSON, path)
	if !found {
		return nil
	}
	err := checkTemplate(raw)
	if err == nil {
		pod.JSON, err = podJSON(d.JSON, podOf)
	}
	if err != nil {
		pod.Err = fmt.Errorf("%s %w", template, err)
	}
	return []Document{pod}
}

// rawAt returns the JSON at a path of keys.
func rawAt(raw json.RawMessage, path []string) (json.RawMessage, bool) {
	for _, key := range path {
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return nil, false
		}
		if raw = members[key]; len(raw) == 0 {
			return nil, false
		}
	}
	return raw, true
}

// checkTemplate returns why something is no pod template.
func checkTemplate(raw json.RawMessage) error {
	var template map[string]json.RawMessage
	if json.Unmarshal(raw, &template) != nil || template == nil {
		return errors.New("is not an object with metadata and spec")
	}
	for _, key := range []string{"metadata", "spec"} {
		var members map[string]json.RawMessage
		if raw := template[key]; len(raw) > 0 && json.Unmarshal(raw, &members) != nil {
			return fmt.Errorf("is not a pod template: its %s is not an object", key)
		}
	}
	return nil
}

// podJSON returns the pod of a workload with its members in order, as other documents are. Its names follow from the name of the workload, which
// the API server generates if that has none.
func podJSON(raw []byte, podOf func(*document.Document) *document.Document) ([]byte, error) {
	object, err := document.Parse(raw)
	if err != nil {
		return nil, err
	}
	workload.FillName(admit.MetaOf(object.Root()))
	pod := podOf(object)
	if pod == nil || object.Err() != nil || pod.Err() != nil {
		return nil, errors.New("is not a pod template")
	}
	ordered, err := DecodeJSON(pod.Bytes())
	if err != nil {
		return nil, err
	}
	return json.Marshal(ordered)
}

// DecodeJSON decodes a value with its numbers as they are written.
func DecodeJSON(raw []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}
