package connectivity

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"usher.dev/usher/usherctl/report"
)

// Target describes where the API server calls: a port of a Service, or a URL.
type Target struct {
	Service types.NamespacedName
	port    int32
	URL     string
}

// TargetOf returns what the client configuration of a webhook names.
func TargetOf(c registration.WebhookClientConfig) Target {
	if c.URL != nil {
		return Target{URL: *c.URL}
	}
	if c.Service == nil {
		return Target{}
	}
	t := Target{Service: types.NamespacedName{Namespace: c.Service.Namespace, Name: c.Service.Name}, port: 443}
	if c.Service.Port != nil {
		t.port = *c.Service.Port
	}
	return t
}

// name returns the name that the server's certificate must be valid for.
func (t Target) name() string {
	if t.URL == "" {
		return t.Service.Name + "." + t.Service.Namespace + ".svc"
	}
	if at, err := url.Parse(t.URL); err == nil {
		return at.Hostname()
	}
	return ""
}

func (t Target) String() string {
	if t.URL == "" {
		return fmt.Sprintf("Service %s/%s, port %d", t.Service.Namespace, t.Service.Name, t.port)
	}
	return t.URL
}

// missingService returns the finding for a Service that does not exist. meant asks for another one, or is empty.
func missingService(w Webhook, t Target, meant string) *Problem {
	then := "Install what the Service belongs to again, or remove the configuration."
	if w.Ushers {
		then = "Register the Service that leads to usher: usher webhooks apply --service NAMESPACE/NAME."
	}
	return problem("service-missing", Subject{Target: t}, "clientConfig.service is %s/%s, which does not exist%s %s %s",
		t.Service.Namespace, t.Service.Name, cmp.Or(meant, "."), w.Consequence, then)
}

// serviceProblem returns why the API server cannot call a port of a Service, or nil.
func serviceProblem(w Webhook, t Target, service corev1.Service) *Problem {
	about := Subject{Target: t, Service: service}
	switch port := portOf(service, t.port); {
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return problem("service-external-name", about, "the Service %s/%s is of type ExternalName, for %s: the API server calls that "+
			"host, whose certificate must be valid for %s all the same, and refuses such a Service with --enable-aggregator-routing. "+
			"Use clientConfig.url, or a Service with EndpointSlices.", service.Namespace, service.Name, service.Spec.ExternalName, t.name()).as(report.Warning)
	case port == nil:
		var has []string
		for _, p := range service.Spec.Ports {
			name := strconv.Itoa(int(p.Port))
			if !overTCP(p) {
				name += " for " + string(p.Protocol)
			}
			has = append(has, name)
		}
		about.Port = likelyPort(service)
		return problem("service-port-missing", about, "clientConfig.service.port is %d, but the Service %s/%s has %s: the port is that of the "+
			"Service, not of the container. %s", t.port, service.Namespace, service.Name, ports(has), w.Consequence)
	case service.Spec.ClusterIP == corev1.ClusterIPNone:
		return problem("service-headless", about, "the Service %s/%s is headless (clusterIP None), and the API server calls "+
			"ClusterIPs. Name a Service with a ClusterIP. %s", service.Namespace, service.Name, w.Consequence)
	}
	return nil
}

func ports(all []string) string {
	switch len(all) {
	case 0:
		return "no port"
	case 1:
		return "only port " + all[0]
	}
	return "the ports " + report.List(all)
}

// overTCP reports whether webhooks can be called by a port.
func overTCP(p corev1.ServicePort) bool { return p.Protocol == "" || p.Protocol == corev1.ProtocolTCP }

// portOf returns a port of a Service by its number, or nil.
func portOf(service corev1.Service, number int32) *corev1.ServicePort {
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == number && overTCP(p) })
	if i < 0 {
		return nil
	}
	return &service.Spec.Ports[i]
}

// likelyPort returns the port that was probably meant; 0: there is none.
func likelyPort(service corev1.Service) (only int32) {
	number := 0
	for _, p := range service.Spec.Ports {
		switch {
		case !overTCP(p):
		case p.Port == 443 || strings.Contains(p.Name, "https") || strings.Contains(p.Name, "webhook"):
			return p.Port
		default:
			if number++; !strings.Contains(p.Name, "metrics") {
				only = p.Port
			}
		}
	}
	if number > 1 {
		return 0
	}
	return only
}

