package doctor

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"usher.dev/usher/command/review"
)

// target is what the API server calls: a port of a Service, or a URL.
type target struct {
	service objectName
	port    int32
	url     string
}

// targetOf returns what the client configuration of a webhook names.
func targetOf(c registration.WebhookClientConfig) target {
	if c.URL != nil {
		return target{url: *c.URL}
	}
	if c.Service == nil {
		return target{}
	}
	t := target{service: objectName{c.Service.Namespace, c.Service.Name}, port: 443}
	if c.Service.Port != nil {
		t.port = *c.Service.Port
	}
	return t
}

// name returns the name that the server's certificate must be valid for.
func (t target) name() string {
	if t.url == "" {
		return t.service.Name + "." + t.service.Namespace + ".svc"
	}
	if at, err := url.Parse(t.url); err == nil {
		return at.Hostname()
	}
	return ""
}

func (t target) String() string {
	if t.url == "" {
		return fmt.Sprintf("Service %s/%s, port %d", t.service.Namespace, t.service.Name, t.port)
	}
	return t.url
}

// missingService returns the finding for a Service that does not exist.
func missingService(w entry, t target) review.Finding {
	then := "Install what the Service belongs to again, or remove the configuration."
	if w.ushers() {
		then = "Register the Service that leads to usher: usher webhooks apply --service NAMESPACE/NAME."
	}
	return problem("service-missing", w.about(), "clientConfig.service is %s/%s, which does not exist. %s %s",
		t.service.Namespace, t.service.Name, w.consequence(), then)
}

// serviceProblem returns why the API server cannot call a port of a Service, or nil.
func serviceProblem(w entry, t target, service corev1.Service) *review.Finding {
	about := subject{entry: w, service: service}
	var found review.Finding
	switch port := portOf(service, t.port); {
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		found = problem("service-external-name", about, "the Service %s/%s is of type ExternalName, for %s: the API server calls that "+
			"host, whose certificate must be valid for %s all the same, and refuses such a Service with --enable-aggregator-routing. "+
			"Use clientConfig.url, or a Service with EndpointSlices.", service.Namespace, service.Name, service.Spec.ExternalName, t.name())
	case port == nil:
		var has []string
		for _, p := range service.Spec.Ports {
			has = append(has, strconv.Itoa(int(p.Port)))
		}
		if len(service.Spec.Ports) > 0 {
			about.field, about.value = "clientConfig.service.port", likelyPort(service)
		}
		found = problem("service-port-missing", about, "clientConfig.service.port is %d, but the Service %s/%s has %s: the port is that of the "+
			"Service, not of the container. %s", t.port, service.Namespace, service.Name, ports(has), w.consequence())
	case service.Spec.ClusterIP == corev1.ClusterIPNone:
		found = problem("service-headless", about, "the Service %s/%s is headless (clusterIP None), and the API server calls "+
			"ClusterIPs. Name a Service with a ClusterIP. %s", service.Namespace, service.Name, w.consequence())
	default:
		return nil
	}
	return &found
}

func ports(all []string) string {
	switch len(all) {
	case 0:
		return "no port"
	case 1:
		return "only port " + all[0]
	}
	return "the ports " + list(all)
}

// portOf returns a port of a Service by its number, or nil.
func portOf(service corev1.Service, number int32) *corev1.ServicePort {
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == number })
	if i < 0 {
		return nil
	}
	return &service.Spec.Ports[i]
}

// likelyPort returns the port that was probably meant.
func likelyPort(service corev1.Service) int32 {
	for _, p := range service.Spec.Ports {
		if p.Port == 443 || strings.Contains(p.Name, "https") || strings.Contains(p.Name, "webhook") {
			return p.Port
		}
	}
	return service.Spec.Ports[0].Port
}

// endpointsProblem returns the finding for a port of a Service that has no ready endpoint, or nil, and the addresses of
// those that are ready.
func endpointsProblem(w entry, service corev1.Service, port corev1.ServicePort, all []discoveryv1.EndpointSlice) (*review.Finding,
	[]string) {
	known, ready := 0, []string(nil)
	for _, slice := range all {
		if slice.Labels[discoveryv1.LabelServiceName] != service.Name || slice.Namespace != service.Namespace {
			continue
		}
		for _, e := range slice.Endpoints {
			if known++; e.Conditions.Ready == nil || *e.Conditions.Ready {
				ready = append(ready, addresses(slice, e, port.Name)...)
			}
		}
	}
	if len(ready) > 0 {
		return nil, ready
	}
	about := subject{entry: w, service: service}
	found := problem("no-endpoints", about, "no pod is behind port %d of the Service %s/%s. %s Its selector, %s, must match the "+
		"labels of running pods, and its targetPort, %s, one of their ports.", port.Port, service.Namespace, service.Name, w.consequence(),
		selectorWords(service.Spec.Selector), port.TargetPort.String())
	if known > 0 {
		found = problem("no-ready-endpoints", about, "none of the %d endpoints behind port %d of the Service %s/%s is ready. %s "+
			"The log of a pod, and its readiness probe, say why.", known, port.Port, service.Namespace, service.Name, w.consequence())
	}
	return &found, nil
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

func labelsText(selector map[string]string) string {
	var parts []string
	for key, value := range selector {
		parts = append(parts, key+"="+value)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func selectorWords(selector map[string]string) string {
	if len(selector) == 0 {
		return "which it lacks"
	}
	return labelsText(selector)
}

// urlProblem returns why the API server cannot use a URL, or nil.
func urlProblem(w entry, text string) *review.Finding {
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
		return nil
	}
	found := problem("url-invalid", w.about(), "clientConfig.url is %q: %s. It must be https://HOST[:PORT]/PATH.", text, why)
	return &found
}

// objectName is the name of an object among those of its kind.
type objectName struct{ Namespace, Name string }
