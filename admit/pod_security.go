package admit

import (
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/document"
)

// SecurityContext returns spec.securityContext, which applies to all containers; nil if it is not set.
func (p *Pod) SecurityContext() *corev1.PodSecurityContext {
	return document.As[*corev1.PodSecurityContext](p.root.At("spec", "securityContext"))
}

// SetSecurityContext sets spec.securityContext; nil removes it.
func (p *Pod) SetSecurityContext(s *corev1.PodSecurityContext) {
	setPart(p.root.At("spec", "securityContext"), s)
}

// SecurityContext returns the container's security context; nil if it is not set. It does not include what the
// container inherits from the pod.
func (c *Container) SecurityContext() *corev1.SecurityContext {
	return document.As[*corev1.SecurityContext](c.root.Get("securityContext"))
}

// SetSecurityContext sets the container's security context; nil removes it.
func (c *Container) SetSecurityContext(s *corev1.SecurityContext) {
	setPart(c.root.Get("securityContext"), s)
}

// ServiceAccountName returns spec.serviceAccountName.
func (p *Pod) ServiceAccountName() string { return p.root.At("spec", "serviceAccountName").Text() }

// SetServiceAccountName sets spec.serviceAccountName. It takes precedence over the deprecated spec.serviceAccount.
func (p *Pod) SetServiceAccountName(name string) {
	p.root.At("spec", "serviceAccountName").Set(name)
}

// AutomountServiceAccountToken returns spec.automountServiceAccountToken; nil if it is not set, which leaves the
// decision to the service account.
func (p *Pod) AutomountServiceAccountToken() *bool {
	return document.As[*bool](p.root.At("spec", "automountServiceAccountToken"))
}

// SetAutomountServiceAccountToken sets spec.automountServiceAccountToken.
func (p *Pod) SetAutomountServiceAccountToken(mount bool) {
	p.root.At("spec", "automountServiceAccountToken").Set(mount)
}

// HostNetwork reports whether the pod uses the network of its node.
func (p *Pod) HostNetwork() bool { return p.specFlag("hostNetwork") }

// SetHostNetwork sets spec.hostNetwork.
func (p *Pod) SetHostNetwork(on bool) { p.setSpecFlag("hostNetwork", on) }

// HostPID reports whether the pod sees the processes of its node.
func (p *Pod) HostPID() bool { return p.specFlag("hostPID") }

// SetHostPID sets spec.hostPID.
func (p *Pod) SetHostPID(on bool) { p.setSpecFlag("hostPID", on) }

// HostIPC reports whether the pod shares memory with the processes of its node.
func (p *Pod) HostIPC() bool { return p.specFlag("hostIPC") }

// SetHostIPC sets spec.hostIPC.
func (p *Pod) SetHostIPC(on bool) { p.setSpecFlag("hostIPC", on) }

func (p *Pod) specFlag(name string) bool { return document.As[bool](p.root.At("spec", name)) }

// setSpecFlag sets a field of the spec whose absence means false.
func (p *Pod) setSpecFlag(name string, on bool) {
	if p.specFlag(name) != on {
		p.root.At("spec", name).Set(on)
	}
}
