package api

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/document"
)

// LabelOvercommitPrefix begins the label of a node that gives a resource's ratio, such as overcommit-cpu: "1.5". A kubelet may write
// any annotation on its node, but no label with this prefix (Kubernetes documentation, "NodeRestriction").
const LabelOvercommitPrefix = corev1.LabelNamespaceNodeRestriction + "/overcommit-"

// Amplifiable are the resources of a node that may be amplified: those that its pods share by time or by reclaim.
func Amplifiable() []corev1.ResourceName { return amplifiable }

var amplifiable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// NodeRatios is what AnnotationAmplificationRatio says: JSON of resource name to number, {"cpu":1.5}.
type NodeRatios struct {
	// Of are the ratios of resources that may be amplified.
	Of map[corev1.ResourceName]Ratio
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
	said = NodeRatios{map[corev1.ResourceName]Ratio{}, map[corev1.ResourceName]error{}, nil}
	for member, value := range parsed.Root().Members() {
		name := corev1.ResourceName(member)
		if !slices.Contains(Amplifiable(), name) {
			said.Foreign = append(said.Foreign, member)
			continue
		}
		if said.Of[name], err = ParseRatioNumber(string(value.Bytes())); err != nil {
			said.Wrong[name] = err
			delete(said.Of, name)
		}
	}
	slices.Sort(said.Foreign)
	return said, parsed.Err()
}

// ratioNumber bounds a ratio that is a JSON number, so that no exponent makes it expensive.
var ratioNumber = regexp.MustCompile(`^-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?$`)

// maxMillionths is the largest ratio that ParseRatio reads: 9999.999999.
const maxMillionths = 9999_999999

// ParseRatioNumber reads a ratio as it stands in JSON: a number from 1 to 9999, with any decimals and exponent. What follows its
// sixth decimal is cut off. The zeros at its end are not kept, so that 1.50 and 1.5 are the same text.
func ParseRatioNumber(text string) (Ratio, error) {
	if ratio, err := ParseRatio(text); err == nil {
		return ofMillionths(ratio.millionths), nil // nearly all of them
	}
	if !ratioNumber.MatchString(text) {
		return Ratio{}, fmt.Errorf("%.20s is not a JSON number such as 1.5", text)
	}
	number, _ := new(big.Rat).SetString(text)
	number.Mul(number, new(big.Rat).SetInt64(million))
	switch millionths := floor(number); {
	case !millionths.IsInt64() || millionths.Int64() > maxMillionths:
		return Ratio{}, fmt.Errorf("%.20s is above 9999", text)
	case millionths.Int64() < million:
		return Ratio{}, fmt.Errorf("%.20s is below 1, which would shrink the node", text)
	default:
		return ofMillionths(millionths.Uint64()), nil
	}
}

func floor(r *big.Rat) *big.Int { return new(big.Int).Div(r.Num(), r.Denom()) }

// ofMillionths makes the ratio with the shortest text.
func ofMillionths(millionths uint64) Ratio {
	text := strconv.FormatUint(millionths/million, 10)
	if rest := millionths % million; rest > 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%06d", rest), "0")
	}
	return Ratio{text, millionths}
}

// WithinUse lowers a ratio where a resource is used a lot already: max(1, min(r, r × percent % × capacity / used)). What is lowered
// is rounded down to hundredths. A use or a capacity of zero lowers nothing.
func (r Ratio) WithinUse(percent int, capacity, used resource.Quantity, name corev1.ResourceName) Ratio {
	if used.Sign() <= 0 || capacity.Sign() <= 0 {
		return r
	}
	hundredths := big.NewRat(int64(r.value())*int64(percent), million) // of r × percent %
	hundredths.Mul(hundredths, new(big.Rat).Quo(InUnits(capacity, name), InUnits(used, name)))
	if hundredths.Cmp(big.NewRat(int64(r.value()), million/100)) >= 0 {
		return r
	}
	return ofMillionths(max(million, floor(hundredths).Uint64()*(million/100)))
}

// Lower is the smaller of two ratios.
func (r Ratio) Lower(other Ratio) Ratio {
	if r.Above(other) {
		return other
	}
	return r
}

// Near tells whether r differs from another ratio by at most so many percent of that.
func (r Ratio) Near(other Ratio, percent int) bool {
	apart := max(r.value(), other.value()) - min(r.value(), other.value())
	return apart*100 <= other.value()*uint64(percent)
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
