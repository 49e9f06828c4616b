package podvalidation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Mounts returns the problems of volume mounts, except for those that depend on their container.
func Mounts(mounts []corev1.VolumeMount, at *field.Path) field.ErrorList {
	var l list
	l.mounts(mounts, at)
	return field.ErrorList(l)
}

func (l *list) mounts(mounts []corev1.VolumeMount, at *field.Path) {
	seen := map[string]bool{}
	for i, m := range mounts {
		at := at.Index(i)
		l.valid(at.Child("name"), m.Name, validation.IsDNS1123Label)
		l.required(at.Child("mountPath"), m.MountPath, "the path in the container")
		l.duplicate(seen[m.MountPath] && m.MountPath != "", at.Child("mountPath"), m.MountPath)
		seen[m.MountPath] = true
		l.below(at.Child("subPath"), m.SubPath)
		l.below(at.Child("subPathExpr"), m.SubPathExpr)
		l.forbidden(m.SubPath != "" && m.SubPathExpr != "", at.Child("subPathExpr"), "there is a subPath, too; write one of them")
		if p := m.MountPropagation; p != nil {
			chosen(l, at.Child("mountPropagation"), *p, "write None, or leave it out",
				corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
		}
		l.recursive(&m, at.Child("recursiveReadOnly"))
		l.bindOptions(m.BindMountOptions, at.Child("bindMountOptions"))
	}
}

// bindOptions adds the problems of the options of a bind mount (Kubernetes 1.37, alpha).
func (l *list) bindOptions(options []string, at *field.Path) {
	for i, option := range options {
		chosen(l, at.Index(i), option, "nodev, noexec or nosuid", "nodev", "noexec", "nosuid")
		l.duplicate(slices.Contains(options[:i], option), at.Index(i), option)
	}
}

// recursive adds the problems of a recursively read-only mount.
func (l *list) recursive(m *corev1.VolumeMount, at *field.Path) {
	r := m.RecursiveReadOnly
	if r == nil {
		return
	}
	chosen(l, at, *r, "write Disabled, or leave it out",
		corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled)
	if *r == corev1.RecursiveReadOnlyIfPossible || *r == corev1.RecursiveReadOnlyEnabled {
		l.forbidden(!m.ReadOnly, at, "is for mounts with readOnly: true; add that, or remove it")
		l.forbidden(m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone, at, "is for mounts with mountPropagation None")
	}
}

// propagation adds the problems of mounts that only a privileged container may have.
func (l *list) propagation(c *corev1.Container, at *field.Path) {
	if s := c.SecurityContext; s != nil && isTrue(s.Privileged) {
		return
	}
	for i, m := range c.VolumeMounts {
		l.forbidden(m.MountPropagation != nil && *m.MountPropagation == corev1.MountPropagationBidirectional,
			at.Index(i).Child("mountPropagation"), "Bidirectional is for privileged containers; write HostToContainer or None")
	}
}

// devices adds the problems of block devices. A volume that is not injected is the pod's.
func (l *list) devices(c *corev1.Container, volumes []corev1.Volume, at *field.Path) {
	mounted, mountPaths, names, paths := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, m := range c.VolumeMounts {
		mounted[m.Name], mountPaths[m.MountPath] = true, true
	}
	for i, d := range c.VolumeDevices {
		name, path := at.Index(i).Child("name"), at.Index(i).Child("devicePath")
		l.valid(name, d.Name, validation.IsDNS1123Label)
		l.required(path, d.DevicePath, "the path in the container")
		l.noBacksteps(path, d.DevicePath)
		l.duplicate(names[d.Name], name, d.Name)
		l.duplicate(paths[d.DevicePath], path, d.DevicePath)
		l.invalid(mounted[d.Name], name, d.Name, "is mounted, too; a volume is a device or a file system")
		l.invalid(mountPaths[d.DevicePath], path, d.DevicePath, "is the path of a mount, too")
		v := named(volumes, d.Name)
		l.invalid(v != nil && v.PersistentVolumeClaim == nil && v.Ephemeral == nil,
			name, d.Name, "a device must be a volume with persistentVolumeClaim or ephemeral")
		names[d.Name], paths[d.DevicePath] = true, true
	}
}
