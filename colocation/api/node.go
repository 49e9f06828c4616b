package api

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/amplify"
	"usher.dev/usher/document"
	"usher.dev/usher/quantity"
)

// LabelOvercommitPrefix begins the label of a node that gives a resource's ratio, such as overcommit-cpu: "1.5". A kubelet may write
// any annotation on its node, but no label with this prefix (Kubernetes documentation, "NodeRestriction").
const LabelOvercommitPrefix = corev1.LabelNamespaceNodeRestriction + "/overcommit-"

// NodeRatios is what AnnotationAmplificationRatio says: JSON of resource name to number, {"cpu":1.5}.
type NodeRatios struct {
	// Of are the ratios of resources that may be amplified.
	Of map[corev1.ResourceName]quantity.Ratio
	// Wrong are those that cannot be obeyed, and why.
	Wrong map[corev1.ResourceName]error
	// Foreign are other names that stand there, sorted: they are not amplified.
	Foreign []string
}

// ParseNodeRatios reads the annotation. Empty text says nothing. The error, that it is no JSON object, is worded for the user.
func ParseNodeRatios(text string) (said NodeRatios, err error) {
	if text == "" {
		return said, nil
	}
	parsed, err := document.ParseText(text)
	if err != nil {
		return said, err
	}
	defer parsed.Release()
	if kind := parsed.Root().Bytes()[0]; kind != '{' {
		return said, errors.New("no JSON object")
	}
	said = NodeRatios{map[corev1.ResourceName]quantity.Ratio{}, map[corev1.ResourceName]error{}, nil}
	for member, value := range parsed.Root().Members() {
		name := corev1.ResourceName(member)
		if !slices.Contains(amplify.Amplifiable(), name) {
			said.Foreign = append(said.Foreign, member)
			continue
		}
		if said.Of[name], err = quantity.ParseRatioNumber(string(value.Bytes())); err != nil {
			said.Wrong[name] = err
			delete(said.Of, name)
		}
	}
	slices.Sort(said.Foreign)
	return said, parsed.Err()
}

// NodeMetric is what Koordinator's node agent measured on the node of the same name: the fields that usher uses.
type NodeMetric struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            NodeMetricStatus `json:"status"`
}

// NodeMetricStatus is the status of a NodeMetric.
type NodeMetricStatus struct {
	// UpdateTime is when the agent reported last; nil: never.
	UpdateTime *metav1.Time `json:"updateTime,omitempty"`
	NodeMetric struct {
		// AggregatedNodeUsages are the uses of the node as a whole, one for each window.
		AggregatedNodeUsages []AggregatedUsage `json:"aggregatedNodeUsages,omitempty"`
	} `json:"nodeMetric"`
}

// AggregatedUsage is what was used in a window of time.
type AggregatedUsage struct {
	// Duration is the length of the window, which ends at UpdateTime.
	Duration metav1.Duration `json:"duration"`
	Usage    struct {
		// P95 is the amount that was not exceeded in 95 % of the window.
		P95 struct {
			Resources ResourceList `json:"resources,omitempty"`
		} `json:"p95"`
	} `json:"usage"`
}

// P95 gives the 95th percentile of a resource's use in the longest window that has it, and the length of that window.
func (m *NodeMetric) P95(name corev1.ResourceName) (used resource.Quantity, window time.Duration, known bool) {
	for _, usage := range m.Status.NodeMetric.AggregatedNodeUsages {
		q, has := usage.Usage.P95.Resources[name]
		if has && q.Sign() >= 0 && (!known || usage.Duration.Duration > window) {
			used, window, known = q, usage.Duration.Duration, true
		}
	}
	return used, window, known
}

// The type and the resource of NodeMetrics.
var (
	NodeMetricKind     = schema.GroupVersionKind{Group: "slo.koordinator.sh", Version: "v1alpha1", Kind: "NodeMetric"}
	NodeMetricResource = NodeMetricKind.GroupVersion().WithResource("nodemetrics")
)

// CollectionNodeMetrics names the collection of all of them, for Needs.
const CollectionNodeMetrics = "nodemetrics"
