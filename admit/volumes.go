package admit

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// VolumesPath is the field path of a pod's volumes.
var VolumesPath = field.NewPath("spec", "volumes")

// HasVolume reports whether the pod has a volume of the given name. It decodes none.
func (p *Pod) HasVolume(name string) bool {
	return p.root.At("spec", "volumes").HasElement("name", name)
}

// AppendVolume adds a volume at the end.
func (p *Pod) AppendVolume(v corev1.Volume) { p.root.At("spec", "volumes").Append(v) }

// HasVolumeMount reports whether the container mounts a volume at the given path, which may be written in another way: a
// container runtime takes /logs/ and logs for /logs, too.
func (c *Container) HasVolumeMount(at string) bool { return c.volumeMount(at) != nil }

// volumeMount returns the volume mount at the given path, or nil.
func (c *Container) volumeMount(at string) *document.Value {
	for m := range c.root.Get("volumeMounts").Elements() {
		if m.CanBe(document.Object) && mountPoint(m.Get("mountPath").Text()) == mountPoint(at) {
			return m
		}
	}
	return nil
}

// mountPoint returns a path as a container runtime reads it.
func mountPoint(at string) string { return path.Join("/", at) }

// Uses reports whether the container uses the volume of the given name: mounts it, has it as a device, or reads a variable
// from a file in it.
func (c *Container) Uses(volume string) bool {
	for v := range c.root.Get("env").Elements() {
		if v.CanBe(document.Object) && v.At("valueFrom", "fileKeyRef", "volumeName").Text() == volume {
			return true
		}
	}
	return c.root.Get("volumeMounts").HasElement("name", volume) || c.root.Get("volumeDevices").HasElement("name", volume)
}

// AppendVolumeMount adds a volume mount at the end.
func (c *Container) AppendVolumeMount(m corev1.VolumeMount) { c.root.Get("volumeMounts").Append(m) }
