package workload

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/internal/poddefaults"
)

// limitRangerAnnotation is where the plug-in LimitRanger says what it has set in a pod.
const (
	limitRangerAnnotation = "kubernetes.io/limit-ranger"
	limitRangerSays       = "LimitRanger plugin set: "
)

// FillNew sets what the API server and its own plug-ins set in a new pod before they call webhooks, and not in a template: the
// service account, host ports, requests and limits, two tolerations, and the defaults of containers and volumes that mutators have
// added. It does not set what depends on the cluster, such as the token of the service account and the priority. An error is in
// the pod's document.
func FillNew(pod *admit.Pod, ranges []*corev1.LimitRange) {
	spec := pod.Root().Get("spec")
	account := spec.Get("serviceAccountName")
	if account.Text() == "" {
		account.SetText("default")
	}
	if old := spec.Get("serviceAccount"); old.Text() == "" {
		old.SetText(account.Text())
	}
	if links := spec.Get("enableServiceLinks"); !links.Exists() {
		links.Set(true)
	}
	for c := range containersOf(pod) {
		if !c.Get("terminationMessagePath").Exists() { // the API server has set it in templates
			fillAdded(c, poddefaults.Container)
		}
	}
	if document.As[bool](spec.Get("hostNetwork")) {
		fillHostPorts(pod)
	}
	FillResources(pod, ranges)
	for volume := range spec.Get("volumes").Elements() {
		if defaultsAreMissing(volume) {
			fillAdded(volume, func(v *corev1.Volume) { poddefaults.Volume(&v.VolumeSource) })
		}
	}
	tolerateFailingNodes(pod)
}

// FillName gives a new object without a name one from its generateName, as the API server does between mutating and validating
// webhooks.
func FillName(m admit.Meta) {
	if prefix := m.GenerateName(); prefix != "" && m.Name() == "" {
		m.Root().At("metadata", "name").SetText(GeneratedName(prefix))
	}
}

// GeneratedName returns a name that an API server could generate: the generateName, cut to 58 bytes, and five more. Unlike those
// of an API server, these five are always the same.
func GeneratedName(prefix string) string { return prefix[:min(len(prefix), 58)] + "x7k2p" }

// containersOf returns the init containers and the containers of a pod.
func containersOf(pod *admit.Pod) iter.Seq[*document.Value] {
	return func(yield func(*document.Value) bool) {
		for _, list := range [...]string{"initContainers", "containers"} {
			for c := range pod.Root().At("spec", list).Elements() {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// fillHostPorts sets missing hostPorts of a pod in the network of its node to the containerPorts, as the API server does.
func fillHostPorts(pod *admit.Pod) {
	for c := range containersOf(pod) {
		for port := range c.Get("ports").Elements() {
			at, number := port.Get("hostPort"), document.As[int32](port.Get("containerPort"))
			if document.As[int32](at) == 0 && number != 0 {
				at.Set(number)
			}
		}
	}
}

// defaultsAreMissing reports whether a volume lacks what the API server sets in the kinds of volumes that are used most.
func defaultsAreMissing(volume *document.Value) bool {
	for _, kind := range [...]string{"configMap", "secret", "projected", "downwardAPI"} {
		if v := volume.Get(kind); v.Exists() {
			return !v.Get("defaultMode").Exists()
		}
	}
	return volume.Get("hostPath").Exists() && !volume.At("hostPath", "type").Exists()
}

// fillAdded sets the defaults of a typed part of a pod.
func fillAdded[T any](v *document.Value, fill func(*T)) {
	before, after := document.As[T](v), document.As[T](v)
	fill(&after)
	document.Record(v, before, after)
}

// FillResources sets requests that are missing to the limits, and then both to the defaults of the LimitRanges of the namespace,
// as the API server does before it calls mutating webhooks, and again if they have changed the pod.
func FillResources(pod *admit.Pod, ranges []*corev1.LimitRange) {
	for c := range containersOf(pod) {
		fillRequests(c.At("resources", "requests"), c.At("resources", "limits"))
	}
	for _, r := range ranges {
		fillFromRange(pod, r)
	}
}

// fillFromRange sets the defaults of one LimitRange, and notes what it has set in the pod's annotation, as the plug-in LimitRanger does.
func fillFromRange(pod *admit.Pod, r *corev1.LimitRange) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, item := range r.Spec.Limits {
		if item.Type == corev1.LimitTypeContainer {
			maps.Copy(requests, item.DefaultRequest)
			maps.Copy(limits, item.Default)
		}
	}
	var said []string
	add := func(kind string, containers iter.Seq[*admit.Container]) {
		for c := range containers {
			if set := fillFrom(c.Resources().Requests(), requests); len(set) > 0 {
				said = append(said, fmt.Sprintf("%s request for %s %s", strings.Join(set, ", "), kind, c.Name()))
			}
			if set := fillFrom(c.Resources().Limits(), limits); len(set) > 0 {
				said = append(said, fmt.Sprintf("%s limit for %s %s", strings.Join(set, ", "), kind, c.Name()))
			}
		}
	}
	add("container", pod.RegularContainers())
	add("init container", pod.InitContainers())
	if len(said) > 0 {
		pod.SetAnnotation(limitRangerAnnotation, limitRangerSays+strings.Join(said, "; "))
	}
}

// Filled has by container the lists and resources that the plug-in LimitRanger has set, such as "request cpu".
type Filled map[string][]string

// FilledByRanges returns what LimitRanger set in a pod when it last set anything: a later round, or another LimitRange, replaces the
// annotation in which it says so. Users can write that annotation, too.
func FilledByRanges(pod *admit.Pod) Filled {
	text, _ := pod.Annotation(limitRangerAnnotation)
	said, ok := strings.CutPrefix(text, limitRangerSays)
	if !ok {
		return nil
	}
	filled := Filled{}
	for entry := range strings.SplitSeq(said, "; ") {
		for _, list := range [...]string{"request", "limit"} {
			names, container, _ := strings.Cut(entry, " "+list+" for ")
			container = container[strings.LastIndexByte(container, ' ')+1:] // after "container" or "init container"
			for name := range strings.SplitSeq(names, ", ") {
				if container != "" {
					filled[container] = append(filled[container], list+" "+name)
				}
			}
		}
	}
	return filled
}

// fillRequests sets what is missing of the requests to the limits, as they are written; they may be numbers.
func fillRequests(requests, limits *document.Value) {
	for name, limit := range limits.Members() {
		at := requests.Get(name)
		switch {
		case at.Exists():
		case limit.Kind() == document.Text:
			at.SetText(limit.Text())
		default:
			at.SetText(string(limit.Bytes()))
		}
	}
}

// fillFrom sets what is missing in a list, and returns the sorted names of what it has set.
func fillFrom(list admit.Resources, defaults corev1.ResourceList) (set []string) {
	for name := range defaults {
		if !list.Has(name) {
			set = append(set, string(name))
		}
	}
	slices.Sort(set)
	for _, name := range set {
		list.Set(corev1.ResourceName(name), defaults[corev1.ResourceName(name)])
	}
	return set
}

// tolerateFailingNodes adds the tolerations of the plug-in DefaultTolerationSeconds, with its default of 300 s.
func tolerateFailingNodes(pod *admit.Pod) {
	is := pod.Tolerations()
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(is, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		}) {
			seconds := int64(300)
			pod.AppendToleration(corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
		}
	}
}
