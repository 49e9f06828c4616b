package mutators

import (
	"context"
	"sync"

	"usher.dev/usher/admit"
	"usher.dev/usher/mutators/labelling"
)

// labelDefaults sets labels and annotations that a new pod lacks. A value that the pod has wins, an empty one as well.
func labelDefaults(defaults labelling.Defaults, ask admit.Questions) admit.Mutator[admit.Pod] {
	filler := defaults.Compile()
	return admit.Mutator[admit.Pod]{
		Name:    "label-defaults",
		Doc:     "sets the policy's labels and annotations on pods that lack them; a value that the pod has wins",
		Needs:   []string{admit.CollectionNamespaces},
		Section: labelling.Section,
		Idle:    filler.Empty(),
		Run: func(ctx context.Context, req *admit.Request, pod *admit.Pod) error {
			if !newPod(req) {
				req.Explain("labels and annotations are set when a pod is created")
				return nil
			}
			namespace := sync.OnceValues(func() (admit.Namespace, error) { return ask.NamespaceOf(req) })
			selected, err := filler.Fill(ctx, pod.Meta, namespace)
			if err == nil && selected == 0 {
				req.Explain("no entry of labelDefaults selects the pod")
			}
			return err
		},
	}
}
