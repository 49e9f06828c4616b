package mutators

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/mutators/injection"
	"usher.dev/usher/mutators/placement"
)

// sidecars injects containers, init containers (native sidecars among them), volumes, pull secrets, variables and volume
// mounts into new pods. What the pod has under the same name stays, with a warning if it is not what the policy would
// inject. A container is placed when it is injected, and never moved afterwards: beside another injector that also wants
// to be the first or the last, the pod settles. sidecars-present checks the result.
func sidecars(policy injection.Sidecars, nodes *placement.NodeSelector, ask admit.Questions) admit.Mutator[admit.Pod] {
	all := injection.Compile(policy)
	return admit.Mutator[admit.Pod]{
		Name:    "sidecars",
		Doc:     "injects the policy's containers, volumes, pull secrets and variables into new pods; what the pod has by the same name wins",
		Needs:   []string{admit.CollectionNamespaces},
		Section: injection.Section,
		Idle:    len(all) == 0,
		Run: func(ctx context.Context, req *admit.Request, pod *admit.Pod) error {
			if !newPod(req) {
				req.Explain("only new pods get sidecars: the containers of a stored pod cannot change")
				return nil
			}
			applying, err := injection.Applying(req, pod, all, nodes, ask)
			if err != nil {
				return err
			}
			for _, in := range applying {
				if err := inject(ctx, req, pod, in, applying); err != nil {
					return err
				}
			}
			return checkVolumes(pod, applying)
		},
	}
}

// inject applies one injection. applying are all that apply to the pod: their containers do not get its variables.
func inject(ctx context.Context, req *admit.Request, pod *admit.Pod, in *injection.Injection, applying []*injection.Injection) error {
	initial, err := missing(req, pod, in, in.InitTemplates, pod.InitContainers)
	if err != nil {
		return err
	}
	regular, err := missing(req, pod, in, in.Templates, pod.RegularContainers)
	if err != nil {
		return err
	}
	if err := checkRoom(pod, in, len(initial)+len(regular)); err != nil {
		return err
	}
	if err := checkEnds(req, pod, in, regular); err != nil {
		return err
	}
	insert(initial, anchor(pod.InitContainers(), cmp.Or(in.InitPosition, injection.Position{First: true})), pod.InsertInitContainer)
	insert(regular, anchor(pod.RegularContainers(), in.Position), pod.InsertContainer)
	injectVolumes(req, pod, in)
	injectSecrets(pod, in)
	return injectIntoContainers(ctx, req, pod, in, applying)
}

// missing returns the containers of a list that the pod does not have, filled. It warns about those that the pod has in
// another form, which stay.
func missing(req *admit.Request, pod *admit.Pod, in *injection.Injection, templates []injection.Template, list containerList) (
	all []corev1.Container, _ error,
) {
	for i := range templates {
		t := &templates[i]
		filled, err := t.Fill(req, pod)
		if err != nil {
			return nil, err
		}
		if own := named(list(), filled.Name); own != nil {
			if differing := own.Differs(filled); len(differing) > 0 {
				warnOwn(req, in, "container", filled.Name, admit.SomeNames(differing))
			}
		} else if named(pod.Containers(), filled.Name) != nil {
			warnOwn(req, in, "container", filled.Name, "its list (initContainers or containers)")
		} else {
			all = append(all, filled)
		}
	}
	return all, nil
}

// containerList returns one of the pod's lists of containers.
type containerList func() iter.Seq[*admit.Container]

