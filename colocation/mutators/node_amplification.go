package mutators

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/mutators/amplify"
)

// NodeMetrics returns the measurements of Koordinator's node agent for a node; known is false if there are none, or not
// yet. It must not wait. A nil function knows nothing.
type NodeMetrics func(node string) (metric *api.NodeMetric, known bool)

// nodeAmplification makes a node look larger to the scheduler, as Koordinator's webhook does: it changes allocatable
// only, and writes the originals to an annotation that Koordinator's scheduler reads. Package amplify decides what an
// original is, and makes sure that nothing compounds.
func nodeAmplification(policy *sections.NodeAmplification, slo sections.SLORatios, metrics NodeMetrics) admit.Mutator[admit.Node] {
	return (&nodeAmplifier{sources: policy.Sources(slo), metrics: metrics, now: time.Now}).mutator()
}

type nodeAmplifier struct {
	sources *sections.RatioSources
	metrics NodeMetrics
	now     func() time.Time
}

func (a *nodeAmplifier) mutator() admit.Mutator[admit.Node] {
	return admit.Mutator[admit.Node]{
		Name:    "node-amplification",
		Doc:     "multiplies a node's allocatable by the ratio of its pool, else of its label or annotation; never compounds",
		Section: sections.NodeAmplificationSection,
		Needs:   []string{api.CollectionSLOConfig, api.CollectionNodeMetrics},
		Run: func(_ context.Context, req *admit.Request, node *admit.Node) error {
			a.amplify(req, node)
			return nil
		},
	}
}

func (a *nodeAmplifier) amplify(req *admit.Request, node *admit.Node) {
	old := admit.StoredNode(req)
	revertRatio(req, node, old)
	ratios := a.sources.For(node)
	if !ratios.Found && !marked(node) && !marked(old) {
		req.Explain("no pool, label or annotation sets a ratio, and there is nothing to restore")
		return // most nodes
	}
	reportInvalidRatios(req, ratios)
	core := amplify.Amplifier{
		Step: "node-amplification",
		Rate: func(name corev1.ResourceName, last *amplify.Entry) amplify.Rate {
			return a.rate(req, node, name, ratios.Of[name], last)
		},
		Witness: func(seen amplify.Observation) (*amplify.Entry, bool) { return rawWitness(node, old, seen) },
	}
	next, lost := core.Amplify(req, node)
	writeRaw(node, len(ratios.Of) > 0 || ratios.Found && ratios.Malformed == nil, next, lost)
}

// marked reports whether a node has an annotation that an amplifier wrote.
func marked(node *admit.Node) bool {
	if node == nil {
		return false
	}
	_, remembered := node.Annotation(amplify.AnnotationKey)
	_, noted := node.Annotation(api.AnnotationRawAllocatable)
	return remembered || noted
}

// revertRatio reverts a kubelet's change of the ratio annotation of its node: a node could otherwise make itself large
// and attract pods. NodeRestriction does not check annotations, and writes of nodes/status do not pass the validators
// of nodes.
func revertRatio(req *admit.Request, node, old *admit.Node) {
	if old == nil || !req.ByKubelet() {
		return
	}
	const key = api.AnnotationAmplificationRatio
	was, had := old.Annotation(key)
	text, has := node.Annotation(key)
	switch {
	case was == text && had == has:
		return
	case had:
		node.SetAnnotation(key, was)
	default:
		node.RemoveAnnotation(key)
	}
	req.Tolerate("ratio-put-back", "annotation %s is put back: a kubelet must not change it", key)
}

// reportInvalidRatios reports the ratios that cannot be applied; those resources stay at their originals.
func reportInvalidRatios(req *admit.Request, ratios sections.NodeRatios) {
	const key = api.AnnotationAmplificationRatio
	if ratios.Malformed != nil {
		req.Tolerate("ratio-malformed", "annotation %s is passed over: %v", key, ratios.Malformed)
	}
	for _, name := range amplify.Amplifiable() {
		if w := ratios.Of[name]; w.Wrong != nil {
			req.Tolerate("ratio-refused", "%s is not amplified: %s: %v", name, w.By, w.Wrong)
		}
	}
	if len(ratios.Foreign) > 0 {
		req.Tolerate("ratio-foreign", "annotation %s: only cpu and memory are amplified, not %v", key, fmt.Errorf("%.20q", ratios.Foreign[0]))
	}
}

