package mutators

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/profile"
	"usher.dev/usher/validators/workload"
)

// colocated is an object that profiles are applied to: a pod, or a reservation with the pod in its template.
type colocated struct {
	admit.Meta // the object whose labels and annotations are set
	// pod gets scheduler, priority and patch; nil for a reservation without a template.
	pod *admit.Pod
	// namespace is that of the pod; empty for a reservation, whose template no LimitRange concerns.
	namespace string
}

// apply applies profiles one after the other. An error names the profile that caused it.
func (q ProfileQuestions) apply(req *admit.Request, profiles []*profile.Profile, to colocated) error {
	ends := newSuffixes(profiles)
	for _, p := range profiles {
		applyKeys(p, to.Meta)
		if err := ends.append(p, to.Meta); err != nil {
			return err
		}
		if err := q.applySpec(p, to); err != nil {
			return err
		}
		for _, problem := range p.LeftOut {
			req.Warnf("colocation profile %s: part of the patch is not applied: %s", p.Name, problem)
		}
	}
	return nil
}

// applyKeys sets labels and annotations, and then copies values from one key to another. A missing value is not copied.
// All values are read before any copy is made: a to b and b to c shifts both.
func applyKeys(p *profile.Profile, to admit.Meta) {
	for _, label := range p.Labels {
		to.SetLabel(label.Key, label.Value)
	}
	for _, annotation := range p.Annotations {
		to.SetAnnotation(annotation.Key, annotation.Value)
	}
	copyValues(p.LabelKeysMapping, func(key string) (string, bool) { return to.Label(key), to.HasLabel(key) }, to.SetLabel)
	copyValues(p.AnnotationKeysMapping, to.Annotation, to.SetAnnotation)
}

func copyValues(mapping []profile.Pair, get func(string) (string, bool), set func(key, value string)) {
	var copies []profile.Pair
	for _, keys := range mapping {
		if value, ok := get(keys.Key); ok {
			copies = append(copies, profile.Pair{Key: keys.Value, Value: value})
		}
	}
	for _, c := range copies {
		set(c.Key, c.Value)
	}
}

// applySpec sets the rest in Koordinator's order: scheduler, QoS, priority class, sub-priority, patch.
func (q ProfileQuestions) applySpec(p *profile.Profile, to colocated) error {
	if p.Spec.SchedulerName != "" && to.pod != nil {
		to.pod.SetSchedulerName(p.Spec.SchedulerName)
	}
	if p.Spec.QoSClass != "" {
		to.SetLabel(api.LabelQoSClass, string(p.Spec.QoSClass))
	}
	if err := q.applyPriorityClass(p, to.pod); err != nil {
		return err
	}
	if p.Spec.KoordinatorPriority != nil {
		to.SetLabel(api.LabelPriority, strconv.Itoa(int(*p.Spec.KoordinatorPriority)))
	}
	if p.Patch == nil || to.pod == nil {
		return nil
	}
	if err := to.pod.Merge(p.Patch); err != nil {
		return field.Invalid(to.pod.SpecPath(), field.OmitValueType{},
			fmt.Sprintf("spec.patch of colocation profile %s does not fit this pod: %v; correct the pod, or the patch", p.Name, err))
	}
	return nil
}

// applyPriorityClass sets the three fields that the API server's Priority plugin requires to be consistent.
func (q ProfileQuestions) applyPriorityClass(p *profile.Profile, pod *admit.Pod) error {
	class := p.Spec.PriorityClassName
	if class == "" || pod == nil {
		return nil
	}
	value, preemption, known, err := q.PriorityClass(class)
	switch {
	case err != nil:
		return fmt.Errorf("PriorityClass %s of colocation profile %s: %w", class, p.Name, err)
	case !known:
		return field.Invalid(pod.PriorityClassNamePath(), class, fmt.Sprintf(
			"colocation profile %s gives this PriorityClass, which does not exist; "+
				"create it, or correct the profile's spec.priorityClassName", p.Name))
	}
	pod.SetPriority(class, value, preemption)
	return nil
}

