package mutators

import (
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// nativeResources are those that pods of some classes use under another name.
var nativeResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// classOf is the priority class of a pod whose QoS and priority labels are on labelled: on the pod itself, or on its
// reservation. The whole spec is read only if neither labels nor priority say anything.
func classOf(labelled admit.Meta, pod *admit.Pod) api.PriorityClass {
	labels := map[string]string{}
	for _, from := range []admit.Meta{pod.Meta, labelled} {
		for _, key := range []string{api.LabelQoSClass, api.LabelPriorityClass} {
			if from.HasLabel(key) {
				labels[key] = from.Label(key)
			}
		}
	}
	if class := api.RawPriorityClass(labels, pod.Priority()); class != api.PriorityNone {
		return class
	}
	if qos := api.RawQoS(labels); qos != api.QoSNone {
		return qos.DefaultPriorityClass()
	}
	spec := pod.Spec()
	return api.PriorityClassWithDefault(labels, &spec)
}

// translate gives a pod's cpu and memory the names that they have for its class: in containers, for the pod as a whole
// (W15), and in its overhead. Other resources, and those of classes that use native ones, stay as they are.
func translate(req *admit.Request, pod *admit.Pod, class api.PriorityClass) {
	if _, ok := api.Translate(class, corev1.ResourceCPU); !ok {
		return
	}
	for c := range pod.Containers() {
		translateRequirements(c.Resources(), class)
	}
	if whole := pod.Resources(); asksNative(whole) {
		translateRequirements(whole, class)
		req.Warnf("spec.resources now asks for %s resources, which API servers up to 1.37 refuse; ask for them per container", class)
	}
	translateList(pod.Overhead(), class)
}

// asksNative reports whether there is anything to translate.
func asksNative(r admit.Requirements) bool {
	for _, name := range nativeResources {
		if r.Requests().Has(name) || r.Limits().Has(name) {
			return true
		}
	}
	return false
}

// translateRequirements translates requests and limits. What has a limit alone gets a request of the same amount: the
// API server does that for native resources only. A missing limit stays missing.
func translateRequirements(r admit.Requirements, class api.PriorityClass) {
	translateList(r.Requests(), class)
	translateList(r.Limits(), class)
	for _, native := range nativeResources {
		name, _ := api.Translate(class, native)
		if limit, ok := r.Limits().Get(name); ok && !r.Requests().Has(name) {
			r.Requests().Set(name, limit)
		}
	}
}

// translateList moves amounts to the translated names, over what stands there.
func translateList(list admit.Resources, class api.PriorityClass) {
	for _, native := range nativeResources {
		name, _ := api.Translate(class, native)
		if amount, ok := list.Get(native); ok {
			list.Set(name, api.TranslateAmount(native, amount))
			list.Remove(native)
		}
	}
}
