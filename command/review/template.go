package review

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// workload says how the pods of a kind come to be.
type workload struct {
	template   string // path of the PodTemplateSpec, with dots
	controller string // the service account in kube-system that creates the pods; "" if that is not known
	complete   func(*podOf)
}

// workloads are the kinds of Kubernetes that carry a PodTemplateSpec.
var workloads = map[schema.GroupKind]workload{
	{Group: "apps", Kind: "Deployment"}:  {"spec.template", "replicaset-controller", (*podOf).ofDeployment},
	{Group: "apps", Kind: "ReplicaSet"}:  {"spec.template", "replicaset-controller", (*podOf).ofOwner},
	{Group: "apps", Kind: "StatefulSet"}: {"spec.template", "statefulset-controller", (*podOf).ofStatefulSet},
	{Group: "apps", Kind: "DaemonSet"}:   {"spec.template", "daemon-set-controller", (*podOf).ofDaemonSet},
	{Group: "batch", Kind: "Job"}:        {"spec.template", "job-controller", (*podOf).ofJob},
	{Group: "batch", Kind: "CronJob"}:    {"spec.jobTemplate.spec.template", "job-controller", (*podOf).ofCronJob},
	{Kind: "ReplicationController"}:      {"spec.template", "replication-controller", (*podOf).ofOwner},
	{Kind: "PodTemplate"}:                {"template", "", func(*podOf) {}},
}

// podOf is a pod while it is made of a template.
type podOf struct {
	owner    *unstructured.Unstructured
	hash     string // of the template, in the place of the controller's own
	template map[string]json.RawMessage
	meta     map[string]any
	spec     map[string]json.RawMessage
}

// podsOf returns the pods that controllers would make of the templates of an object: at most one for each template, as all pods of a template
// are alike except for their names. extra are paths of templates in kinds that Kubernetes does not know. Nil: it has no template.
func podsOf(d Document, object *unstructured.Unstructured, extra []string) (pods []Document) {
	if w, found := workloads[object.GroupVersionKind().GroupKind()]; found {
		return podAt(d, object, w)
	}
	for _, path := range extra {
		pods = append(pods, podAt(d, object, workload{path, "", (*podOf).ofOwner})...)
	}
	return pods
}

// podAt returns the pod of one template, or none if there is no template.
func podAt(d Document, object *unstructured.Unstructured, w workload) []Document {
	pod := Document{Source: d.Source, Line: d.Line, Template: w.template, Of: fmt.Sprintf("%s %s → its pods", object.GetKind(), object.GetName()), Controller: w.controller}
	raw, found := rawAt(d.JSON, strings.Split(w.template, "."))
	if !found {
		return nil
	}
	made, err := newPodOf(object, raw)
	if err != nil {
		pod.Err = fmt.Errorf("%s %w", w.template, err)
		return []Document{pod}
	}
	w.complete(made)
	if pod.JSON, err = made.encode(); err != nil {
		pod.Err = fmt.Errorf("%s %w", w.template, err)
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

func newPodOf(owner *unstructured.Unstructured, template json.RawMessage) (*podOf, error) {
	p := &podOf{owner: owner, meta: map[string]any{}, spec: map[string]json.RawMessage{}}
	sum := fnv.New32a()
	_, _ = sum.Write(template)
	p.hash = fmt.Sprintf("%08x", sum.Sum32())
	if json.Unmarshal(template, &p.template) != nil || p.template == nil {
		return nil, errors.New("is not an object with metadata and spec")
	}
	for key, into := range map[string]any{"metadata": &p.meta, "spec": &p.spec} {
		if raw := p.template[key]; len(raw) > 0 && json.Unmarshal(raw, into) != nil {
			return nil, fmt.Errorf("is not a pod template: its %s is not an object", key)
		}
	}
	if p.meta == nil {
		p.meta = map[string]any{}
	}
	delete(p.meta, "name") // controllers read labels, annotations and finalizers of a template
	p.meta["generateName"] = owner.GetName() + "-"
	if owner.GetNamespace() != "" {
		p.meta["namespace"] = owner.GetNamespace()
	}
	return p, nil
}

func (p *podOf) encode() ([]byte, error) {
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": p.meta}
	if p.spec != nil {
		pod["spec"] = p.spec
	}
	return json.Marshal(pod)
}

// ownedBy sets the ownerReference that a controller sets.
func (p *podOf) ownedBy(apiVersion, kind, name string) {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(kind + "/" + p.owner.GetNamespace() + "/" + name))
	text := fmt.Sprintf("%016x", sum.Sum64())
	yes := true
	p.meta["ownerReferences"] = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name,
		UID: types.UID(fmt.Sprintf("%s-%s-%s-%s-%s", text[:8], text[8:12], text[12:16], text[:4], text[4:16])), Controller: &yes, BlockOwnerDeletion: &yes}}
}