// suffixes collects the suffixes of each label from all profiles. A value that ends in all of them got them in an
// earlier run of the same profiles, and stays.
type suffixes struct {
	whole map[string]string
	done  map[string]string // the values of labels that already had all suffixes
}

func newSuffixes(profiles []*profile.Profile) (s suffixes) {
	for _, p := range profiles {
		for _, suffix := range p.LabelSuffixes {
			if s.whole == nil {
				s.whole, s.done = map[string]string{}, map[string]string{}
			}
			s.whole[suffix.Key] = withSuffix(s.whole[suffix.Key], suffix.Value)
		}
	}
	return s
}

// withSuffix appends a suffix unless it is there already.
func withSuffix(value, suffix string) string { return strings.TrimSuffix(value, suffix) + suffix }

// append appends a profile's suffixes to existing labels.
func (s suffixes) append(p *profile.Profile, to admit.Meta) error {
	for _, suffix := range p.LabelSuffixes {
		key, value := suffix.Key, to.Label(suffix.Key)
		if !to.HasLabel(key) {
			continue
		}
		if strings.HasSuffix(value, s.whole[key]) {
			s.done[key] = value
		}
		if done, ok := s.done[key]; ok && done == value {
			continue
		}
		longer := withSuffix(value, suffix.Value)
		if problems := validation.IsValidLabelValue(longer); longer != value && len(problems) > 0 {
			return field.Invalid(admit.LabelPath(key), longer, fmt.Sprintf(
				"colocation profile %s appends %q to %q: %s; shorten the label, or correct the profile's spec.labelSuffixes",
				p.Name, suffix.Value, value, problems[0]))
		}
		to.SetLabel(key, longer)
	}
	return nil
}

// nativeResources are the resources that pods of some classes use under another name.
var nativeResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// classOf returns the priority class of a pod whose QoS and priority labels are on labelled: the pod itself, or its
// reservation.
func classOf(labelled admit.Meta, pod *admit.Pod) api.PriorityClass {
	labels := map[string]string{}
	for _, from := range []admit.Meta{pod.Meta, labelled} {
		for _, key := range []string{api.LabelQoSClass, api.LabelPriorityClass} {
			if from.HasLabel(key) {
				labels[key] = from.Label(key)
			}
		}
	}
	return api.PriorityClassWithDefault(labels, pod.Priority(), pod.Spec)
}

// translate renames the pod's cpu and memory for its class: in containers, and for the pod as a whole. Other resources, and
// all resources of classes that use native ones, are unchanged. So is the overhead: the plug-in RuntimeClass owns it.
func (q ProfileQuestions) translate(req *admit.Request, to colocated, profiles []*profile.Profile) error {
	pod, class := to.pod, classOf(to.Meta, to.pod)
	if _, ok := api.Translate(class, corev1.ResourceCPU); !ok {
		req.Explain("cpu and memory keep their names in priority class %s", cmp.Or(string(class), "none"))
		return nil
	}
	t := translation{class: class, profiles: profiles}
	if to.namespace != "" {
		var err error
		if t.ranges, err = q.LimitRanges(to.namespace); err != nil {
			return fmt.Errorf("LimitRanges of namespace %s: %w", to.namespace, err)
		}
	}
	if len(t.ranges) > 0 {
		t.filled = workload.FilledByRanges(pod)
	}
	for c := range pod.Containers() {
		t.requirements(c.Name(), c.Resources())
	}
	if whole := pod.Resources(); hasNative(whole.Requests()) || hasNative(whole.Limits()) {
		t.requirements("", whole)
		req.Warnf("spec.resources now asks for %s resources, which API servers up to 1.37 refuse; ask for them per container", class)
	}
	if hasNative(pod.Overhead()) {
		req.Warnf("spec.overhead keeps cpu and memory: it must equal the overhead of the RuntimeClass")
	}
	if len(t.dropped) > 0 {
		req.Warnf("dropped, because the pod asks for %s resources in their place: %s",
			class, admit.Shorten(strings.Join(t.dropped, ", "), 120))
	}
	if len(t.given) > 0 && req.Explained() {
		req.Explain("dropped, because LimitRanges give them beside %s resources: %s", string(class), strings.Join(t.given, ", "))
	}
	return t.refusedByRanges()
}