// rate returns the ratio of the sources, lowered by the node's usage if the pool says so.
func (a *nodeAmplifier) rate(
	req *admit.Request, node *admit.Node, name corev1.ResourceName, w sections.WantedRatio, last *amplify.Entry,
) amplify.Rate {
	r := amplify.Rate{Ratio: w.Ratio, By: w.By}
	if w.MaxUtilization == 0 || !w.Ratio.Amplifies() {
		return r
	}
	use, unknown := a.use(node, name, last)
	switch {
	case unknown == "":
		r.Ratio = effective(w, use, last)
		r.Note = fmt.Sprintf(", which wants %s; p95 of %s is %s of %s, at most %d %%",
			w.Ratio, use.window, &use.used, &use.capacity, w.MaxUtilization)
	case last != nil:
		r.Ratio = w.Ratio.Lower(last.Ratio)
		r.Note = fmt.Sprintf(", which wants %s; the last ratio stays: %s", w.Ratio, unknown)
	default:
		req.Explain("%s: %s wants a ratio, but %s", string(name), w.By, unknown)
		req.Audit("node-amplification."+string(name), fmt.Sprintf("not amplified yet: %s wants %s, but %s", w.By, w.Ratio, unknown))
		return amplify.Rate{}
	}
	r.Wanted = w.Ratio
	return r
}

// hysteresisPercent is the difference in percent from which on a ratio replaces the last one, so that it does not
// follow every small change of a node.
const hysteresisPercent = 5

// effective returns the wanted ratio, lowered by the node's usage.
func effective(w sections.WantedRatio, use nodeUse, last *amplify.Entry) quantity.Ratio {
	ratio := w.Ratio.WithinUse(w.MaxUtilization, use.capacity, use.used, use.name)
	if last == nil || !wantedRatio(last).Near(w.Ratio, 0) || !ratio.Near(last.Ratio, hysteresisPercent) {
		return ratio
	}
	return w.Ratio.Lower(last.Ratio)
}

// wantedRatio returns the ratio that the source of an entry wanted.
func wantedRatio(r *amplify.Entry) quantity.Ratio {
	if r.Wanted.Amplifies() {
		return r.Wanted
	}
	return r.Ratio
}

// nodeUse is the usage of one resource of a node.
type nodeUse struct {
	name           corev1.ResourceName
	used, capacity resource.Quantity // used is the 95th percentile
	window         time.Duration
}

// metricAge is the age from which on a NodeMetric is stale, as in Koordinator's manager (degradeTimeMinutes).
const metricAge = 15 * time.Minute

// use returns the usage of a node; unknown is the reason if it is not known.
func (a *nodeAmplifier) use(node *admit.Node, name corev1.ResourceName, last *amplify.Entry) (u nodeUse, unknown string) {
	capacity, ok := node.Capacity().Get(name)
	if !ok || capacity.Sign() <= 0 {
		return u, "the node shows no capacity"
	}
	if last != nil && last.Raw.Capacity != nil && last.Result.Capacity != nil && last.Result.Capacity.Cmp(capacity) == 0 {
		capacity = *last.Raw.Capacity // it was raised by another amplifier, and is restored after this
	}
	var metric *api.NodeMetric
	if a.metrics != nil {
		metric, _ = a.metrics(node.Name())
	}
	if metric == nil || metric.Status.UpdateTime == nil {
		return u, "there is no NodeMetric"
	}
	if at := metric.Status.UpdateTime; a.now().Sub(at.Time) > metricAge {
		return u, "the NodeMetric is of " + at.UTC().Format(time.RFC3339)
	}
	used, window, known := metric.P95(name)
	if !known {
		return u, "the NodeMetric has no p95"
	}
	return nodeUse{name, used, capacity, window}, ""
}
