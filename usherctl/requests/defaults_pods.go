package requests

import (
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/internal/poddefaults"
)

// podSpecDefaults fills in what pods and templates of pods have in common.
func podSpecDefaults(s *corev1.PodSpec) {
	poddefaults.Fill(&s.DNSPolicy, corev1.DNSClusterFirst)
	poddefaults.Fill(&s.RestartPolicy, corev1.RestartPolicyAlways)
	poddefaults.Fill(&s.SchedulerName, corev1.DefaultSchedulerName)
	poddefaults.Point(&s.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	poddefaults.Point(&s.SecurityContext, corev1.PodSecurityContext{})
	for i := range s.InitContainers {
		poddefaults.Container(&s.InitContainers[i])
	}
	for i := range s.Containers {
		poddefaults.Container(&s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		c := corev1.Container(s.EphemeralContainers[i].EphemeralContainerCommon)
		poddefaults.Container(&c)
		s.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(c)
	}
	for i := range s.Volumes {
		poddefaults.Volume(&s.Volumes[i].VolumeSource)
	}
}
