// Package injection decides which injections of the policy apply to a pod, and replaces their placeholders by values of
// the pod. The steps sidecars and sidecars-present share it.
package injection

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators/placement"
)

// Injection is a Spec, prepared for many pods.
type Injection struct {
	*Spec
	InitTemplates, Templates []Template
	EnvTemplate              Template // a container that only has env
	Awaited                  []string // the names of volumes that it uses and does not add

	selection config.CompiledSelection
}

// Compile prepares the injections of a policy that was checked.
func Compile(policy Sidecars) []Injection {
	all := make([]Injection, len(policy))
	for i := range policy {
		in := &policy[i]
		env := newTemplate(corev1.Container{Env: in.Env})
		all[i] = Injection{in, templates(in.InitContainers), templates(in.Containers), env, in.awaited(), in.Selection.Compile()}
	}
	return all
}

// Names reports whether a container of the given name is injected.
func (in *Injection) Names(container string) bool {
	for _, list := range [][]Template{in.InitTemplates, in.Templates} {
		for i := range list {
			if list[i].container.Name == container {
				return true
			}
		}
	}
	return false
}

// Applying returns the injections that apply to the pod of a request, in order: those whose selectors match, unless the
// pod opts out. It explains each. nodes is the policy on the nodes of the pod, or nil.
func Applying(req *admit.Request, pod *admit.Pod, all []Injection, nodes *placement.NodeSelector,
	ask admit.Questions) (applying []*Injection, _ error) {
	namespace := sync.OnceValues(func() (admit.Namespace, error) { return ask.NamespaceOf(req) })
	labels := func() (map[string]string, error) {
		ns, err := namespace()
		return ns.Labels, err
	}
	for i := range all {
		in := &all[i]
		selected, err := in.selection.Matches(pod.Selectable(), labels)
		if err != nil {
			return nil, err
		}
		if !selected {
			req.Explain("injection %s: its selectors do not match the labels of the pod or its namespace", in.Name)
			continue
		}
		os, err := osOf(pod, nodes, namespace)
		if err != nil {
			return nil, err
		}
		if why := in.leavesOut(pod, os); why != "" {
			req.Explain("injection %s: %s", in.Name, why)
			continue
		}
		out, err := in.optedOut(pod)
		if err != nil {
			return nil, err
		}
		if out {
			req.Explain("injection %s: the annotation %s is true, so the pod is left out", in.Name, in.OptOutAnnotation)
			continue
		}
		applying = append(applying, in)
	}
	return applying, nil
}

const linux, anyOS = "linux", "any"

// osOf returns the operating system of a pod, also of one whose nodes will be selected by the namespace's node selector, after
// sidecars. One that cannot be read is refused there.
func osOf(pod *admit.Pod, nodes *placement.NodeSelector, namespace func() (admit.Namespace, error)) (string, error) {
	if os := pod.OS(); os != "" || nodes == nil {
		return cmp.Or(os, linux), nil
	}
	ns, err := namespace()
	if err != nil {
		return "", err
	}
	selector, _ := placement.SelectorOf(nodes, ns)
	return cmp.Or(selector.Labels[corev1.LabelOSStable], linux), nil
}

// leavesOut returns why an injection that selects the labels of a pod of an operating system does not apply to it; empty if it does.
func (in *Injection) leavesOut(pod *admit.Pod, os string) string {
	kind := "Pod"
	if len(in.OwnerKinds)+len(in.ExceptOwnerKinds) > 0 {
		if owner, ok := pod.Controller(); ok {
			kind = owner.Kind
		}
	}
	switch {
	case in.OS != anyOS && os != cmp.Or(in.OS, linux):
		return "the operating system of the pod is " + os
	case in.HostNetwork != nil && *in.HostNetwork != pod.HostNetwork():
		return fmt.Sprintf("hostNetwork of the pod is %v", pod.HostNetwork())
	case len(in.OwnerKinds) > 0 && !slices.Contains(in.OwnerKinds, kind), slices.Contains(in.ExceptOwnerKinds, kind):
		return "the kind of the pod's controller is " + kind
	}
	return ""
}

// optedOut reports whether the pod has the annotation by which the policy lets it opt out. Its error is the user's.
func (in *Injection) optedOut(pod *admit.Pod) (bool, error) {
	if in.OptOutAnnotation == "" {
		return false, nil
	}
	switch value, present := pod.Annotation(in.OptOutAnnotation); {
	case !present || value == "false":
		return false, nil
	case value == "true":
		return true, nil
	default:
		return false, field.NotSupported(admit.AnnotationPath(in.OptOutAnnotation), value, []string{"true", "false"})
	}
}
