package api

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/mutators/amplify"
)

// LabelOvercommitPrefix is the prefix of the node labels that set the ratio of a resource, such as overcommit-cpu:
// "1.5". A kubelet may write any annotation on its node, but no label with this prefix (Kubernetes documentation,
// "NodeRestriction").
const LabelOvercommitPrefix = corev1.LabelNamespaceNodeRestriction + "/overcommit-"

// NodeRatios is the content of AnnotationAmplificationRatio, a JSON object from resource name to number: {"cpu":1.5}.
type NodeRatios struct {
	// Of holds the ratios of resources that may be amplified.
	Of map[corev1.ResourceName]quantity.Ratio
	// Wrong holds the errors of ratios that are not valid.
	Wrong map[corev1.ResourceName]error
	// Foreign lists the other names, sorted. They are not amplified.
	Foreign []string
}

// ParseNodeRatios parses the annotation. Empty text has no ratios. The error, that the text is not a JSON object, is
// worded for users.
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
		if ForeignRatio(member) != "" {
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

// ForeignRatio returns why a name has no ratio, with the way out; "" if the resource may be amplified.
func ForeignRatio(name string) string {
	known := corev1.ResourceName(strings.ToLower(name))
	switch {
	case !slices.Contains(amplify.Amplifiable(), known):
		return "is not amplified: only cpu and memory are; remove it"
	case string(known) != name:
		return "must be written " + string(known)
	}
	return ""
}

// NodeMetric holds the measurements of Koordinator's agent on the node of the same name, reduced to the fields that
// usher uses.
type NodeMetric struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            NodeMetricStatus `json:"status"`
}

// NodeMetricStatus is the status of a NodeMetric.
type NodeMetricStatus struct {
	// UpdateTime is the time of the agent's last report; nil if there is none.
	UpdateTime *metav1.Time `json:"updateTime,omitempty"`
	NodeMetric struct {
		// AggregatedNodeUsages is the usage of the whole node, for several windows.
		AggregatedNodeUsages []AggregatedUsage `json:"aggregatedNodeUsages,omitempty"`
	} `json:"nodeMetric"`
}

// AggregatedUsage is the usage in a window of time.
type AggregatedUsage struct {
	// Duration is the length of the window, which ends at UpdateTime.
	Duration metav1.Duration `json:"duration"`
	Usage    struct {
		// P95 is the 95th percentile of the usage in the window.
		P95 struct {
			Resources ResourceList `json:"resources,omitempty"`
		} `json:"p95"`
	} `json:"usage"`
}

// P95 returns the 95th percentile of a resource's usage in the longest window that has it, and the length of that
// window.
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

// CollectionNodeMetrics is the name of their collection, for Needs.
const CollectionNodeMetrics = "nodemetrics"
