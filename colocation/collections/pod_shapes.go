package collections

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// podShapes remembers what quotas count of the pods of each shape: the JSON of all that it depends on. Most pods have the
// shape of another, of the same workload. They need not be decoded, and share their amounts, which are most of their memory.
type podShapes struct {
	mu     sync.Mutex
	shape  []byte                // of the pod that is read
	counts map[string]*quota.Pod // by shape: without what only one pod has
	texts  map[string]string     // names of nodes and quotas
}

// The bounds of what is remembered. Beyond the number of shapes or texts it begins anew, which costs memory and time, nothing
// else; a pod with a longer shape is decoded.
const (
	maxShapes, maxShape = 4096, 4096
	maxTexts, maxText   = 32_768, 256
)

func newPodShapes() *podShapes {
	return &podShapes{counts: map[string]*quota.Pod{}, texts: map[string]string{}}
}

// read returns what is kept of a pod. It is a cluster.Shortcut.
func (s *podShapes) read(o cluster.Sent, decode func() (*quota.Pod, bool)) (*quota.Pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shape, usual := appendShape(s.shape[:0], o.Metadata, o.Object.Member("spec"), o.Object.Member("status"))
	if !usual || len(shape) > maxShape {
		return nil, false
	}
	s.shape = shape
	counted, known := s.counts[string(shape)]
	if !known {
		if counted, known = decode(); !known {
			return nil, false
		}
		counted.Namespace, counted.Name, counted.UID, counted.Node, counted.Label = "", "", "", "", ""
		if len(s.counts) >= maxShapes {
			clear(s.counts)
		}
		s.counts[string(shape)] = counted
	}
	pod, label := *counted, o.Metadata.Member("labels").Member(api.LabelQuotaName)
	pod.Namespace, pod.Name, pod.UID = o.Namespace, o.Name, types.UID(o.UID)
	pod.Node, pod.Label, pod.Labelled = s.text(o.Object.Member("spec").Member("nodeName")), s.text(label), label.Exists()
	return &pod, true
}

// text returns a string of which many pods have an equal one.
func (s *podShapes) text(v document.Raw) string {
	text := v.Text()
	if text == "" || len(text) > maxText {
		return text
	}
	known, ok := s.texts[text]
	if !ok {
		if len(s.texts) >= maxTexts {
			clear(s.texts)
		}
		s.texts[text], known = text, text
	}
	return known
}

// appendShape appends all that quota.PodOf, and the decoding of a countedPod before it, depend on beside the pod's names, its
// node and its label. It returns false if the pod has not the form in which an API server sends it.
func appendShape(to []byte, metadata, spec, status document.Raw) (shape []byte, usual bool) {
	node := spec.Member("nodeName")
	if spec.Kind() != document.Object || status.Exists() && status.Kind() != document.Object ||
		node.Exists() && node.Kind() != document.Text {
		return to, false
	}
	annotations, bound := metadata.Member("annotations"), byte('0')
	if node.Exists() && !node.IsText("") {
		bound = '1'
	}
	to = appendParts(append(to, bound), annotations.Member(api.AnnotationDeviceClaims), annotations.Member(api.AnnotationReplaceResources),
		metadata.Member("generation"), spec.Member("overhead"), spec.Member("resources"),
		status.Member("phase"), status.Member("observedGeneration"), status.Member("allocatedResources"), status.Member("resources"))
	for _, list := range []struct {
		elements document.Raw
		parts    []string
	}{
		{spec.Member("initContainers"), []string{"name", "resources", "restartPolicy"}},
		{spec.Member("containers"), []string{"name", "resources", "restartPolicy"}},
		{status.Member("initContainerStatuses"), []string{"name", "allocatedResources", "resources"}},
		{status.Member("containerStatuses"), []string{"name", "allocatedResources", "resources"}},
	} {
		if to, usual = appendElements(to, list.elements, list.parts); !usual {
			return to, false
		}
	}
	return appendResizes(to, status.Member("conditions"))
}

// The bytes that separate the parts of a shape are in no JSON.
const (
	partEnds = 0
	listEnds = 1
)

func appendParts(to []byte, parts ...document.Raw) []byte {
	for _, part := range parts {
		to = append(append(to, part.Bytes()...), partEnds)
	}
	return to
}

// appendElements appends the named members of each element of a list of objects.
func appendElements(to []byte, list document.Raw, names []string) (shape []byte, usual bool) {
	if list.Exists() && list.Kind() != document.Array {
		return to, false
	}
	for all := list.Children(); all.More(); {
		element := all.Next()
		if element.Kind() != document.Object {
			return to, false
		}
		for _, name := range names {
			to = appendParts(to, element.Member(name))
		}
	}
	return append(to, listEnds), true
}

// appendResizes appends the conditions that say that a resize waits. Of the others only the form matters, not what they say.
func appendResizes(to []byte, conditions document.Raw) (shape []byte, usual bool) {
	if conditions.Exists() && conditions.Kind() != document.Array {
		return to, false
	}
	for all := conditions.Children(); all.More(); {
		c := all.Next()
		kind, reason, generation := c.Member("type"), c.Member("reason"), c.Member("observedGeneration")
		if kind.Kind() != document.Text || reason.Exists() && reason.Kind() != document.Text ||
			generation.Exists() && !isGeneration(generation.Bytes()) {
			return to, false
		}
		if kind.IsText(string(corev1.PodResizePending)) {
			to = appendParts(to, reason, generation)
		}
	}
	return append(to, listEnds), true
}

// isGeneration reports whether JSON is the generation of an object.
func isGeneration(raw []byte) bool {
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(raw) < 18
}