// named returns the container of the given name, or nil.
func named(list iter.Seq[*admit.Container], name string) *admit.Container {
	for c := range list {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

func warnOwn(req *admit.Request, in *injection.Injection, kind, name, differing string) {
	req.Warnf("sidecars: the %s %s is in the pod already, and stays; that of injection %s differs in %s", kind, name, in.Name, differing)
}

// checkRoom refuses a pod that would have more containers than usher accepts in the second run.
func checkRoom(pod *admit.Pod, in *injection.Injection, more int) error {
	if more == 0 {
		return nil
	}
	for range pod.AllContainers() {
		more++
	}
	if more <= admit.MaxContainers {
		return nil
	}
	return &field.Error{Type: field.ErrorTypeTooMany, Field: admit.ContainersPath.String(), BadValue: more, Detail: fmt.Sprintf(
		"with those of injection %s; a pod may have at most %d containers, init containers and ephemeral containers together; "+
			"spread them over several pods", in.Name, admit.MaxContainers)}
}

// checkVolumes refuses a pod that lacks a volume that an injection uses: the API server would refuse it without the
// reason. An injection that is applied later may have the volume.
func checkVolumes(pod *admit.Pod, applying []*injection.Injection) error {
	for _, in := range applying {
		for _, name := range in.Awaited {
			if pod.HasVolume(name) {
				continue
			}
			for c := range pod.Containers() {
				if c.Uses(name) {
					return field.Required(admit.VolumesPath, fmt.Sprintf("container %s uses the volume %s because of injection %s, "+
						"and neither the pod nor the injection has it; add it to the pod or, in the policy, to volumes of the injection, "+
						"or let podSelector leave out such pods", c.Name(), name, in.Name))
				}
			}
		}
	}
	return nil
}

// jobNameLabel is the label that the Job controller gives to its pods, as in k8s.io/api/batch/v1, which would be linked for it.
const jobNameLabel = "batch.kubernetes.io/job-name"

// checkEnds refuses containers in a Job's pod, which ends only when all of its containers have ended. Other pods that
// are meant to end, such as those of kubectl run --restart=Never, get a warning: what created them may delete them.
func checkEnds(req *admit.Request, pod *admit.Pod, in *injection.Injection, regular []corev1.Container) error {
	if len(regular) == 0 {
		return nil
	}
	if owner, ok := pod.Controller(); ok && owner.Kind == "Job" && strings.HasPrefix(owner.APIVersion, "batch/") {
		return field.Forbidden(admit.ContainersPath, fmt.Sprintf("injection %s adds the container %s, which never ends, "+
			"so that the pod of Job %s would never complete; make it a native sidecar in the policy (initContainers, restartPolicy: Always), "+
			"or let podSelector leave out the label %s", in.Name, regular[0].Name, owner.Name, jobNameLabel))
	}
	if policy := pod.RestartPolicy(); policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure {
		req.Warnf("sidecars: with restartPolicy %s the pod completes only when the container %s of injection %s ends; "+
			"a native sidecar would not keep it", policy, regular[0].Name, in.Name)
	}
	return nil
}

// anchor returns the container before which a position is; nil: the end of the list. Before a container that the pod
// does not have is the beginning, and after one the end.
func anchor(list iter.Seq[*admit.Container], at injection.Position) *admit.Container {
	all := append(slices.Collect(list), nil)
	neighbour := at.Before + at.After
	i := slices.IndexFunc(all, func(c *admit.Container) bool { return c != nil && c.Name() == neighbour })
	switch {
	case at.Before != "":
		return all[max(i, 0)]
	case at.After != "" && i >= 0:
		return all[i+1]
	case at.First:
		return all[0]
	}
	return nil
}

// insert inserts containers in order before one of the list; nil: at the end.
func insert(all []corev1.Container, before *admit.Container, one func(*admit.Container, corev1.Container)) {
	for _, c := range all {
		one(before, c)
	}
}

func injectVolumes(req *admit.Request, pod *admit.Pod, in *injection.Injection) {
	for _, v := range in.Volumes {
		if !pod.HasVolume(v.Name) {
			pod.AppendVolume(v)
		} else if pod.VolumeDiffers(v) {
			warnOwn(req, in, "volume", v.Name, "its content")
		}
	}
}

func injectSecrets(pod *admit.Pod, in *injection.Injection) {
	if len(in.ImagePullSecrets) == 0 {
		return
	}
	own := pod.ImagePullSecrets()
	for _, s := range in.ImagePullSecrets {
		if !slices.Contains(own, s) {
			pod.AppendImagePullSecret(s)
		}
	}
}

// injectIntoContainers adds variables and volume mounts to the containers that are not themselves injected.
func injectIntoContainers(
	ctx context.Context, req *admit.Request, pod *admit.Pod, in *injection.Injection, applying []*injection.Injection,
) error {
	if len(in.Env)+len(in.VolumeMounts) == 0 {
		return nil
	}
	filled, err := in.EnvTemplate.Fill(req, pod)
	if err != nil {
		return err
	}
	for c := range pod.Containers() {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := c.Name()
		if slices.ContainsFunc(applying, func(other *injection.Injection) bool { return other.Names(name) }) {
			continue
		}
		if len(filled.Env) > 0 {
			own := c.Env()
			for _, v := range filled.Env {
				if own.Differs(v) {
					warnOwn(req, in, "variable", v.Name+" in container "+name, "its value")
				}
			}
			c.AddEnv(filled.Env)
		}
		for _, m := range in.VolumeMounts {
			if !c.HasVolumeMount(m.MountPath) {
				c.AppendVolumeMount(m)
			} else if c.VolumeMountDiffers(m) {
				warnOwn(req, in, "volume mount", m.MountPath+" in container "+name, "its volume or options")
			}
		}
	}
	return nil
}
