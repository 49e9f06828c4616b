package admit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/internal/poddefaults"
)

// FillNew sets what the API server and its own plug-ins set in a new pod before they call webhooks, and not in a template: the
// service account, requests, the defaults of LimitRanges, two tolerations, and the defaults of containers and volumes that
// mutators have added. The token of the service account, the priority and what else depends on the cluster is missing.
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
		if !c.root.Get("terminationMessagePath").Exists() { // the API server has set it in templates
			fillAdded(c.root, poddefaults.Container)
		}
		c.Resources().fillNew(ranges)
	}
	for volume := range spec.Get("volumes").Elements() {
		if defaultsAreMissing(volume) {
			fillAdded(volume, func(v *corev1.Volume) { poddefaults.Volume(&v.VolumeSource) })
		}
	}
	p.tolerateFailingNodes()
}

// defaultsAreMissing reports whether a volume lacks what the API server sets in the kinds of volumes that are used most.
func defaultsAreMissing(volume *document.Value) bool {
	for _, kind := range [...]string{"configMap", "secret", "projected", "downwardAPI"} {
		if v := volume.Get(kind); v.Exists() {
			return !v.Get("defaultMode").Exists()
		}
	}
	return volume.Get("hostPath").Exists() && !volume.At("hostPath", "type").Exists()
}

// fillAdded sets the defaults of a typed part of a pod.
func fillAdded[T any](v *document.Value, fill func(*T)) {
	before, after := document.As[T](v), document.As[T](v)
	fill(&after)
	document.Record(v, before, after)
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
