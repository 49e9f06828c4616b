// Package quota is `usherctl quota`: it makes of manifests the pods that would count for quotas, and prints what quotas have left.
package quota

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/usherctl/quota/usage"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/validators/workload"
)

// limitRanges returns the LimitRanges of a namespace.
type limitRanges func(namespace string) ([]*corev1.LimitRange, error)

// planOf returns the pods that the objects of manifests would lead to, in the given namespace unless they name another, with the requests
// that the API server fills in from limits and LimitRanges. Kinds of Kubernetes without pods are left out; for kinds of others, whether
// they have pods is not known. The error names a document that cannot be read.
func planOf(documents []requests.Document, namespace string, ranges limitRanges) (all []usage.PlannedPods, err error) {
	catalogue := requests.NewCatalogue(nil)
	noRoute := func(*unstructured.Unstructured) bool { return false } // a workload is replaced by its pods
	for _, d := range requests.WithPods(documents, nil, requests.Options{}, noRoute) {
		if d.Err != nil {
			return nil, fmt.Errorf("%s: %w", d.Source, d.Err)
		}
		object, workload := &unstructured.Unstructured{}, &unstructured.Unstructured{}
		if err := json.Unmarshal(d.JSON, &object.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Source, err)
		}
		if d.Workload != nil {
			if err := json.Unmarshal(d.Workload, &workload.Object); err != nil {
				return nil, fmt.Errorf("%s: %w", d.Source, err)
			}
		}
		if pods, counts := planned(catalogue, object, workload); counts {
			pods.fill(cmp.Or(object.GetNamespace(), namespace), ranges)
			all = append(all, pods.PlannedPods)
		}
	}
	return all, nil
}

// plan holds the pods of an object, and one of them as it is before the API server completes it.
type plan struct {
	usage.PlannedPods
	made *document.Document
}

// planned returns the pods of one object, or of the workload whose pod it is. counts is false if there are none.
func planned(catalogue requests.Catalogue, object, workload *unstructured.Unstructured) (p plan, counts bool) {
	of := workload
	if len(workload.Object) == 0 {
		of = object
	}
	p.Of = of.GetKind() + " " + of.GetName()
	if of.GetName() == "" {
		p.Of = of.GetKind() + " " + of.GetGenerateName() + "*"
	}
	if err := catalogue.Check(of.GroupVersionKind()); err != nil && !podless(catalogue, of.GetKind()) {
		p.Unknown = fmt.Sprintf("%s is not counted: %v", p.Of, err)
		return p, true
	}
	switch gvk := object.GroupVersionKind(); {
	case gvk.Group == "" && gvk.Kind == "Pod":
	case hasNoPods(catalogue, gvk.GroupKind()):
		return p, false
	default:
		p.Unknown = fmt.Sprintf("whether %s has pods is not known", p.Of)
		return p, true
	}
	raw, err := object.MarshalJSON()
	if err == nil {
		p.made, err = document.Parse(raw)
	}
	if err != nil {
		p.Unknown = fmt.Sprintf("%s cannot be read as pods: %v", p.Of, err)
		return p, true
	}
	p.Count, p.Unknown = countOf(of)
	return p, p.Count > 0 || p.Unknown != ""
}

// fill sets the pod as the API server completes it. What LimitRanges add is not known if they cannot be read.
func (p *plan) fill(namespace string, ranges limitRanges) {
	if p.Unknown != "" {
		return
	}
	all, unread := ranges(namespace)
	workload.FillNew(admit.AsPod(p.made), all)
	pod := &corev1.Pod{}
	err := p.made.Err()
	if err == nil {
		err = json.Unmarshal(p.made.Bytes(), pod)
	}
	switch p.Pod = pod; {
	case err != nil:
		p.Unknown = fmt.Sprintf("%s cannot be read as pods: %v", p.Of, err)
	case unread != nil && lacksRequests(pod):
		p.Unknown = fmt.Sprintf("%s lacks requests, which LimitRanges may set: %v", p.Of, unread)
	}
}

// lacksRequests reports whether a container requests no cpu or no memory.
func lacksRequests(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero()
	})
}

// podless reports whether Kubernetes has a kind of this name, in whatever group, that never has pods: its version does not matter.
func podless(catalogue requests.Catalogue, name string) (known bool) {
	for kind := range catalogue {
		if kind.Kind != name {
			continue
		}
		if _, hasPods := admit.WorkloadKindOf(kind); hasPods || name == "Pod" {
			return false
		}
		known = true
	}
	return known
}

// hasNoPods reports whether a kind without a pod template has no pods either: a kind of Kubernetes, and the elastic quotas and pod groups of
// its schedulers. Nothing is known of others, whatever their group ends in.
func hasNoPods(catalogue requests.Catalogue, kind schema.GroupKind) bool {
	_, known := catalogue[kind]
	return known || !strings.Contains(kind.Group, ".") || kind.Group == "scheduling.sigs.k8s.io"
}

// countOf returns how many pods an object has at the same time, or why that is not known.
func countOf(o *unstructured.Unstructured) (count int64, unknown string) {
	switch o.GetKind() {
	case "Pod":
		return 1, ""
	case "PodTemplate":
		return 0, ""
	case "DaemonSet":
		return 0, fmt.Sprintf("%s has a pod on each node that it selects", o.GetKind()+" "+o.GetName())
	case "Job":
		return ofJob(o.Object["spec"])
	case "CronJob":
		spec, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "jobTemplate", "spec")
		return ofJob(spec)
	}
	replicas, found, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas")
	if err != nil || !found || replicas == nil {
		return 1, ""
	}
	return number(replicas, "spec.replicas")
}

// ofJob returns how many pods of a Job run at the same time, or why that is not known.
func ofJob(spec any) (int64, string) {
	var job batchv1.JobSpec
	raw, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(raw, &job)
	}
	if err != nil {
		return 0, fmt.Sprintf("the spec of the job cannot be read: %v", err)
	}
	count := int64(1)
	if job.Parallelism != nil {
		count = int64(*job.Parallelism)
	}
	if job.Completions != nil {
		count = min(count, int64(*job.Completions))
	}
	return count, ""
}

func number(value any, field string) (int64, string) {
	if n, is := value.(int64); is && n >= 0 {
		return n, ""
	}
	if n, is := value.(float64); is && n >= 0 && n == float64(int64(n)) {
		return int64(n), ""
	}
	if text, is := value.(string); is {
		return 0, fmt.Sprintf("%s is the text %q, not a number of pods", field, text)
	}
	return 0, fmt.Sprintf("%s is %v, not a number of pods", field, value)
}
