package validators

import (
	"context"
	"fmt"
	"iter"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/mutators/injection"
	"usher.dev/usher/mutators/placement"
)

// sidecarsPresent refuses new pods that lack a container of the policy's sidecars, or have it with another image, and
// updates that change such an image to another one. Mutating webhooks after usher, and the pod's author, may have removed
// or replaced what the step sidecars injects.
func sidecarsPresent(policy injection.Sidecars, nodes *placement.NodeSelector, ask admit.Questions) admit.Validator[admit.Pod] {
	all := injection.Compile(policy)
	return admit.Validator[admit.Pod]{
		Name:    "sidecars-present",
		Doc:     "refuses new pods that lack a container of the policy's sidecars, or have it with another image, and changes of that image",
		For:     admit.Pods(admissionv1.Create, admissionv1.Update),
		Needs:   []string{admit.CollectionNamespaces},
		Section: injection.Section,
		Idle:    len(all) == 0,
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) (problems field.ErrorList, _ error) {
			changed := changedContainers(req, pod)
			if req.Operation != admissionv1.Create && len(changed) == 0 {
				req.Explain("new pods are checked, and updates that change an image")
				return nil, nil
			}
			applying, err := injection.Applying(req, pod, all, nodes, ask)
			if err != nil {
				return admit.Classify(err)
			}
			for _, in := range applying {
				if req.Operation != admissionv1.Create {
					problems = append(problems, replaced(in, changed)...)
					continue
				}
				before := len(problems)
				problems = append(problems, lacking(in, in.InitTemplates, pod.InitContainers(), admit.InitContainersPath)...)
				problems = append(problems, lacking(in, in.Templates, pod.RegularContainers(), admit.ContainersPath)...)
				if len(problems) == before {
					req.Explain("injection %s: its containers are in the pod, with their images", in.Name)
				}
			}
			return problems, nil
		},
	}
}

// changedContainers returns the containers whose images an update changes.
func changedContainers(req *admit.Request, pod *admit.Pod) (changed []*admit.Container) {
	if req.OldObject == nil {
		return nil
	}
	was := map[string]string{}
	for c := range admit.AsPod(req.OldObject).Containers() {
		was[c.Name()] = c.Image()
	}
	for c := range pod.Containers() {
		if was[c.Name()] != c.Image() {
			changed = append(changed, c)
		}
	}
	return changed
}

// replaced returns the problems of changed containers. That a stored one has the image of an earlier policy is none.
func replaced(in *injection.Injection, changed []*admit.Container) (problems field.ErrorList) {
	for _, t := range slices.Concat(in.InitTemplates, in.Templates) {
		for _, c := range changed {
			if c.Name() == t.Name() && c.Image() != t.Image() {
				problems = append(problems, field.Invalid(c.ImagePath(), c.Image(), fmt.Sprintf(
					"injection %s names the image %s; set that one, or keep the stored one", in.Name, t.Image())))
			}
		}
	}
	return problems
}

// lacking returns the problems of one list of containers. at is its path.
func lacking(in *injection.Injection, want []injection.Template, list iter.Seq[*admit.Container], at *field.Path) (problems field.ErrorList) {
	if len(want) == 0 {
		return nil
	}
	have := map[string]*admit.Container{}
	for c := range list {
		have[c.Name()] = c
	}
	for i := range want {
		t := &want[i]
		c := have[t.Name()]
		switch {
		case c == nil:
			problems = append(problems, field.Required(at, fmt.Sprintf("the container %s of injection %s is missing; a webhook that runs after usher "+
				"has removed it, or usher's mutating webhook was not called: register it, and let no other webhook remove the container", t.Name(), in.Name)))
		case c.Image() != t.Image():
			problems = append(problems, field.Invalid(c.ImagePath(), c.Image(), fmt.Sprintf("injection %s names the image %s; "+
				"remove the container from the pod, so that it is injected, and let no other webhook change its image", in.Name, t.Image())))
		case t.Native() && !c.Sidecar():
			problems = append(problems, field.Required(c.RestartPolicyPath(), fmt.Sprintf("injection %s has a native sidecar: write %s",
				in.Name, corev1.ContainerRestartPolicyAlways)))
		}
	}
	return problems
}
