package review

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// fillPod fills in what the API server and its own plug-ins set in a pod, but for the token of its service account and what
// depends on the cluster, such as the priority.
func fillPod(s *corev1.PodSpec) {
	fillSpec(s)
	point(&s.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	fill(&s.ServiceAccountName, "default")
	fill(&s.DeprecatedServiceAccount, s.ServiceAccountName)
	for i := range s.InitContainers {
		fillRequests(&s.InitContainers[i].Resources)
	}
	for i := range s.Containers {
		fillRequests(&s.Containers[i].Resources)
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(s.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		}) {
			seconds := int64(300)
			s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
		}
	}
}

// fillRequests takes the requests that are absent from the limits.
func fillRequests(r *corev1.ResourceRequirements) {
	if len(r.Limits) == 0 {
		return
	}
	requests := maps.Clone(r.Limits)
	maps.Copy(requests, r.Requests)
	r.Requests = requests
}

// fillSpec fills in what pods and templates of pods have in common.
func fillSpec(s *corev1.PodSpec) {
	fill(&s.DNSPolicy, corev1.DNSClusterFirst)
	fill(&s.RestartPolicy, corev1.RestartPolicyAlways)
	fill(&s.SchedulerName, corev1.DefaultSchedulerName)
	point(&s.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	point(&s.SecurityContext, corev1.PodSecurityContext{})
	for i := range s.InitContainers {
		fillContainer(&s.InitContainers[i], s.HostNetwork)
	}
	for i := range s.Containers {
		fillContainer(&s.Containers[i], s.HostNetwork)
	}
	for i := range s.Volumes {
		fillVolume(&s.Volumes[i].VolumeSource)
	}
}

func fillContainer(c *corev1.Container, hostNetwork bool) {
	pull := corev1.PullIfNotPresent
	if name := c.Image[strings.LastIndex(c.Image, "/")+1:]; strings.HasSuffix(name, ":latest") || !strings.ContainsAny(name, ":@") {
		pull = corev1.PullAlways
	}
	fill(&c.ImagePullPolicy, pull)
	fill(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	fill(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		fill(&c.Ports[i].Protocol, corev1.ProtocolTCP)
		if hostNetwork {
			fill(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			fill(&from.FieldRef.APIVersion, "v1")
		}
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		fillProbe(probe)
	}
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		fillGet(c.Lifecycle.PostStart.HTTPGet)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		fillGet(c.Lifecycle.PreStop.HTTPGet)
	}
}

func fillProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	fill(&p.TimeoutSeconds, 1)
	fill(&p.PeriodSeconds, 10)
	fill(&p.SuccessThreshold, 1)
	fill(&p.FailureThreshold, 3)
	fillGet(p.HTTPGet)
}

func fillGet(g *corev1.HTTPGetAction) {
	if g != nil {
		fill(&g.Path, "/")
		fill(&g.Scheme, corev1.URISchemeHTTP)
	}
}

func fillVolume(v *corev1.VolumeSource) {
	const mode = 0o644
	switch {
	case *v == corev1.VolumeSource{}:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	case v.Secret != nil:
		point(&v.Secret.DefaultMode, mode)
	case v.ConfigMap != nil:
		point(&v.ConfigMap.DefaultMode, mode)
	case v.DownwardAPI != nil:
		point(&v.DownwardAPI.DefaultMode, mode)
	case v.HostPath != nil:
		point(&v.HostPath.Type, corev1.HostPathUnset)
	case v.Projected != nil:
		point(&v.Projected.DefaultMode, mode)
	}
}
