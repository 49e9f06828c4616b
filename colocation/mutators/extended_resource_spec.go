package mutators

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/colocation/api"
)

// extendedResourceSpec repeats a pod's batch resources in an annotation. Kubernetes does not know batch-cpu and
// batch-memory, so the node agent (koordlet) configures the cgroups from this annotation: each container by its name,
// and the pod with the sum over all containers listed, without a limit as soon as one of them has none.
//
// Init containers are listed as well: their names are unique in the pod, and without an entry they would run without a
// limit. The agent's sum is right for sidecars; other init containers, which have ended when the containers start, make
// the pod's cgroup wider than necessary, which is harmless. The format has no place for overhead and pod-level
// spec.resources, and the API server refuses batch resources in the latter.
func extendedResourceSpec() admit.Mutator[admit.Pod] {
	return admit.Mutator[admit.Pod]{
		Name: "extended-resource-spec",
		Doc:  "repeats the batch resources of a pod in an annotation for the node agent; whatever the user wrote there is overwritten",
		Gate: gate.Not(api.GateDisableExtendedResourceSpec),
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) error {
			want := batchSpec(pod)
			text, has := pod.Annotation(api.AnnotationExtendedResourceSpec)
			switch {
			case has && equalSpec(text, want):
				return nil
			case !has && want.Containers == nil:
				req.Explain("no container requests batch-cpu or batch-memory")
				return nil
			case want.Containers == nil:
				pod.RemoveAnnotation(api.AnnotationExtendedResourceSpec)
				return nil
			}
			pod.SetAnnotation(api.AnnotationExtendedResourceSpec, want.Text())
			return nil
		},
	}
}

// batchSpec collects the batch resources of all containers that have any.
func batchSpec(pod *admit.Pod) (spec api.ExtendedResourceSpec) {
	for c := range pod.Containers() {
		entry := api.ExtendedResourceContainer{Limits: batchOf(c.Resources().Limits()), Requests: batchOf(c.Resources().Requests())}
		if entry.Limits == nil && entry.Requests == nil {
			continue
		}
		if spec.Containers == nil {
			spec.Containers = map[string]api.ExtendedResourceContainer{}
		}
		spec.Containers[c.Name()] = entry
	}
	return spec
}

// batchOf returns the batch resources of a list; nil if it has none.
func batchOf(list admit.Resources) (batch api.ResourceList) {
	if !list.Exists() {
		return nil
	}
	for _, name := range [...]corev1.ResourceName{api.ResourceBatchCPU, api.ResourceBatchMemory} {
		if q, ok := list.Get(name); ok {
			if batch == nil {
				batch = api.ResourceList{}
			}
			batch[name] = q
		}
	}
	return batch
}

// equalSpec reports whether the text of an annotation means the wanted spec, however its quantities are written. Text
// that does not parse means nothing, and is overwritten like any other.
func equalSpec(text string, want api.ExtendedResourceSpec) bool {
	is, err := api.ParseJSONText[api.ExtendedResourceSpec](text)
	return err == nil && equality.Semantic.DeepEqual(is, want)
}
