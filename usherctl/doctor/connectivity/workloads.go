package connectivity

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/usherctl/report"
)

// workload is a Deployment, StatefulSet or DaemonSet, or a pod of none of them.
type workload struct {
	kind     string
	Metadata metav1.ObjectMeta
	Spec     struct {
		Replicas *int32
		Template corev1.PodTemplateSpec
	}
}

// Labels are those of a workload, and of its pods.
type Labels struct {
	Own, Pods map[string]string
	Assumed   bool // no workload is known, and the labels are those that a Service selects
}

// makers are the kinds of workloads, in the order in which they are read: pods only if no other workload is selected.
var makers = []reader.Kind{reader.NewKind("apps", "v1", "Deployment", "deployments"), reader.NewKind("apps", "v1", "StatefulSet", "statefulsets"),
	reader.NewKind("apps", "v1", "DaemonSet", "daemonsets"), reader.NewKind("", "v1", "Pod", "pods")}

// readWorkloads reads the workloads whose pods the Service selects. Those that may not be read are unknown.
func (b *backend) readWorkloads(ctx context.Context, source reader.Source) {
	selects := labels.SelectorFromSet(b.service.Spec.Selector)
	for _, kind := range makers {
		if selects.Empty() || kind.Kind == "Pod" && len(b.workloads) > 0 {
			return
		}
		list, _ := source.List(ctx, kind, b.service.Namespace)
		for _, raw := range list {
			w := workload{kind: kind.Kind}
			if reader.Decode(raw, &w) != nil {
				continue
			}
			if kind.Kind == "Pod" {
				_ = reader.Decode(raw, &w.Spec.Template) // it has the same fields
			}
			if b.neighbours++; selects.Matches(labels.Set(w.Spec.Template.Labels)) {
				b.workloads = append(b.workloads, w)
			}
		}
	}
}

// Labels returns the labels of what serves a webhook that was read; nil: a URL.
func (c *Cluster) Labels(t Target) (all []Labels) {
	b := c.backends[t]
	for _, w := range b.workloads {
		all = append(all, Labels{Own: w.Metadata.Labels, Pods: w.Spec.Template.Labels})
	}
	if selector := b.service.Spec.Selector; len(all) == 0 && len(selector) > 0 {
		return []Labels{{selector, selector, true}}
	}
	return all
}

// workloadProblem returns why no pod can be behind a port of the Service, as far as workloads are known, or nil.
func (b *backend) workloadProblem(w Webhook, port corev1.ServicePort) *Problem {
	s, about := b.service, Subject{Service: b.service}
	const none = "no pod is behind port %d of the Service %s/%s: %s. %s"
	running := slices.DeleteFunc(slices.Clone(b.workloads), func(w workload) bool { return ptr.Deref(w.Spec.Replicas, 1) == 0 })
	switch {
	case b.neighbours == 0:
		return nil
	case len(b.workloads) == 0:
		return problem("no-endpoints", about, none, port.Port, s.Namespace, s.Name, "no template or pod of its namespace has the labels of its "+
			"selector, "+selectorWords(s.Spec.Selector), w.Consequence)
	case len(running) == 0:
		return problem("no-endpoints", about, none, port.Port, s.Namespace, s.Name, names(b.workloads)+" has no replicas", w.Consequence)
	}
	named := port.TargetPort.StrVal
	if named == "" || slices.ContainsFunc(running, func(w workload) bool { return w.names(named) }) {
		return nil
	}
	return problem("no-endpoints", about, none, port.Port, s.Namespace, s.Name, "its targetPort is "+named+", and no port of "+names(running)+
		" has that name", w.Consequence)
}

// names returns the kinds and names of workloads.
func names(all []workload) string {
	var texts []string
	for _, w := range all {
		texts = append(texts, w.kind+" "+w.Metadata.Name)
	}
	return report.List(texts)
}

// names reports whether a container that runs beside others names a port.
func (w workload) names(port string) bool {
	pod := w.Spec.Template.Spec
	return slices.ContainsFunc(slices.Concat(pod.InitContainers, pod.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port })
	})
}

// nearService returns a question for the Service that was meant instead of one that does not exist: of nearly the same name, or the only one of that
// name in another namespace; "" if there is none.
func nearService(ctx context.Context, source reader.Source, t Target) string {
	all, _ := reader.All[metav1.PartialObjectMetadata](source.List(ctx, reader.NewKind("", "v1", "Service", "services"), ""))
	var known, alike []string
	for _, o := range all {
		if known = append(known, o.Namespace+"/"+o.Name); o.Name == t.Service.Name {
			alike = append(alike, o.Namespace+"/"+o.Name)
		}
	}
	meant := nearest.Question(t.Service.String(), known)
	if len(alike) == 1 {
		meant = cmp.Or(meant, "; did you mean "+strings.Join(alike, "")+"?")
	}
	return meant
}
