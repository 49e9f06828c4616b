package injection

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/config"
)

// trial is a pod with the parts of all injections, although no pod has to get them all: each injection has containers and volumes under
// names of its own, and a container that gets its variables and mounts. What depends on other parts of a pod is left out.
type trial struct {
	spec  *corev1.PodSpec
	parts map[string]*field.Path
	ports map[string]*Spec // of the node, with the first injection that has each
}

// trial returns the pod, or nil if there is no injection.
func (s Sidecars) trial(at *field.Path) *config.Trial {
	if len(s) == 0 {
		return nil
	}
	grace, token := int64(1<<40), false // longer than any sleep in preStop
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "usher-sidecars"},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &token}}
	t := trial{&pod.Spec, map[string]*field.Path{}, map[string]*Spec{}}
	for i := range s {
		t.add(&s[i], at.Index(i))
	}
	return &config.Trial{Pod: pod, Parts: t.parts}
}

// add adds the parts of an injection.
func (t *trial) add(in *Spec, at *field.Path) {
	names := map[string]string{} // of volumes: the policy's, and the pod's
	for i, v := range in.Volumes {
		t.parts[fmt.Sprintf("spec.volumes[%d]", len(t.spec.Volumes))] = at.Child("volumes").Index(i)
		t.volume(names, v.Name, v.VolumeSource)
	}
	for _, name := range in.awaited() {
		if len(validation.IsDNS1123Label(name)) == 0 {
			t.volume(names, name, in.expected(name))
		}
	}
	getting := corev1.Container{Image: "usher", Env: in.Env, VolumeMounts: in.VolumeMounts}
	if slices.ContainsFunc(in.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.MountPropagation != nil && *m.MountPropagation == corev1.MountPropagationBidirectional
	}) {
		privileged := true
		getting.SecurityContext = &corev1.SecurityContext{Privileged: &privileged}
	}
	own := fmt.Sprintf("spec.containers[%d].", len(t.spec.Containers))
	t.parts[own+"env"], t.parts[own+"volumeMounts"] = at.Child("env"), at.Child("volumeMounts")
	t.spec.Containers = append(t.spec.Containers, t.container(in, getting, names))
	for i, c := range in.InitContainers {
		t.parts[fmt.Sprintf("spec.initContainers[%d]", len(t.spec.InitContainers))] = at.Child("initContainers").Index(i)
		t.spec.InitContainers = append(t.spec.InitContainers, t.container(in, c, names))
	}
	for i, c := range in.Containers {
		t.parts[fmt.Sprintf("spec.containers[%d]", len(t.spec.Containers))] = at.Child("containers").Index(i)
		t.spec.Containers = append(t.spec.Containers, t.container(in, c, names))
	}
}

// volume adds a volume under another name.
func (t *trial) volume(names map[string]string, name string, source corev1.VolumeSource) {
	names[name] = fmt.Sprintf("v%d", len(t.spec.Volumes))
	t.spec.Volumes = append(t.spec.Volumes, corev1.Volume{Name: names[name], VolumeSource: source})
}

// expected returns a volume that an injection can use, and does not have: a claim for a device, else an empty directory.
func (in *Spec) expected(name string) corev1.VolumeSource {
	for _, c := range slices.Concat(in.InitContainers, in.Containers) {
		if slices.ContainsFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == name }) {
			return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}
		}
	}
	return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
}

// container returns a container of an injection as the pod has it. names are those of its volumes.
func (t *trial) container(in *Spec, of corev1.Container, names map[string]string) corev1.Container {
	c := *of.DeepCopy()
	c.Name = fmt.Sprintf("c%d", len(t.spec.Containers)+len(t.spec.InitContainers))
	rename := func(name *string) {
		if to, known := names[*name]; known {
			*name = to
		}
	}
	for i := range c.VolumeMounts {
		rename(&c.VolumeMounts[i].Name)
	}
	for i := range c.VolumeDevices {
		rename(&c.VolumeDevices[i].Name)
	}
	for _, v := range c.Env {
		if v.ValueFrom != nil && v.ValueFrom.FileKeyRef != nil {
			rename(&v.ValueFrom.FileKeyRef.VolumeName)
		}
	}
	t.claim(c.Resources.Claims)
	t.share(in, c.Ports)
	leaveOut(&c)
	limit(&c.Resources)
	return c
}

// limit adds limits to requests that have none: a LimitRange of the namespace of the trial must not set lower ones.
func limit(r *corev1.ResourceRequirements) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if _, limited := r.Limits[name]; !limited && r.Requests.Name(name, resource.DecimalSI).Sign() > 0 {
			if r.Limits == nil {
				r.Limits = corev1.ResourceList{}
			}
			r.Limits[name] = r.Requests[name]
		}
	}
}

// claim adds the resource claims that a container expects of its pod.
func (t *trial) claim(claims []corev1.ResourceClaim) {
	for _, claim := range claims {
		has := func(p corev1.PodResourceClaim) bool { return p.Name == claim.Name }
		if len(validation.IsDNS1123Label(claim.Name)) == 0 && !slices.ContainsFunc(t.spec.ResourceClaims, has) {
			name := "claim"
			t.spec.ResourceClaims = append(t.spec.ResourceClaims, corev1.PodResourceClaim{Name: claim.Name, ResourceClaimName: &name})
		}
	}
}

// share removes the ports of the node that another injection has.
func (t *trial) share(in *Spec, ports []corev1.ContainerPort) {
	for i := range ports {
		key := fmt.Sprint(ports[i].HostPort, ports[i].Protocol)
		if t.ports[key] == nil {
			t.ports[key] = in
		} else if t.ports[key] != in {
			ports[i].HostPort = 0
		}
	}
}

// leaveOut removes what is valid in some pods only: those of an operating system, of host processes, or with users of their own.
func leaveOut(c *corev1.Container) {
	if c.Lifecycle != nil {
		c.Lifecycle.StopSignal = nil
	}
	if s := c.SecurityContext; s != nil {
		if s.WindowsOptions != nil {
			s.WindowsOptions.HostProcess = nil
		}
		if s.ProcMount != nil && *s.ProcMount == corev1.UnmaskedProcMount {
			s.ProcMount = nil
		}
	}
}