// hasNative reports whether a list has anything that could be translated.
func hasNative(list admit.Resources) bool {
	return slices.ContainsFunc(nativeResources, list.Has)
}

// translation renames the resources of a pod.
type translation struct {
	class    api.PriorityClass
	profiles []*profile.Profile   // those applied
	ranges   []*corev1.LimitRange // of the pod's namespace
	filled   workload.Filled      // what they gave
	dropped  []string             // amounts that gave way to others
	given    []string             // the same, of LimitRanges
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
		name, _ := api.Translate(t.class, native)
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
	return slices.ContainsFunc(t.profiles, func(p *profile.Profile) bool {
		if list.of == "" {
			return sets(p, "spec")
		}
		return sets(p, "spec", "containers", list.of) || sets(p, "spec", "initContainers", list.of)
	})
}

// defaulted reports whether the API server has set the request of a renamed resource to its limit, because the user has sent only the
// native request beside that limit. With a native limit, or where LimitRanges give native amounts, that request may not be the user's.
func (t *translation) defaulted(requests, limits amounts, native, name corev1.ResourceName) bool {
	if limits.Has(native) || !requests.Has(native) || slices.ContainsFunc(t.ranges, func(r *corev1.LimitRange) bool {
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

// gave reports whether LimitRanges gave a container that amount, as far as LimitRanger has said so. It says only what it did last, and
// for one LimitRange: a container that it does not name, and any if there are several, has it from them if one of them gives as much.
func (t *translation) gave(list amounts, name corev1.ResourceName, amount resource.Quantity) bool {
	switch said, named := t.filled[list.of]; {
	case len(t.filled) == 0 || !t.give(list, name, amount):
		return false
	case len(t.ranges) > 1 || !named:
		return true
	default:
		return slices.Contains(said, list.list+" "+string(name))
	}
}

// give reports whether a LimitRange gives containers that amount.
func (t *translation) give(list amounts, name corev1.ResourceName, amount resource.Quantity) bool {
	return slices.ContainsFunc(t.ranges, func(r *corev1.LimitRange) bool {
		return slices.ContainsFunc(r.Spec.Limits, func(item corev1.LimitRangeItem) bool {
			given, is := list.defaults(item)[name]
			return is && given.Cmp(amount) == 0
		})
	})
}

// refusedByRanges refuses a pod if a LimitRange demands cpu or memory, which the pods of the class have under another name. The
// API server would refuse it as well, although its user has set an amount.
func (t *translation) refusedByRanges() error {
	for _, r := range t.ranges {
		for _, native := range nativeResources {
			if bound := boundOn(native, r); bound != "" {
				name, _ := api.Translate(t.class, native)
				return field.Forbidden(field.NewPath("spec", "containers"), fmt.Sprintf(
					"LimitRange %s has a %s, and pods of class %s have %s instead; bound that in the LimitRange, or use another namespace",
					r.Name, bound, t.class, name))
			}
		}
	}
	return nil
}

// boundOn describes a bound of a LimitRange that demands an amount of a resource; "" if there is none.
func boundOn(name corev1.ResourceName, r *corev1.LimitRange) string {
	for _, item := range r.Spec.Limits {
		if item.Type != corev1.LimitTypeContainer && item.Type != corev1.LimitTypePod {
			continue
		}
		for i, of := range []corev1.ResourceList{item.Min, item.Max, item.MaxLimitRequestRatio} {
			if _, bounded := of[name]; bounded {
				return fmt.Sprintf("%s of %s for each %s", [...]string{"min", "max", "maxLimitRequestRatio"}[i], name, item.Type)
			}
		}
	}
	return ""
}
