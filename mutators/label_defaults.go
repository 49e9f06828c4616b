package mutators

import (
	"context"
	"strconv"
	"strings"
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
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) error {
			if !newPod(req) {
				req.Explain("labels and annotations are set when a pod is created")
				return nil
			}
			namespace := sync.OnceValues(func() (admit.Namespace, error) { return ask.NamespaceOf(req) })
			added, selected, err := filler.Fill(pod.Meta, namespace)
			switch {
			case err != nil:
				return err
			case !req.Explained():
			case len(added) > 0:
				req.Explain("labelDefaults sets what the pod lacks: %s", strings.Join(added, ", "))
			case selected > 0:
				req.Explain("the pod has what %s of labelDefaults would set, or its namespace has no value for it", entries(selected))
			default:
				req.Explain("no entry of labelDefaults selects the pod")
			}
			return nil
		},
	}
}

// entries returns a number of entries in words.
func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return strconv.Itoa(n) + " entries"
}
