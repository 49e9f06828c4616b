package certs

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ServiceNames returns the names that a serving certificate has to cover: the names of this machine (localhost,
// 127.0.0.1, ::1) and, for a service given as "namespace/name", its names inside the cluster. The first is then
// name.namespace.svc, which the API server verifies. If service is empty, only the names of this machine are returned.
func ServiceNames(service string) ([]string, error) {
	local := []string{"localhost", "127.0.0.1", "::1"}
	if service == "" {
		return local, nil
	}
	namespace, name, err := splitService(service)
	if err != nil {
		return nil, err
	}
	return append([]string{name + "." + namespace + ".svc", name + "." + namespace, name}, local...), nil
}

func splitService(service string) (namespace, name string, err error) {
	namespace, name, _ = strings.Cut(service, "/")
	if !isLabel(namespace) || !isLabel(name) {
		return "", "", fmt.Errorf("service %q: expected `namespace/name`, each of at most 63 lower-case letters, digits "+
			"and inner hyphens, for example usher/usher", service)
	}
	return namespace, name, nil
}

func isLabel(s string) bool { return len(validation.IsDNS1123Label(s)) == 0 }

// isDomain reports whether s consists of DNS labels joined by dots. IsDNS1123Subdomain, which is for names of
// Kubernetes objects, accepts labels of any length.
func isDomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if !isLabel(label) {
			return false
		}
	}
	return len(s) <= validation.DNS1123SubdomainMaxLength
}

// splitNames separates the two kinds of subject alternative names.
func splitNames(names []string) (dns []string, ips []net.IP, err error) {
	if len(names) == 0 {
		return nil, nil, errors.New("a serving certificate needs at least one name")
	}
	for _, name := range names {
		host := strings.ToLower(strings.TrimPrefix(name, "*."))
		if ip := net.ParseIP(name); ip != nil {
			ips = append(ips, ip)
		} else if isDomain(host) {
			dns = append(dns, name)
		} else {
			return nil, nil, fmt.Errorf("%q is neither a DNS name nor an IP address", name)
		}
	}
	return dns, ips, nil
}
