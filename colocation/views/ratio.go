package views

import (
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// RatioAnnotation returns the annotation that requests amplification of a node, as Koordinator's manager writes it;
// empty if it is missing.
func RatioAnnotation(n *admit.Node) string {
	text, _ := n.Annotation(api.AnnotationAmplificationRatio)
	return text
}

// RatioLabel returns the label that sets the ratio of a resource on a node, and reports whether it is set.
func RatioLabel(n *admit.Node, name corev1.ResourceName) (string, bool) {
	key := api.LabelOvercommitPrefix + string(name)
	return n.Label(key), n.HasLabel(key)
}
