package admit

import corev1 "k8s.io/api/core/v1"

// HasVolume reports whether the pod has a volume of the given name. It decodes none.
func (p *Pod) HasVolume(name string) bool {
	return p.root.At("spec", "volumes").HasElement("name", name)
}

// AppendVolume adds a volume at the end.
func (p *Pod) AppendVolume(v corev1.Volume) { p.root.At("spec", "volumes").Append(v) }

// HasVolumeMount reports whether the container mounts a volume at the given path. It decodes no mount.
func (c *Container) HasVolumeMount(path string) bool {
	return c.root.Get("volumeMounts").HasElement("mountPath", path)
}

// AppendVolumeMount adds a volume mount at the end.
func (c *Container) AppendVolumeMount(m corev1.VolumeMount) { c.root.Get("volumeMounts").Append(m) }
