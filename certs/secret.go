package certs

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// SecretManifest returns the Secret (v1, type kubernetes.io/tls) that the webhook's pods mount, as YAML for `kubectl
// apply -f -`: ca.crt, tls.crt and tls.key, in the namespace of service ("namespace/name"). The output is
// deterministic. It fails if leaf is damaged or does not cover the service's name in the cluster, which the API server
// verifies.
//
// The CA key is left out: the pods never sign, and anyone who can read the Secret could otherwise make certificates
// that the API server trusts. Keep ca.key where `usher certs` runs.
func SecretManifest(service, secretName string, ca, leaf Pair) ([]byte, error) {
	namespace, name, err := splitService(service)
	if err != nil {
		return nil, err
	}
	if len(validation.IsDNS1123Subdomain(secretName)) > 0 {
		return nil, fmt.Errorf("secret name %q: expected lower-case letters, digits, inner hyphens and dots", secretName)
	}
	if err := checkSecret(name+"."+namespace+".svc", ca, leaf); err != nil {
		return nil, err
	}
	// Names are quoted, because 1e3 and null are valid names but not strings in YAML. Base64 of PEM begins with LS0t.
	text := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Secret
metadata:
  name: %q
  namespace: %q
  labels:
    app.kubernetes.io/name: usher
type: kubernetes.io/tls
data:
  ca.crt: %s
  tls.crt: %s
  tls.key: %s
`, secretName, namespace, text(ca.Cert), text(leaf.Cert), text(leaf.Key)), nil
}

// checkSecret looks for problems that would otherwise only show as failing calls of the webhook in the cluster.
func checkSecret(host string, ca, leaf Pair) error {
	if _, err := ca.Leaf(); err != nil {
		return fmt.Errorf("the CA certificate: %w", err)
	}
	if bytes.Contains(ca.Cert, []byte("PRIVATE KEY-----")) {
		return errors.New("the CA certificate: holds a private key, which must not go into a Secret: take it out")
	}
	cert, err := leaf.load("the serving certificate", "the serving key")
	if err != nil {
		return err
	}
	if cert.Leaf.VerifyHostname(host) != nil {
		return fmt.Errorf("the serving certificate does not cover %s but %s: issue it for this service", host,
			strings.Join(nameSet(cert.Leaf.DNSNames, cert.Leaf.IPAddresses), ", "))
	}
	return nil
}
