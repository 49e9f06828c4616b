package podvalidation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// probes adds the problems of a container's probes and hooks.
func (l *list) probes(c *corev1.Container, at *field.Path) {
	l.probe(c.LivenessProbe, true, at.Child("livenessProbe"))
	l.probe(c.StartupProbe, true, at.Child("startupProbe"))
	l.probe(c.ReadinessProbe, false, at.Child("readinessProbe"))
	if c.ReadinessProbe != nil && c.ReadinessProbe.TerminationGracePeriodSeconds != nil {
		l.add(field.Forbidden(at.Child("readinessProbe", "terminationGracePeriodSeconds"), "is for the other probes, which end the container"))
	}
	if c.Lifecycle == nil {
		return
	}
	at = at.Child("lifecycle")
	l.hook(c.Lifecycle.PostStart, at.Child("postStart"))
	l.hook(c.Lifecycle.PreStop, at.Child("preStop"))
	if s := c.Lifecycle.StopSignal; s != nil && !slices.Contains(signals, *s) {
		l.add(field.Invalid(at.Child("stopSignal"), *s, "must be the name of a signal of Linux, such as SIGTERM"))
	}
}

// noProbes adds a problem for each probe and hook of an init container that ends.
func (l *list) noProbes(c *corev1.Container, at *field.Path) {
	for _, f := range []struct {
		name    string
		present bool
	}{
		{"livenessProbe", c.LivenessProbe != nil}, {"readinessProbe", c.ReadinessProbe != nil},
		{"startupProbe", c.StartupProbe != nil}, {"lifecycle", c.Lifecycle != nil},
	} {
		l.forbidden(f.present, at.Child(f.name), "init containers have none, except for native sidecars: add restartPolicy: Always, or remove it")
	}
}

// probe adds the problems of a probe. One that ends the container succeeds once or never.
func (l *list) probe(p *corev1.Probe, ends bool, at *field.Path) {
	if p == nil {
		return
	}
	l.handler(corev1.LifecycleHandler{Exec: p.Exec, HTTPGet: p.HTTPGet, TCPSocket: p.TCPSocket}, p.GRPC, at)
	l.notNegative(at.Child("initialDelaySeconds"), p.InitialDelaySeconds)
	l.notNegative(at.Child("timeoutSeconds"), p.TimeoutSeconds)
	l.notNegative(at.Child("periodSeconds"), p.PeriodSeconds)
	l.notNegative(at.Child("failureThreshold"), p.FailureThreshold)
	l.notNegative(at.Child("successThreshold"), p.SuccessThreshold)
	l.invalid(ends && p.SuccessThreshold > 1, at.Child("successThreshold"), p.SuccessThreshold, "must be 1")
	l.invalid(p.TerminationGracePeriodSeconds != nil && *p.TerminationGracePeriodSeconds <= 0,
		at.Child("terminationGracePeriodSeconds"), p.TerminationGracePeriodSeconds, "must be greater than 0")
}

func (l *list) hook(h *corev1.LifecycleHandler, at *field.Path) {
	if h != nil {
		l.handler(*h, nil, at)
	}
}

// handler adds the problems of what a probe or a hook does. How long it may sleep depends on the pod.
func (l *list) handler(h corev1.LifecycleHandler, grpc *corev1.GRPCAction, at *field.Path) {
	handlers := 0
	if h.Exec != nil {
		handlers++
		l.missing(len(h.Exec.Command) == 0, at.Child("exec", "command"), "the command to run")
	}
	if h.HTTPGet != nil {
		handlers++
		l.httpGet(h.HTTPGet, at.Child("httpGet"))
	}
	if h.TCPSocket != nil {
		handlers++
		l.port(h.TCPSocket.Port, at.Child("tcpSocket", "port"))
	}
	if grpc != nil {
		handlers++
		l.between(at.Child("grpc", "port"), int64(grpc.Port), 1, 65535)
		if grpc.Mode != nil {
			chosen(l, at.Child("grpc", "mode"), *grpc.Mode, "write Plaintext, or leave it out", corev1.GRPCProbeModePlaintext, corev1.GRPCProbeModeTLS)
		}
	}
	if h.Sleep != nil {
		handlers++
		l.invalid(h.Sleep.Seconds < 0, at.Child("sleep", "seconds"), h.Sleep.Seconds, "must be 0 or more")
	}
	l.invalid(handlers != 1, at, field.OmitValueType{}, fmt.Sprintf(
		"has %d of exec, httpGet, tcpSocket, grpc (in probes) and sleep (in hooks); write one", handlers))
}

func (l *list) httpGet(h *corev1.HTTPGetAction, at *field.Path) {
	l.port(h.Port, at.Child("port"))
	oneOf(l, at.Child("scheme"), h.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	for i, header := range h.HTTPHeaders {
		l.valid(at.Child("httpHeaders").Index(i).Child("name"), header.Name, validation.IsHTTPHeaderName)
	}
	if p, at := h.Protocol, at.Child("protocol"); p != nil {
		chosen(l, at, *p, "write HTTP1, or leave it out", corev1.HTTPProtocolHTTP1, corev1.HTTPProtocolHTTP2)
		l.forbidden(*p == corev1.HTTPProtocolHTTP2 && (h.Scheme == corev1.URISchemeHTTPS || h.Host != ""), at, "HTTP2 is for scheme HTTP, without a host")
	}
}

func (l *list) port(port intstr.IntOrString, at *field.Path) {
	if port.Type == intstr.String {
		l.valid(at, port.StrVal, validation.IsValidPortName)
	} else {
		l.between(at, int64(port.IntVal), 1, 65535)
	}
}

// signals are the signals that end a container. A Windows pod knows fewer.
var signals = func() []corev1.Signal {
	all := []corev1.Signal{"SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO", "SIGIOT",
		"SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGSEGV", "SIGSTKFLT", "SIGSTOP", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP",
		"SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ", "SIGRTMIN", "SIGRTMAX"}
	for i := 1; i <= 15; i++ {
		all = append(all, corev1.Signal(fmt.Sprintf("SIGRTMIN+%d", i)), corev1.Signal(fmt.Sprintf("SIGRTMAX-%d", min(i, 14))))
	}
	return all
}()
