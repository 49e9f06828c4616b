package webhooks

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/certs"
)

// Address says where the API server reaches usher, and as whom it knows it.
type Address struct {
	Namespace, Service string
	URL                string // instead of the Service
	CABundle           []byte
	User               string            // usher's user name at the API server
	Excluded           []string          // the namespaces that are left alone, beside kube-system and usher's own: see mayBeExcluded
	ExcludedPods       []string          // by a match condition: the pods of these service accounts, each as namespace/name
	SkipKubelets       bool              // by matchConditions: what kubelets write on their own
	OnDisk             bool              // of the API server are the configurations; nobody can delete them through the API
	Annotations        map[string]string // of the configurations: see Inject
}

// NewAddress checks the values of the flags --service, --url and --ca-file.
func NewAddress(service, base, caFile string) (a Address, err error) {
	if service == "" {
		return a, errors.New("--service: must be namespace/name")
	}
	if _, err := certs.ServiceNames(service); err != nil {
		return a, fmt.Errorf("--%w", err)
	}
	a.Namespace, a.Service, _ = strings.Cut(service, "/")
	if a.URL = strings.TrimSuffix(base, "/"); a.URL != "" {
		if parsed, err := url.Parse(a.URL); err != nil || parsed.Scheme != "https" || parsed.Host == "" ||
			parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil {
			return a, fmt.Errorf("--url %q: must be https://host[:port][/path], as the API server wants it", base)
		}
	}
	if caFile == "" {
		return a, nil
	}
	if a.CABundle, err = os.ReadFile(caFile); err != nil {
		return a, err
	}
	if err := checkBundle(a.CABundle); err != nil {
		return a, fmt.Errorf("--ca-file %s: %w", caFile, err)
	}
	if len(a.CABundle) > maxBundle {
		return a, fmt.Errorf("--ca-file %s: must have at most %d KiB, because every webhook has a copy: leave only the CA of the serving certificate",
			caFile, maxBundle>>10)
	}
	return a, nil
}

// maxBundle is the maximum size of a caBundle in bytes: those of all webhooks of a configuration are in one object.
const maxBundle = 32 << 10

// checkBundle returns an error if a text cannot be a caBundle.
func checkBundle(bundle []byte) error {
	if block, _ := pem.Decode(bundle); block == nil || block.Type != "CERTIFICATE" {
		return errors.New("holds no PEM certificate first")
	}
	if strings.Contains(string(bundle), "PRIVATE KEY") {
		return errors.New("holds a private key; only certificates belong into a caBundle")
	}
	return nil
}

// service returns the Service as namespace/name.
func (a Address) service() string { return a.Namespace + "/" + a.Service }

func (a Address) client(path string) registration.WebhookClientConfig {
	if a.URL != "" {
		return registration.WebhookClientConfig{URL: new(a.URL + path), CABundle: a.CABundle}
	}
	return registration.WebhookClientConfig{CABundle: a.CABundle, Service: &registration.ServiceReference{
		Namespace: a.Namespace, Name: a.Service, Path: &path, Port: new(int32(443))}}
}
