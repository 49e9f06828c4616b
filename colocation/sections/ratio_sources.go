package sections

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/amplify"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/quantity"
)

// SLORatios gives the ratios of resource-amplification-config for a node with these labels: decimal numbers by resource name. ok is
// false if it says nothing about the node, or is not known.
type SLORatios func(labels map[string]string) (ratios map[string]string, ok bool)

// RatioSources say by which ratio a node's resources are amplified. For each resource the first source that names it decides, also if
// what it says cannot be obeyed: the policy's pool, the SLO configuration, the node's label, its annotation. A kubelet can write the
// annotation of its own node, so that one comes last.
type RatioSources struct {
	pools []ratioPool
	slo   SLORatios
}

type ratioPool struct {
	AmplificationPool
	by             string // as it is shown
	selector       labels.Selector
	ratios, bounds byResource
}

// Sources compiles a policy that was checked when it was loaded. slo may be nil.
func (n *NodeAmplification) Sources(slo SLORatios) *RatioSources {
	s := &RatioSources{}
	if n == nil {
		return s
	}
	if n.FromSLOConfig {
		s.slo = slo
	}
	for _, pool := range n.Pools {
		selector, err := metav1.LabelSelectorAsSelector(&pool.Selector)
		if err != nil {
			selector = labels.Nothing() // the policy's check refuses such a selector
		}
		compiled := ratioPool{AmplificationPool: pool, by: "pool " + pool.Name, selector: selector}
		compiled.ratios, _ = checkRatios(pool.Ratios, nil)
		compiled.bounds, _ = checkRatios(pool.MaxRatios, nil)
		s.pools = append(s.pools, compiled)
	}
	return s
}

// pool is the node's pool; an empty one if no pool is.
func (s *RatioSources) pool(node *admit.Node) *ratioPool {
	for i := range s.pools {
		if p := &s.pools[i]; p.selector.Empty() || p.selector.Matches(node.Selectable()) {
			return p
		}
	}
	return &ratioPool{}
}

// WantedRatio is what the sources say about one resource of a node.
type WantedRatio struct {
	// Ratio is 1 if no source names the resource, or if what it says cannot be obeyed.
	Ratio quantity.Ratio
	// By is the source that decides, such as "pool batch"; empty if none names the resource.
	By string
	// Wrong is why the source cannot be obeyed; nil if it can.
	Wrong error
	// MaxUtilization is the pool's, in percent of capacity; 0 if it has none.
	MaxUtilization int
}

// NodeRatios is what the sources say about a node.
type NodeRatios struct {
	// Speaks tells that a source says anything at all about the node.
	Speaks bool
	// Of are the resources that may be amplified.
	Of map[corev1.ResourceName]WantedRatio
	// Foreign are names in the annotation that are not amplified, sorted.
	Foreign []string
	// Malformed is why the annotation is no JSON object of numbers; nil if it is.
	Malformed error
}

// Sources of ratios, as they are shown beside "pool NAME".
const (
	BySLOConfig  = "SLO configuration"
	ByLabel      = "label"
	ByAnnotation = "annotation"
)

// For gives what the sources say about a node.
func (s *RatioSources) For(node *admit.Node) (said NodeRatios) {
	pool := s.pool(node)
	annotation := views.RatioAnnotation(node)
	asked := asked{node: node, pool: pool}
	asked.annotation, said.Malformed = api.ParseNodeRatios(annotation)
	said.Foreign = asked.annotation.Foreign
	if s.slo != nil {
		asked.slo, _ = s.slo(node.Labels())
	}
	said.Speaks = annotation != ""
	for _, name := range amplify.Amplifiable() {
		wanted := asked.about(name)
		if wanted.By == "" {
			continue
		}
		if said.Of == nil {
			said.Of = map[corev1.ResourceName]WantedRatio{}
		}
		said.Of[name], said.Speaks = wanted, true
	}
	return said
}

// asked are the sources' words about one node.
type asked struct {
	node       *admit.Node
	pool       *ratioPool
	slo        map[string]string
	annotation api.NodeRatios
}

func (a *asked) about(name corev1.ResourceName) (w WantedRatio) {
	w.Ratio, w.By, w.Wrong = a.first(name)
	if bound, bounded := a.pool.bounds[name]; w.Wrong == nil && bounded && w.Ratio.Above(bound) {
		w.Wrong = fmt.Errorf("%s is above %s, the bound of %s for %s", w.Ratio, bound, a.pool.by, name)
	}
	if w.Wrong != nil {
		w.Ratio = quantity.Ratio{}
	}
	w.MaxUtilization = a.pool.MaxUtilization[name]
	return w
}

// first is what the first source says that names a resource.
func (a *asked) first(name corev1.ResourceName) (ratio quantity.Ratio, by string, err error) {
	if ratio, ok := a.pool.ratios[name]; ok {
		return ratio, a.pool.by, nil
	}
	if text, ok := a.slo[string(name)]; ok {
		ratio, err = quantity.ParseRatioNumber(text)
		return ratio, BySLOConfig, err
	}
	if text, ok := views.RatioLabel(a.node, name); ok {
		ratio, err = quantity.ParseRatio(text)
		return ratio, ByLabel, err
	}
	if ratio, ok := a.annotation.Of[name]; ok {
		return ratio, ByAnnotation, nil
	}
	if err := a.annotation.Wrong[name]; err != nil {
		return ratio, ByAnnotation, err
	}
	return ratio, "", nil
}

// Bound is the bound of a node's pool for a resource, and the pool as it is shown; false if there is none.
func (s *RatioSources) Bound(node *admit.Node, name corev1.ResourceName) (bound quantity.Ratio, by string, bounded bool) {
	pool := s.pool(node)
	bound, bounded = pool.bounds[name]
	return bound, pool.by, bounded
}
