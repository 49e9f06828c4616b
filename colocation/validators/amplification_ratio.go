package validators

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/mutators/amplify"
)

// NodeRequests returns the sum of the requests of the pods on a node; known is false if it is not available, or not yet.
// It must not wait. A nil function knows nothing.
type NodeRequests func(node string) (requests corev1.ResourceList, known bool)

// amplificationRatio refuses to store ratios on a node that /mutate-node-status could not apply, or only up to the
// bounds of the node's pool, because it cannot refuse the heartbeat. Ratios that are already stored may stay. A ratio
// that is lowered below what the node's pods request is allowed with a warning: they keep running, but the node accepts
// no more.
func amplificationRatio(policy *sections.NodeAmplification, slo sections.SLORatios, pods NodeRequests) admit.Validator[admit.Node] {
	sources := policy.Sources(slo)
	return admit.Validator[admit.Node]{
		Name:    "amplification-ratio",
		Doc:     "refuses ratios on nodes that are malformed, below 1, above the pool's bound, or written by a kubelet; warns of lowered ones",
		Section: sections.NodeAmplificationSection,
		Needs:   []string{api.CollectionSLOConfig, api.CollectionPodRequests},
		Run: func(_ context.Context, req *admit.Request, node *admit.Node) (problems field.ErrorList, _ error) {
			if node.Deleting() {
				return pass(req, "the node is being deleted")
			}
			old := admit.StoredNode(req)
			changed := annotationChanged(node, old)
			if changed {
				problems = checkRatioAnnotation(req, node, sources)
			}
			problems = append(problems, checkRatioLabels(node, old, sources)...)
			if len(problems) == 0 && old != nil {
				warnOfLowered(req, node, old, sources, pods)
			}
			switch {
			case len(problems) > 0:
			case changed:
				req.Explain("the annotation %s is well-formed and within the bounds", api.AnnotationAmplificationRatio)
			default:
				req.Explain("the annotation %s does not change, and no new label %s* is out of bounds",
					api.AnnotationAmplificationRatio, api.LabelOvercommitPrefix)
			}
			return problems, nil
		},
	}
}

var ratioPath = admit.AnnotationPath(api.AnnotationAmplificationRatio)

func annotationChanged(node, old *admit.Node) bool {
	text, has := node.Annotation(api.AnnotationAmplificationRatio)
	if old == nil {
		return has
	}
	was, had := old.Annotation(api.AnnotationAmplificationRatio)
	return text != was || has != had
}

// checkRatioAnnotation returns all problems of a changed annotation.
func checkRatioAnnotation(req *admit.Request, node *admit.Node, sources *sections.RatioSources) (problems field.ErrorList) {
	if req.ByKubelet() {
		return field.ErrorList{field.Forbidden(ratioPath, "a kubelet must not say how its node is amplified; ask an administrator, "+
			"who may label the node "+api.LabelOvercommitPrefix+"cpu")}
	}
	text := views.RatioAnnotation(node)
	said, err := api.ParseNodeRatios(text)
	if err != nil {
		return field.ErrorList{field.Invalid(ratioPath, admit.Shorten(text, 200), err.Error()+`; write it like {"cpu":1.5}, or remove it`)}
	}
	for _, name := range amplify.Amplifiable() {
		bound, limit := boundOf(sources, node.Selectable(), name)
		if err := said.Wrong[name]; err != nil {
			problems = append(problems, field.Invalid(ratioPath, admit.Shorten(text, 200), fmt.Sprintf("%s: %v; %s", name, err, limit)))
		} else if ratio := said.Of[name]; bound.above(ratio) {
			problems = append(problems, field.Invalid(ratioPath, ratio.String(), fmt.Sprintf("%s is above its bound; %s", name, limit)))
		}
	}
	return append(problems, foreign(said.Foreign)...)
}

// foreign refuses names that are not amplified; it lists the first ten.
func foreign(names []string) (problems field.ErrorList) {
	for _, name := range names[:min(len(names), 10)] {
		problems = append(problems, field.Invalid(ratioPath, admit.Shorten(name, 60), api.ForeignRatio(name)))
	}
	return problems
}

// checkRatioLabels checks the labels that set ratios. NodeRestriction prevents kubelets from writing them.
func checkRatioLabels(node, old *admit.Node, sources *sections.RatioSources) (problems field.ErrorList) {
	for _, name := range amplify.Amplifiable() {
		text, has := views.RatioLabel(node, name)
		if !has {
			continue
		}
		if old != nil {
			if was, had := views.RatioLabel(old, name); had && was == text {
				continue
			}
		}
		at := admit.LabelPath(api.LabelOvercommitPrefix + string(name))
		bound, limit := boundOf(sources, node.Selectable(), name)
		ratio, err := quantity.ParseRatio(text)
		switch {
		case err != nil:
			problems = append(problems, field.Invalid(at, text, fmt.Sprintf("%v; %s", err, limit)))
		case bound.above(ratio):
			problems = append(problems, field.Invalid(at, text, fmt.Sprintf("%s is above its bound; %s", name, limit)))
		}
	}
	return problems
}

// ratioBound checks against the administrator's bound, if there is one.
type ratioBound struct {
	quantity.Ratio
	there bool
}

func (b ratioBound) above(ratio quantity.Ratio) bool { return b.there && ratio.Above(b.Ratio) }

// boundOf returns the bound of a node's pool, and a description of what is allowed.
func boundOf(sources *sections.RatioSources, node labels.Labels, name corev1.ResourceName) (bound ratioBound, allowed string) {
	ratio, by, there := sources.Bound(node, name)
	if !there {
		return bound, "it must be from 1 to 9999"
	}
	return ratioBound{ratio, true}, fmt.Sprintf("it must be from 1 to %s, the bound of %s", ratio, by)
}

// warnOfLowered warns if a node's pods request more than a lowered ratio leaves. A node without recorded originals was
// not amplified, so nothing is lowered.
func warnOfLowered(req *admit.Request, node, old *admit.Node, sources *sections.RatioSources, pods NodeRequests) {
	text, noted := old.Annotation(api.AnnotationRawAllocatable)
	if !noted {
		return
	}
	originals, _ := api.ParseJSONText[api.ResourceList](text)
	was, now := sources.For(old), sources.For(node)
	for _, name := range amplify.Amplifiable() {
		original, known := originals[name]
		before, after := was.Of[name].Ratio, now.Of[name].Ratio
		if !known || !before.Above(after) {
			continue
		}
		left, _ := after.Amplify(original, name)
		asked, known := requested(pods, old.Name(), name)
		if over := asked.DeepCopy(); !known {
			req.Warnf("%s: ratio %s becomes %s; usher cannot tell whether the node's pods ask for more", name, before, after)
		} else if over.Sub(left); over.Sign() > 0 {
			req.Warnf("%s: pods ask for %s, %s more than the %s left at ratio %s; new pods fail, and some at a restart",
				name, &asked, &over, &left, after)
		}
	}
}

func requested(pods NodeRequests, node string, name corev1.ResourceName) (asked resource.Quantity, known bool) {
	if pods == nil {
		return asked, false
	}
	requests, known := pods(node)
	return requests[name], known
}
