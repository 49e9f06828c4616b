package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"usher.dev/usher/cluster/reader"
)

// backend is what is behind the client configuration of one or several webhooks, as far as it could be seen. What comes
// after the first error was not looked at.
type backend struct {
	service    corev1.Service
	serviceErr error
	slices     []discoveryv1.EndpointSlice
	slicesErr  error
	handshake  handshake
	secret     secretRef // that names the certificate
	stored     *serving  // what the Secret holds
	storedErr  error
}

// secretRef is a Secret with a serving certificate.
type secretRef struct{ objectName }

func (s secretRef) String() string { return "Secret " + s.Namespace + "/" + s.Name }

// readBackends reads what each of the webhooks calls.
func (f *snapshot) readBackends(ctx context.Context) {
	var calls []func()
	for _, w := range f.webhooks {
		t := targetOf(w.ClientConfig)
		if f.backends[t] != nil {
			continue
		}
		b := &backend{}
		f.backends[t] = b
		calls = append(calls, func() {
			b.read(ctx, f, w, t)
			if b.handshake.chain == nil && b.serviceErr == nil {
				b.readSecret(ctx, f.source, w)
			}
		})
	}
	reader.InParallel(calls...)
}

// read reads a Service and its endpoints, and makes a handshake.
func (b *backend) read(ctx context.Context, f *snapshot, w entry, t target) {
	var to []candidate
	switch {
	case t == target{}:
		return
	case t.url != "":
		if urlProblem(w, t.url) == nil {
			to = []candidate{{addressOf(t.url), true}}
		}
	default:
		b.service, b.serviceErr = reader.One[corev1.Service](f.source.Get(ctx, reader.NewKind("", "v1", "Service", "services"), t.service.Namespace,
			t.service.Name))
		if b.serviceErr != nil || serviceProblem(w, t, b.service) != nil {
			return
		}
		kind := reader.NewKind(discoveryv1.GroupName, "v1", "EndpointSlice", "endpointslices")
		b.slices, b.slicesErr = reader.All[discoveryv1.EndpointSlice](f.source.List(ctx, kind, t.service.Namespace))
		for _, address := range b.addresses(w, t) {
			to = append(to, candidate{address, f.inside || local(address)})
		}
	}
	if !f.source.Live() || len(to) == 0 {
		return
	}
	roots := readBundle(w.ClientConfig.CABundle)
	b.handshake = probe(ctx, t.name(), to, func(chain []*x509.Certificate) bool {
		return chain[0].VerifyHostname(t.name()) == nil || signer(roots, serving{chain: chain}) != nil
	})
	if loopback(t.url) && b.handshake.err != nil {
		b.handshake.err = errUnreachable // it is the machine of the API server that is meant
	}
}

// addresses returns where a port of a Service can be called: at its ClusterIP, and at some of its endpoints.
func (b *backend) addresses(w entry, t target) (all []string) {
	if ip := b.service.Spec.ClusterIP; ip != "" {
		all = append(all, net.JoinHostPort(ip, strconv.Itoa(int(t.port))))
	}
	if b.slicesErr == nil {
		problem, ready := endpointsProblem(w, b.service, *portOf(b.service, t.port), b.slices)
		if problem != nil {
			return nil
		}
		all = append(all, ready[:min(3, len(ready))]...)
	}
	return all
}

// readSecret reads the serving certificate from the Secret that holds it, if that is known.
func (b *backend) readSecret(ctx context.Context, source reader.Source, w entry) {
	var is bool
	if b.secret, is, b.storedErr = secretOf(ctx, source, w, b.service); !is || b.storedErr != nil {
		return
	}
	secret, err := reader.One[corev1.Secret](source.Get(ctx, reader.NewKind("", "v1", "Secret", "secrets"), b.secret.Namespace, b.secret.Name))
	if err != nil {
		b.storedErr = err
		return
	}
	if chain := certificates(secret.Data[corev1.TLSCertKey]); len(chain) > 0 {
		b.stored = &serving{chain, b.secret.String()}
	}
}

// secretOf returns the Secret with the certificate of what a webhook calls, as an annotation or usher names it.
func secretOf(ctx context.Context, source reader.Source, w entry, service corev1.Service) (s secretRef, is bool, err error) {
	split := func(text string) secretRef {
		namespace, name, _ := strings.Cut(text, "/")
		return secretRef{objectName{namespace, name}}
	}
	from := w.configuration.Annotations
	switch {
	case service.Annotations["service.beta.openshift.io/serving-cert-secret-name"] != "":
		return secretRef{objectName{service.Namespace, service.Annotations["service.beta.openshift.io/serving-cert-secret-name"]}}, true, nil
	case from["cert-manager.io/inject-ca-from"] != "":
		at := split(from["cert-manager.io/inject-ca-from"])
		raw, err := source.Get(ctx, reader.NewKind("cert-manager.io", "v1", "Certificate", "certificates"), at.Namespace, at.Name)
		certificate, err := reader.One[struct{ Spec struct{ SecretName string } }](raw, err)
		if errors.Is(err, reader.ErrNotFound) && w.ushers() { // in files, for one
			return secretRef{objectName{at.Namespace, "usher-tls"}}, true, nil
		}
		return secretRef{objectName{at.Namespace, certificate.Spec.SecretName}}, err == nil, err
	case from["cert-manager.io/inject-ca-from-secret"] != "":
		return split(from["cert-manager.io/inject-ca-from-secret"]), true, nil
	case w.ushers() && service.Name != "":
		return secretRef{objectName{service.Namespace, "usher-tls"}}, true, nil
	}
	return s, false, nil
}

// certificates returns the certificates of a PEM text.
func certificates(raw []byte) (all []*x509.Certificate) {
	for {
		block, rest := pem.Decode(raw)
		if block == nil {
			return all
		}
		raw = rest
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			all = append(all, c)
		}
	}
}

// serving returns the certificate that is served, or nil if it is unknown.
func (b *backend) serving() *serving {
	if b.handshake.chain != nil {
		return &serving{b.handshake.chain, "seen at " + b.handshake.address}
	}
	return b.stored
}
