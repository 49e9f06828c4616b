// Package translation renames the cpu and memory of pods for the priority classes that use them under other names, such as batch-cpu.
package translation

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/profile"
	"usher.dev/usher/validators/workload"
)

// nativeResources are the resources that pods of some classes use under another name.
var nativeResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Setting holds the inputs of a translation besides the pod.
type Setting struct {
	Class    api.PriorityClass
	Profiles []*profile.Profile   // those applied to the pod
	Ranges   []*corev1.LimitRange // of the pod's namespace; none for a template
}

// Apply renames the pod's cpu and memory for its class: in containers, and for the pod as a whole. Other resources are unchanged. So is
// the overhead: the plug-in RuntimeClass owns it. It refuses a pod if a LimitRange demands an amount under the native name.
func Apply(req *admit.Request, pod *admit.Pod, in Setting) error {
	t := translation{Setting: in}
	if len(t.Ranges) > 0 {
		t.filled = workload.FilledByRanges(pod)
	}
	for c := range pod.Containers() {
		t.requirements(c.Name(), c.Resources())
	}
	if whole := pod.Resources(); hasNative(whole.Requests()) || hasNative(whole.Limits()) {
		t.requirements("", whole)
		req.Warnf("spec.resources now asks for %s resources, which API servers up to 1.37 refuse; ask for them per container", in.Class)
	}
	if hasNative(pod.Overhead()) {
		req.Warnf("spec.overhead keeps cpu and memory: it must equal the overhead of the RuntimeClass")
	}
	if len(t.dropped) > 0 {
		req.Warnf("dropped, because the pod asks for %s resources in their place: %s",
			in.Class, admit.Shorten(strings.Join(t.dropped, ", "), 120))
	}
	if len(t.given) > 0 && req.Explained() {
		req.Explain("dropped, because LimitRanges give them beside %s resources: %s", string(in.Class), strings.Join(t.given, ", "))
	}
	return t.refusedByRanges()
}

// hasNative reports whether a list has anything that could be translated.
func hasNative(list admit.Resources) bool {
	return slices.ContainsFunc(nativeResources, list.Has)
}

// translation renames the resources of a pod.
type translation struct {
	Setting
	filled  workload.Filled // by the LimitRanges
	dropped []string        // amounts that gave way to others
	given   []string        // the same, of LimitRanges
}

// amounts are the requests or limits of a container, or of a pod as a whole.
type amounts struct {
	admit.Resources
	of, list string // the container, if any; request or limit
	defaults func(corev1.LimitRangeItem) corev1.ResourceList
}

// requirements renames requests and limits. An amount that has the new name already wins: the user has sent it, or an
// earlier run has renamed it, and then the API server's LimitRanger or another webhook has filled in the native one.
// It wins over a limit below such a request, too. A limit without a request also becomes the request, which the API
// server does not do in templates.
func (t *translation) requirements(of string, r admit.Requirements) {
	requests := amounts{r.Requests(), of, "request", func(item corev1.LimitRangeItem) corev1.ResourceList { return item.DefaultRequest }}
	limits := amounts{r.Limits(), of, "limit", func(item corev1.LimitRangeItem) corev1.ResourceList { return item.Default }}
	for _, native := range nativeResources {
		name, _ := api.Translate(t.Class, native)
		var least *resource.Quantity
		if had := t.rename(requests, native, name, nil, t.defaulted(requests, limits, native, name)); had {
			asked, _ := requests.Get(name)
			least = &asked
		}
		t.rename(limits, native, name, least, false)
		if limit, ok := limits.Get(name); ok && !requests.Has(name) {
			requests.Set(name, limit)
		}
	}
}

// rename moves an amount, if there is one, to its new name, and reports whether the list had that name before. The amount is
// dropped if it is below least, or if the list had another, unless a patch has set it, or the other is a default, or that of a LimitRange.
func (t *translation) rename(list amounts, native, name corev1.ResourceName, least *resource.Quantity, isDefault bool) (had bool) {
	amount, ok := list.Get(native)
	is, had := list.Get(name)
	if !ok {
		return had
	}
	renamed := api.TranslateAmount(native, amount)
	wins := !had || isDefault || t.patched(list, native) || t.gave(list, name, is) && !t.gave(list, native, amount)
	switch {
	case had && is.Cmp(renamed) == 0:
	case !wins, least != nil && renamed.Cmp(*least) < 0:
		into := &t.dropped
		if t.gave(list, native, amount) {
			into = &t.given
		}
		*into = append(*into, list.Path(native).String()+"="+amount.String())
	default:
		list.Set(name, renamed)
	}
	list.Remove(native)
	return had
}

// patched reports whether the patch of a profile has set an amount. The names of containers are unique in a pod.
func (t *translation) patched(list amounts, native corev1.ResourceName) bool {
	sets := func(p *profile.Profile, at ...string) bool {
		return p.Patch != nil && p.Patch.Sets(append(at, "resources", list.list+"s", string(native))...)
	}
	return slices.ContainsFunc(t.Profiles, func(p *profile.Profile) bool {
		if list.of == "" {
			return sets(p, "spec")
		}
		return sets(p, "spec", "containers", list.of) || sets(p, "spec", "initContainers", list.of)
	})
}

// defaulted reports whether the API server has set the request of a renamed resource to its limit, because the user has sent only the
// native request beside that limit. With a native limit, or where LimitRanges give native amounts, that request may not be the user's.
func (t *translation) defaulted(requests, limits amounts, native, name corev1.ResourceName) bool {
	if limits.Has(native) || !requests.Has(native) || slices.ContainsFunc(t.Ranges, func(r *corev1.LimitRange) bool {
		return slices.ContainsFunc(r.Spec.Limits, func(item corev1.LimitRangeItem) bool {
			_, is := requests.defaults(item)[native]
			return is
		})
	}) {
		return false
	}
	asked, _ := requests.Get(name)
	limit, limited := limits.Get(name)
	return limited && asked.Cmp(limit) == 0
}
