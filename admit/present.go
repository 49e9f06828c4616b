package admit

import (
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/document"
)

// Differs returns the names of the fields of want that the container does not have with the same value. What the
// container has in addition is no difference, also in its lists: defaults, and what others have added. Resources are not
// compared, because other steps and webhooks adjust them.
func (c *Container) Differs(want corev1.Container) []string { return c.root.Differs(want, resources) }

// VolumeMountDiffers is like Differs for the volume mount at the same path, in whatever way the two write it.
func (c *Container) VolumeMountDiffers(want corev1.VolumeMount) bool {
	own := c.volumeMount(want.MountPath)
	if own != nil {
		want.MountPath = own.Get("mountPath").Text()
	}
	return own != nil && len(own.Differs(want, resources)) > 0
}

// VolumeDiffers is like Differs for the volume of the same name.
func (p *Pod) VolumeDiffers(want corev1.Volume) bool {
	for v := range p.root.At("spec", "volumes").Elements() {
		if v.CanBe(document.Object) && v.Get("name").Text() == want.Name {
			return len(v.Differs(want, resources)) > 0
		}
	}
	return false
}

// resources is the field of a container that Differs does not compare. No other part of a pod that is compared has it.
const resources = "resources"
