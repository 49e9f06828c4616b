package validators

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// topology refuses annotations on CPU binding and NUMA placement that the scheduler could not read: it would not place
// the pod, long after its author could react. It warns of values without effect. On update only changes are checked.
func topology() admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name: "topology",
		Doc:  "refuses annotations on CPU binding and NUMA placement that the scheduler cannot read; warns of those without effect",
		Gate: api.GateTopologyValidation,
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) (problems field.ErrorList, _ error) {
			if pod.Deleting() {
				req.Explain("the pod is being deleted")
				return nil, nil
			}
			found := false
			if text, ok := newAnnotation(req, pod, api.AnnotationResourceSpec); ok {
				found = true
				spec, wrong := readResourceSpec(text)
				if problems = append(problems, wrong...); len(wrong) == 0 {
					req.Explain("the scheduler can read the annotation %s", api.AnnotationResourceSpec)
					warnResourceSpec(req, pod, spec)
				}
			}
			if text, ok := newAnnotation(req, pod, api.AnnotationNUMATopologySpec); ok {
				found = true
				wrong := checkNUMATopologySpec(text)
				if problems = append(problems, wrong...); len(wrong) == 0 {
					req.Explain("the scheduler can read the annotation %s", api.AnnotationNUMATopologySpec)
				}
			}
			if !found {
				req.Explain("the request sets neither annotation %s nor %s", api.AnnotationResourceSpec, api.AnnotationNUMATopologySpec)
			}
			return problems, nil
		},
	}
}

// newAnnotation returns an annotation that the request adds or changes.
func newAnnotation(req *admit.Request, pod *admit.Pod, key string) (text string, ok bool) {
	text, ok = pod.Annotation(key)
	if old := storedPod(req); ok && old != nil {
		was, had := old.Annotation(key)
		ok = !had || was != text
	}
	return text, ok
}

func readResourceSpec(text string) (spec api.ResourceSpec, problems field.ErrorList) {
	const key = api.AnnotationResourceSpec
	spec, problems = readSpec[api.ResourceSpec](key, text,
		`{"requiredCPUBindPolicy":"FullPCPUs"}`, "requiredCPUBindPolicy", "preferredCPUBindPolicy", "preferredCPUExclusivePolicy")
	problems = append(problems, oneOf(key, "requiredCPUBindPolicy", spec.RequiredCPUBindPolicy, api.CPUBindPolicies())...)
	problems = append(problems, oneOf(key, "preferredCPUBindPolicy", spec.PreferredCPUBindPolicy, api.CPUBindPolicies())...)
	exclusive := oneOf(key, "preferredCPUExclusivePolicy", spec.PreferredCPUExclusivePolicy, api.CPUExclusivePolicies())
	return spec, append(problems, exclusive...)
}

func checkNUMATopologySpec(text string) field.ErrorList {
	const key = api.AnnotationNUMATopologySpec
	spec, problems := readSpec[api.NUMATopologySpec](key, text,
		`{"numaTopologyPolicy":"SingleNUMANode"}`, "numaTopologyPolicy", "singleNUMANodeExclusive")
	problems = append(problems, oneOf(key, "numaTopologyPolicy", spec.NUMATopologyPolicy, api.NUMATopologyPolicies())...)
	return append(problems, oneOf(key, "singleNUMANodeExclusive", spec.SingleNUMANodeExclusive, api.NUMAExclusives())...)
}

// readSpec decodes an annotation. Koordinator matches member names in any case, usher and the API server do not: a name
// that differs from a known one only by case is refused, so that no value is missed.
func readSpec[T any](key, text, example string, known ...string) (spec T, problems field.ErrorList) {
	at := admit.AnnotationPath(key)
	spec, err := api.ParseJSONText[T](text)
	if err != nil {
		return spec, field.ErrorList{field.Invalid(at, text, fmt.Sprintf("%v; write it like %s, or remove it", err, example))}
	}
	members, _ := api.ParseJSONText[map[string]json.RawMessage](text) // text that decodes into a struct also decodes into a map
	for _, name := range slices.Sorted(maps.Keys(members)) {
		i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
		if i >= 0 && known[i] != name {
			problems = append(problems, field.Invalid(at, text, fmt.Sprintf("%s must be written %s", name, known[i])))
		}
	}
	return spec, problems
}

// oneOf refuses unknown values; an empty one is allowed.
func oneOf[T ~string](key, member string, value T, known []T) field.ErrorList {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	texts := make([]string, len(known))
	for i, k := range known {
		texts[i] = string(k)
	}
	return field.ErrorList{field.Invalid(admit.AnnotationPath(key), string(value),
		fmt.Sprintf("%s must be one of %s; leave it out for the scheduler's default", member, strings.Join(texts, ", ")))}
}

// warnResourceSpec warns of policies without effect.
func warnResourceSpec(req *admit.Request, pod *admit.Pod, spec api.ResourceSpec) {
	required, preferred := spec.RequiredCPUBindPolicy, spec.PreferredCPUBindPolicy
	if !binds(required) {
		return
	}
	if binds(preferred) && preferred != required {
		req.Warnf("preferredCPUBindPolicy %s has no effect beside requiredCPUBindPolicy %s; remove one", preferred, required)
	}
	// ConstrainedBurst applies to the CPUs that pods share.
	qos := api.RawQoS(oneLabel(pod, api.LabelQoSClass))
	if required != api.CPUBindConstrainedBurst && qos != api.QoSLSR && qos != api.QoSLSE {
		req.Warnf("requiredCPUBindPolicy %s binds only pods of QoS LSR or LSE; set label koordinator.sh/qosClass", required)
	}
}

// binds reports whether a policy has an effect: an empty one and Default leave it to the scheduler.
func binds(policy api.CPUBindPolicy) bool { return policy != "" && policy != api.CPUBindDefault }
