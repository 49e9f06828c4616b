package sections

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/internal/selector"
	"usher.dev/usher/mutators/amplify"
)

// SLORatios returns the ratios of resource-amplification-config for a node with the given labels: decimal numbers by
// resource name. ok is false if there are none for the node, or if they are not known.
type SLORatios func(labels map[string]string) (ratios map[string]string, ok bool)

// RatioSources determines by which ratio the resources of a node are amplified. For each resource, the first source
// that names it decides, even if its value is not valid: the policy's pool, the SLO configuration, the node's label,
// its annotation. A kubelet can write the annotation of its own node, so that is last.
type RatioSources struct {
	pools []ratioPool
	slo   SLORatios
}

type ratioPool struct {
	AmplificationPool
	by             string          // for display
	selector       labels.Selector // nil selects all nodes
	ratios, bounds byResource
}

// Sources compiles a policy that was validated when it was loaded. slo may be nil.
func (n *NodeAmplification) Sources(slo SLORatios) *RatioSources {
	s := &RatioSources{}
	if n == nil {
		return s
	}
	if n.FromSLOConfig {
		s.slo = slo
	}
	for _, pool := range n.Pools {
		compiled := ratioPool{AmplificationPool: pool, by: "pool " + pool.Name, selector: selector.Compile(&pool.Selector)}
		compiled.ratios, _ = checkRatios(pool.Ratios, nil)
		compiled.bounds, _ = checkRatios(pool.MaxRatios, nil)
		s.pools = append(s.pools, compiled)
	}
	return s
}

// pool returns the pool of a node with the given labels, or an empty one.
func (s *RatioSources) pool(node labels.Labels) *ratioPool {
	for i := range s.pools {
		if p := &s.pools[i]; p.selector == nil || p.selector.Matches(node) {
			return p
		}
	}
	return &ratioPool{}
}

// WantedRatio is the outcome for one resource of a node.
type WantedRatio struct {
	// Ratio is 1 if no source names the resource, or if the value is not valid.
	Ratio quantity.Ratio
	// By is the deciding source, such as "pool batch"; empty if none names the resource.
	By string
	// Wrong is the reason why the value is not valid; nil if it is.
	Wrong error
	// MaxUtilization is the pool's maximum utilization in percent of capacity; 0 if it is not set.
	MaxUtilization int
}

// NodeRatios is the outcome for a node.
type NodeRatios struct {
	// Found reports whether any source sets anything for the node.
	Found bool
	// Of holds the resources that may be amplified.
	Of map[corev1.ResourceName]WantedRatio
	// Foreign lists names in the annotation that are not amplified, sorted.
	Foreign []string
	// Malformed is the error if the annotation is not a JSON object of numbers.
	Malformed error
}

// The sources of ratios for display, besides "pool NAME".
const (
	BySLOConfig  = "SLO configuration"
	ByLabel      = "label"
	ByAnnotation = "annotation"
)

// For returns the ratios that the sources set for a node.
func (s *RatioSources) For(node *admit.Node) (ratios NodeRatios) {
	pool := s.pool(node.Selectable())
	annotation := views.RatioAnnotation(node)
	values := nodeValues{node: node, pool: pool}
	values.annotation, ratios.Malformed = api.ParseNodeRatios(annotation)
	ratios.Foreign = values.annotation.Foreign
	if s.slo != nil {
		values.slo, _ = s.slo(node.Labels())
	}
	ratios.Found = annotation != ""
	for _, name := range amplify.Amplifiable() {
		wanted := values.wanted(name)
		if wanted.By == "" {
			continue
		}
		if ratios.Of == nil {
			ratios.Of = map[corev1.ResourceName]WantedRatio{}
		}
		ratios.Of[name], ratios.Found = wanted, true
	}
	return ratios
}

// nodeValues holds the content of all sources for one node.
type nodeValues struct {
	node       *admit.Node
	pool       *ratioPool
	slo        map[string]string
	annotation api.NodeRatios
}

func (v *nodeValues) wanted(name corev1.ResourceName) (w WantedRatio) {
	w.Ratio, w.By, w.Wrong = v.first(name)
	if bound, bounded := v.pool.bounds[name]; w.Wrong == nil && bounded && w.Ratio.Above(bound) {
		w.Wrong = fmt.Errorf("%s is above %s, the bound of %s for %s", w.Ratio, bound, v.pool.by, name)
	}
	if w.Wrong != nil {
		w.Ratio = quantity.Ratio{}
	}
	w.MaxUtilization = v.pool.MaxUtilization[name]
	return w
}

// first returns the value of the first source that names a resource.
func (v *nodeValues) first(name corev1.ResourceName) (ratio quantity.Ratio, by string, err error) {
	if ratio, ok := v.pool.ratios[name]; ok {
		return ratio, v.pool.by, nil
	}
	if text, ok := v.slo[string(name)]; ok {
		ratio, err = quantity.ParseRatioNumber(text)
		return ratio, BySLOConfig, err
	}
	if text, ok := views.RatioLabel(v.node, name); ok {
		ratio, err = quantity.ParseRatio(text)
		return ratio, ByLabel, err
	}
	if ratio, ok := v.annotation.Of[name]; ok {
		return ratio, ByAnnotation, nil
	}
	if err := v.annotation.Wrong[name]; err != nil {
		return ratio, ByAnnotation, err
	}
	return ratio, "", nil
}

// Bound returns the bound of a resource in the pool of a node with the given labels, and the display name of the pool; false if there is none.
func (s *RatioSources) Bound(node labels.Labels, name corev1.ResourceName) (bound quantity.Ratio, by string, bounded bool) {
	pool := s.pool(node)
	bound, bounded = pool.bounds[name]
	return bound, pool.by, bounded
}

// LargestBound returns the largest bound of a resource in any pool; false if there is no pool, or one without a bound.
func (s *RatioSources) LargestBound(name corev1.ResourceName) (largest quantity.Ratio, bounded bool) {
	for i := range s.pools {
		bound, found := s.pools[i].bounds[name]
		if !found {
			return largest, false
		}
		if i == 0 || bound.Above(largest) {
			largest = bound
		}
	}
	return largest, len(s.pools) > 0
}
