package webhooks

import (
	"fmt"
	"strings"

	"usher.dev/usher/certs"
	"usher.dev/usher/certs/rotation"
)

// Controllers that fill in the caBundle of every entry of a configuration, asked by an annotation.
const (
	CertManager = "cert-manager" // its cainjector
	OpenShift   = "openshift"    // its service CA operator
)

// injectOpenShift is the annotation for OpenShift.
const injectOpenShift = "service.beta.openshift.io/inject-cabundle"

// Inject returns the annotations that make another controller fill in the caBundle; none for "".
func Inject(by, namespace string) (map[string]string, error) {
	by, certificate, named := strings.Cut(by, "=")
	if !named {
		certificate = namespace + "/" + rotation.TLSSecret // cert-manager's Certificate has the name of its Secret
	}
	switch {
	case by == "" && !named:
		return nil, nil
	case by == OpenShift && !named:
		return map[string]string{injectOpenShift: "true"}, nil
	case by != CertManager:
		return nil, fmt.Errorf("--inject %q: must be %s, %[2]s=namespace/certificate, or %s", by, CertManager, OpenShift)
	}
	if _, err := certs.ServiceNames(certificate); err != nil || certificate == "" {
		return nil, fmt.Errorf("--inject %s=%s: must be namespace/certificate", CertManager, certificate)
	}
	return map[string]string{"cert-manager.io/inject-ca-from": certificate}, nil
}