func (p *podOf) label(key, value string) {
	labels, _ := p.meta["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	labels[key] = value
	p.meta["labels"] = labels
}

func (p *podOf) set(key string, value any) {
	raw, err := json.Marshal(value)
	if err == nil {
		p.spec[key] = raw
	}
}

// ofOwner is for controllers that create the pods of their objects without anything between.
func (p *podOf) ofOwner() {
	p.ownedBy(p.owner.GetAPIVersion(), p.owner.GetKind(), p.owner.GetName())
}

// ofDeployment goes through a ReplicaSet, which is named after the hash of the template.
func (p *podOf) ofDeployment() {
	replicaSet := p.owner.GetName() + "-" + p.hash
	p.label("pod-template-hash", p.hash)
	p.meta["generateName"] = replicaSet + "-"
	p.ownedBy("apps/v1", "ReplicaSet", replicaSet)
}

// ofStatefulSet is the first of the pods, which have names, host names and claims of their own.
func (p *podOf) ofStatefulSet() {
	name := p.owner.GetName() + "-0"
	p.meta["name"] = name
	p.label("statefulset.kubernetes.io/pod-name", name)
	p.label("apps.kubernetes.io/pod-index", "0")
	p.label("controller-revision-hash", p.owner.GetName()+"-"+p.hash)
	p.ofOwner()
	p.set("hostname", name)
	if service, _, _ := unstructured.NestedString(p.owner.Object, "spec", "serviceName"); service != "" {
		p.set("subdomain", service)
	}
	p.addClaims()
}

// addClaims adds a volume for each of a StatefulSet's volumeClaimTemplates, in place of a volume of the same name.
func (p *podOf) addClaims() {
	claims, _, _ := unstructured.NestedSlice(p.owner.Object, "spec", "volumeClaimTemplates")
	var volumes []json.RawMessage
	replaced := map[string]bool{}
	for _, claim := range claims {
		fields, _ := claim.(map[string]any)
		name, _, _ := unstructured.NestedString(fields, "metadata", "name")
		replaced[name] = true
		volumes = append(volumes, fmt.Appendf(nil, `{"name":%q,"persistentVolumeClaim":{"claimName":%q}}`, name, name+"-"+p.owner.GetName()+"-0"))
	}
	var own []json.RawMessage
	if len(volumes) == 0 || len(p.spec["volumes"]) > 0 && json.Unmarshal(p.spec["volumes"], &own) != nil {
		return // volumes that are not a list stay as they are, to be refused
	}
	for _, volume := range own {
		var named struct{ Name string }
		if json.Unmarshal(volume, &named) != nil || !replaced[named.Name] {
			volumes = append(volumes, volume)
		}
	}
	p.set("volumes", volumes)
}

func (p *podOf) ofDaemonSet() {
	p.label("controller-revision-hash", p.hash)
	p.label("pod-template-generation", "1")
	p.ofOwner()
}

func (p *podOf) ofJob() { p.ofJobNamed(p.owner.GetName()) }

// ofCronJob goes through a Job, which is named after the minute of its schedule.
func (p *podOf) ofCronJob() { p.ofJobNamed(p.owner.GetName() + "-29391840") }

func (p *podOf) ofJobNamed(name string) {
	p.meta["generateName"] = name + "-"
	p.label("batch.kubernetes.io/job-name", name)
	p.label("job-name", name)
	p.ownedBy("batch/v1", "Job", name)
}
