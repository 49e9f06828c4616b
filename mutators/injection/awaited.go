package injection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// awaited returns the names of the volumes that the injection uses and does not add: those of the pod, or of another
// injection.
func (in *Spec) awaited() (names []string) {
	parts := slices.Concat(in.InitContainers, in.Containers, []corev1.Container{{Env: in.Env, VolumeMounts: in.VolumeMounts}})
	for _, c := range parts {
		for _, m := range c.VolumeMounts {
			names = append(names, m.Name)
		}
		for _, d := range c.VolumeDevices {
			names = append(names, d.Name)
		}
		for _, v := range c.Env {
			if v.ValueFrom != nil && v.ValueFrom.FileKeyRef != nil {
				names = append(names, v.ValueFrom.FileKeyRef.VolumeName)
			}
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return slices.ContainsFunc(in.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	})
}
