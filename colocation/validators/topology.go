package validators

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// topology refuses annotations on placement and eviction that the scheduler or the node agent could not read: the pod would not
// be placed, or the annotation be ignored, long after its author could react. It warns of values without effect. On update only
// changes are checked.
func topology() admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name: "topology",
		Doc:  "refuses annotations on CPU and NUMA placement and on eviction that Koordinator cannot read; warns of those without effect",
		Gate: api.GateTopologyValidation,
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) (problems field.ErrorList, _ error) {
			if pod.Deleting() {
				return pass(req, "the pod is being deleted")
			}
			found := false
			for _, annotation := range placements {
				text, has := pod.Annotation(annotation.key)
				if !has || keepsAnnotation(storedPod(req), annotation.key, text) {
					continue
				}
				found = true
				wrong := annotation.check(req, pod, text)
				if len(wrong) == 0 {
					req.Explain("Koordinator can read the annotation %s", annotation.key)
				}
				problems = append(problems, wrong...)
			}
			if !found {
				req.Explain("the request sets no annotation on placement or eviction, such as %s", api.AnnotationResourceSpec)
			}
			return problems, nil
		},
	}
}

// placements are the annotations that are checked, and their checks.
var placements = [...]struct {
	key   string
	check func(req *admit.Request, pod *admit.Pod, text string) field.ErrorList
}{
	{api.AnnotationResourceSpec, checkResourceSpec},
	{api.AnnotationNUMATopologySpec, checkNUMATopologySpec},
	{api.AnnotationOOMScoreAdj, oneNumber(api.AnnotationOOMScoreAdj, lowestOOMScore, highestOOMScore)},
	{api.AnnotationOOMScoreAdjSpec, checkOOMScores},
	{api.AnnotationEvictionPriority, oneNumber(api.AnnotationEvictionPriority, math.MinInt32, math.MaxInt32)},
	{api.AnnotationEvictionPolicy, checkEvictionPolicy},
	{api.AnnotationPreAllocatablePriority, oneNumber(api.AnnotationPreAllocatablePriority, math.MinInt64, math.MaxInt64)},
}

// The range of oom_score_adj in Linux.
const lowestOOMScore, highestOOMScore = -1000, 1000

// oneNumber returns the check of an annotation that is a whole number.
func oneNumber(key string, least, most int64) func(*admit.Request, *admit.Pod, string) field.ErrorList {
	return func(_ *admit.Request, _ *admit.Pod, text string) field.ErrorList {
		if n, err := strconv.ParseInt(text, 10, 64); err != nil || n < least || n > most {
			return field.ErrorList{field.Invalid(admit.AnnotationPath(key), admit.Shorten(text, 60),
				fmt.Sprintf("must be a whole number from %d to %d; or remove it", least, most))}
		}
		return nil
	}
}

func checkOOMScores(req *admit.Request, pod *admit.Pod, text string) (problems field.ErrorList) {
	const key = api.AnnotationOOMScoreAdjSpec
	scores, problems := readSpec[map[string]int64](key, text, `{"app":-500}`)
	containers := containersOf(pod)
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		if n := scores[name]; n < lowestOOMScore || n > highestOOMScore {
			problems = append(problems, field.Invalid(admit.AnnotationPath(key), n,
				fmt.Sprintf("%.63s must be from %d to %d; or remove it", name, lowestOOMScore, highestOOMScore)))
		}
		if containers[name] == nil {
			req.Warnf("annotation %s: the pod has no container %.63q", key, name)
		}
	}
	return problems
}

func checkEvictionPolicy(_ *admit.Request, _ *admit.Pod, text string) field.ErrorList {
	if _, err := api.ParseJSONText[[]string](text); err != nil {
		return field.ErrorList{field.Invalid(admit.AnnotationPath(api.AnnotationEvictionPolicy), admit.Shorten(text, 200),
			fmt.Sprintf(`%v; write it like ["evictByMemoryUsage"], or remove it: no policy may evict the pod`, err))}
	}
	return nil
}

func checkResourceSpec(req *admit.Request, pod *admit.Pod, text string) field.ErrorList {
	const key = api.AnnotationResourceSpec
	spec, problems := readSpec[api.ResourceSpec](key, text,
		`{"requiredCPUBindPolicy":"FullPCPUs"}`, "requiredCPUBindPolicy", "preferredCPUBindPolicy", "preferredCPUExclusivePolicy")
	problems = slices.Concat(problems,
		oneOf(key, "requiredCPUBindPolicy", spec.RequiredCPUBindPolicy, api.CPUBindPolicies()),
		oneOf(key, "preferredCPUBindPolicy", spec.PreferredCPUBindPolicy, api.CPUBindPolicies()),
		oneOf(key, "preferredCPUExclusivePolicy", spec.PreferredCPUExclusivePolicy, api.CPUExclusivePolicies()))
	if len(problems) == 0 {
		warnResourceSpec(req, pod, spec)
	}
	return problems
}

func checkNUMATopologySpec(_ *admit.Request, _ *admit.Pod, text string) field.ErrorList {
	const key = api.AnnotationNUMATopologySpec
	spec, problems := readSpec[api.NUMATopologySpec](key, text,
		`{"numaTopologyPolicy":"SingleNUMANode"}`, "numaTopologyPolicy", "singleNUMANodeExclusive")
	return slices.Concat(problems,
		oneOf(key, "numaTopologyPolicy", spec.NUMATopologyPolicy, api.NUMATopologyPolicies()),
		oneOf(key, "singleNUMANodeExclusive", spec.SingleNUMANodeExclusive, api.NUMAExclusives()))
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
	qos := api.RawQoS(pod.Label(api.LabelQoSClass))
	if required != api.CPUBindConstrainedBurst && qos != api.QoSLSR && qos != api.QoSLSE {
		req.Warnf("requiredCPUBindPolicy %s binds only pods of QoS LSR or LSE; set label koordinator.sh/qosClass", required)
	}
}

// binds reports whether a policy has an effect: an empty one and Default leave it to the scheduler.
func binds(policy api.CPUBindPolicy) bool { return policy != "" && policy != api.CPUBindDefault }