// endpointsProblem returns the finding for a port of a Service that has no ready endpoint, or nil, and the addresses of
// those that are ready.
func endpointsProblem(w Webhook, service corev1.Service, port corev1.ServicePort, all []discoveryv1.EndpointSlice) (*Problem,
	[]string) {
	known, willing, ready := 0, 0, []string(nil)
	for _, slice := range all {
		if slice.Labels[discoveryv1.LabelServiceName] != service.Name || slice.Namespace != service.Namespace {
			continue
		}
		for _, e := range slice.Endpoints {
			if known++; e.Conditions.Ready == nil || *e.Conditions.Ready {
				willing++
				ready = append(ready, addresses(slice, e, port.Name)...)
			}
		}
	}
	if len(ready) > 0 {
		return nil, ready
	}
	about := Subject{Service: service}
	found := problem("no-endpoints", about, "no pod is behind port %d of the Service %s/%s. %s Its selector, %s, must match the "+
		"labels of running pods, and its targetPort, %s, one of their ports.", port.Port, service.Namespace, service.Name, w.Consequence,
		selectorWords(service.Spec.Selector), port.TargetPort.String())
	switch {
	case willing > 0:
		found = problem("no-endpoints", about, "the pods behind the Service %s/%s are ready, and none has what its port %d leads to: its "+
			"targetPort, %s, must be the name or the number of a port of theirs. %s", service.Namespace, service.Name, port.Port, port.TargetPort.String(),
			w.Consequence)
	case known > 0:
		found = problem("no-ready-endpoints", about, "none of the %d endpoints behind port %d of the Service %s/%s is ready. %s "+
			"The log of a pod, and its readiness probe, say why.", known, port.Port, service.Namespace, service.Name, w.Consequence)
	}
	return found, nil
}

// partlyProblems returns the findings for a Service of which some endpoints answer, and others do not.
func (b *backend) partlyProblems(w Webhook) (all []*Problem) {
	s := b.service
	about := Subject{Service: s}
	if len(b.dead) > 0 {
		all = append(all, problem("some-endpoints-down", about, "of the endpoints behind the Service %s/%s some answer, and others do not: %s. Some calls "+
			"fail. %s", s.Namespace, s.Name, strings.Join(b.dead, "; "), w.Consequence))
	}
	known, unready := 0, 0
	for _, slice := range b.slices {
		for _, e := range slice.Endpoints {
			if slice.Labels[discoveryv1.LabelServiceName] != s.Name || slice.Namespace != s.Namespace || ptr.Deref(e.Conditions.Terminating, false) {
				continue
			}
			if known++; !ptr.Deref(e.Conditions.Ready, true) {
				unready++
			}
		}
	}
	if unready > 0 && unready < known {
		all = append(all, problem("some-endpoints-down", about, "not ready: %d of the %d endpoints behind the Service %s/%s. The "+
			"log of a pod, and its readiness probe, say why.", unready, known, s.Namespace, s.Name).as(report.Warning))
	}
	return all
}

// addresses returns where a port of a Service is at an endpoint.
func addresses(slice discoveryv1.EndpointSlice, e discoveryv1.Endpoint, port string) (all []string) {
	for _, p := range slice.Ports {
		if p.Port == nil || len(e.Addresses) == 0 || (p.Name != nil && *p.Name != port) {
			continue
		}
		all = append(all, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
	}
	return all
}

func selectorWords(selector map[string]string) string {
	if len(selector) == 0 {
		return "which it lacks"
	}
	return labels.FormatLabels(selector)
}

// addressOf returns the host and port of a URL, or why the API server cannot use it.
func addressOf(text string) (string, *Problem) {
	at, err := url.Parse(text)
	why := ""
	switch {
	case err != nil:
		why = "it is no URL"
	case at.Scheme != "https":
		why = "it does not begin with https://"
	case at.Host == "":
		why = "it has no host"
	case at.User != nil, at.RawQuery != "", at.Fragment != "":
		why = "it has a user, a query or a fragment"
	default:
		return net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), "443")), nil
	}
	return "", problem("url-invalid", Subject{}, "clientConfig.url is %q: %s. It must be https://HOST[:PORT]/PATH.", text, why)
}
