package podvalidation

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Containers returns the problems of a list of containers; initial says that they are init containers. volumes are those
// that are injected with them: the pod may have others.
func Containers(containers []corev1.Container, initial bool, volumes []corev1.Volume, at *field.Path) field.ErrorList {
	var l list
	hostPorts := map[string]bool{}
	for i := range containers {
		if initial { // they run one after another
			clear(hostPorts)
		}
		l.container(&containers[i], initial, volumes, at.Index(i))
		l.hostPorts(containers[i].Ports, hostPorts, at.Index(i).Child("ports"))
	}
	return field.ErrorList(l)
}

func (l *list) container(c *corev1.Container, initial bool, volumes []corev1.Volume, at *field.Path) {
	l.valid(at.Child("name"), c.Name, validation.IsDNS1123Label)
	l.image(c.Image, at.Child("image"))
	oneOf(l, at.Child("imagePullPolicy"), c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	oneOf(l, at.Child("terminationMessagePolicy"), c.TerminationMessagePolicy, corev1.TerminationMessageReadFile,
		corev1.TerminationMessageFallbackToLogsOnError)
	l.ports(c.Ports, at.Child("ports"))
	l.portsOfProcess(c, at.Child("ports"))
	l.env(c.Env, volumes, at.Child("env"))
	l.envFrom(c.EnvFrom, at.Child("envFrom"))
	l.mounts(c.VolumeMounts, at.Child("volumeMounts"))
	l.propagation(c, at.Child("volumeMounts"))
	l.devices(c, volumes, at.Child("volumeDevices"))
	l.resources(&c.Resources, at.Child("resources"), false)
	l.claims(c.Resources.Claims, at.Child("resources", "claims"))
	l.resizePolicy(c, initial, at.Child("resizePolicy"))
	l.restarts(c, at)
	l.securityContext(c.SecurityContext, at.Child("securityContext"))
	if initial && !always(c) {
		l.noProbes(c, at)
	} else {
		l.probes(c, at)
	}
}

// always reports whether an init container is a native sidecar.
func always(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func (l *list) image(image string, at *field.Path) {
	switch trimmed := strings.TrimSpace(image); {
	case trimmed == "":
		l.add(field.Required(at, "such as registry.example.com/team/proxy:1.2"))
	case trimmed != image:
		l.add(field.Invalid(at, image, "must have no blanks at its ends"))
	}
}

func (l *list) ports(ports []corev1.ContainerPort, at *field.Path) {
	names := map[string]bool{}
	for i, p := range ports {
		at := at.Index(i)
		if p.Name != "" {
			l.valid(at.Child("name"), p.Name, validation.IsValidPortName)
			l.duplicate(names[p.Name], at.Child("name"), p.Name)
			names[p.Name] = true
		}
		l.between(at.Child("containerPort"), int64(p.ContainerPort), 1, 65535)
		l.between(at.Child("hostPort"), int64(p.HostPort), 0, 65535)
		oneOf(l, at.Child("protocol"), p.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
	}
}

// portsOfProcess adds the problems of the ports of a host process, whose pod has the network of its node.
func (l *list) portsOfProcess(c *corev1.Container, at *field.Path) {
	if s := c.SecurityContext; s == nil || s.WindowsOptions == nil || s.WindowsOptions.HostProcess == nil || !*s.WindowsOptions.HostProcess {
		return
	}
	for i, p := range c.Ports {
		if p.HostPort != 0 && p.HostPort != p.ContainerPort {
			l.add(field.Invalid(at.Index(i).Child("hostPort"), p.HostPort, "must be the containerPort: a host process has the network of its node"))
		}
	}
}

// hostPorts adds the problems of ports of the node that containers share.
func (l *list) hostPorts(ports []corev1.ContainerPort, seen map[string]bool, at *field.Path) {
	for i, p := range ports {
		if p.HostPort == 0 {
			continue
		}
		key := fmt.Sprintf("%s/%s/%d", cmp.Or(p.Protocol, corev1.ProtocolTCP), p.HostIP, p.HostPort)
		l.duplicate(seen[key], at.Index(i).Child("hostPort"), key)
		seen[key] = true
	}
}

// restarts adds the problems of when a container starts again.
func (l *list) restarts(c *corev1.Container, at *field.Path) {
	if c.RestartPolicy != nil {
		chosen(l, at.Child("restartPolicy"), *c.RestartPolicy, "leave it out, or write Always for a native sidecar",
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	}
	at, rules := at.Child("restartPolicyRules"), c.RestartPolicyRules
	l.forbidden(len(rules) > 0 && c.RestartPolicy == nil, at, "rules need a restartPolicy of the container")
	l.when(len(rules) > 20, field.TooMany(at, len(rules), 20))
	for i, rule := range rules {
		at := at.Index(i)
		chosen(l, at.Child("action"), rule.Action, "write Restart",
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
		if rule.ExitCodes == nil {
			l.add(field.Required(at.Child("exitCodes"), "the exit codes that the rule is for"))
			continue
		}
		chosen(l, at.Child("exitCodes", "operator"), rule.ExitCodes.Operator, "write In or NotIn",
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		l.when(len(rule.ExitCodes.Values) > 255, field.TooMany(at.Child("exitCodes", "values"), len(rule.ExitCodes.Values), 255))
	}
}

// resizePolicy adds the problems of what a resize does. A pod that never restarts has a rule of its own.
func (l *list) resizePolicy(c *corev1.Container, initial bool, at *field.Path) {
	seen := map[corev1.ResourceName]bool{}
	for i, p := range c.ResizePolicy {
		at := at.Index(i)
		l.duplicate(seen[p.ResourceName], at.Child("resourceName"), p.ResourceName)
		seen[p.ResourceName] = true
		chosen(l, at.Child("resourceName"), p.ResourceName, "write cpu or memory", corev1.ResourceCPU, corev1.ResourceMemory)
		chosen(l, at.Child("restartPolicy"), p.RestartPolicy, "write NotRequired or RestartContainer", corev1.NotRequired, corev1.RestartContainer)
		l.invalid(initial && !always(c) && p.RestartPolicy == corev1.RestartContainer,
			at.Child("restartPolicy"), p.RestartPolicy, "an init container that is no native sidecar cannot be restarted; write NotRequired")
	}
}
