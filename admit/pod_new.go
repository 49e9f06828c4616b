package admit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// FillNew sets what the API server and its own plug-ins set in a new pod before they call webhooks, and not in a template: the
// service account, requests, the defaults of LimitRanges, and two tolerations. The token of the service account, the
// priority and what else depends on the cluster is missing.
func (p *Pod) FillNew(ranges []*corev1.LimitRange) {
	spec := p.root.Get("spec")
	account := spec.Get("serviceAccountName")
	if account.Text() == "" {
		account.SetText("default")
	}
	if old := spec.Get("serviceAccount"); old.Text() == "" {
		old.SetText(account.Text())
	}
	if links := spec.Get("enableServiceLinks"); !links.Exists() {
		links.Set(true)
	}
	for c := range p.Containers() {
		c.Resources().fillNew(ranges)
	}
	p.tolerateFailingNodes()
}

// fillNew sets requests that are missing to the limits, and then both to the defaults of LimitRanges.
func (r Requirements) fillNew(ranges []*corev1.LimitRange) {
	fill(r.Requests(), r.Limits())
	for _, limitRange := range ranges {
		for _, item := range limitRange.Spec.Limits {
			if item.Type == corev1.LimitTypeContainer {
				fillFrom(r.Requests(), item.DefaultRequest)
				fillFrom(r.Limits(), item.Default)
			}
		}
	}
}

func fill(list, from Resources) {
	for name, value := range from.root.Members() {
		if at := list.at(corev1.ResourceName(name)); !at.Exists() {
			at.SetText(quantityText(value))
		}
	}
}

func fillFrom(list Resources, defaults corev1.ResourceList) {
	for name, q := range defaults {
		if !list.Has(name) {
			list.Set(name, q)
		}
	}
}

// tolerateFailingNodes adds the tolerations of the plug-in DefaultTolerationSeconds, with its default of 300 s.
func (p *Pod) tolerateFailingNodes() {
	is := p.Tolerations()
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(is, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		}) {
			seconds := int64(300)
			p.AppendToleration(corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
		}
	}
}
