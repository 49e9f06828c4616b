package mutators

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/profile"
)

// colocated is an object that profiles are applied to: a pod, or a reservation with the pod in its template.
type colocated struct {
	admit.Meta // the object whose labels and annotations are set
	// pod gets scheduler, priority and patch; nil for a reservation without a template.
	pod *admit.Pod
}

// apply applies profiles one after the other. An error names the profile that caused it.
func (q ProfileQuestions) apply(profiles []*profile.Profile, to colocated) error {
	ends := newSuffixes(profiles)
	for _, p := range profiles {
		applyKeys(p, to.Meta)
		if err := ends.append(p, to.Meta); err != nil {
			return err
		}
		if err := q.applySpec(p, to); err != nil {
			return err
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

// translate renames a pod's cpu and memory for its class: in containers, for the pod as a whole, and in its
// overhead. Other resources, and all resources of classes that use native ones, are unchanged.
func translate(req *admit.Request, pod *admit.Pod, class api.PriorityClass) {
	if _, ok := api.Translate(class, corev1.ResourceCPU); !ok {
		req.Explain("cpu and memory keep their names in priority class %s", cmp.Or(string(class), "none"))
		return
	}
	for c := range pod.Containers() {
		translateRequirements(c.Resources(), class)
	}
	if whole := pod.Resources(); hasNative(whole) {
		translateRequirements(whole, class)
		req.Warnf("spec.resources now asks for %s resources, which API servers up to 1.37 refuse; ask for them per container", class)
	}
	translateList(pod.Overhead(), class)
}

// hasNative reports whether there is anything to translate.
func hasNative(r admit.Requirements) bool {
	for _, name := range nativeResources {
		if r.Requests().Has(name) || r.Limits().Has(name) {
			return true
		}
	}
	return false
}

// translateRequirements translates requests and limits. A limit without a request also becomes the request, which the
// API server does for native resources only. A missing limit stays missing.
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

// translateList moves amounts to the translated names, replacing existing ones.
func translateList(list admit.Resources, class api.PriorityClass) {
	for _, native := range nativeResources {
		name, _ := api.Translate(class, native)
		if amount, ok := list.Get(native); ok {
			list.Set(name, api.TranslateAmount(native, amount))
			list.Remove(native)
		}
	}
}
