package doctor

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"usher.dev/usher/review"
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
func (f *facts) readBackends(ctx context.Context) {
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
	inParallel(calls...)
}

// read reads a Service and its endpoints, and makes a handshake.
func (b *backend) read(ctx context.Context, f *facts, w entry, t target) {
	var to []candidate
	switch {
	case t == target{}:
		return
	case t.url != "":
		if urlProblem(w, t.url) == nil {
			to = []candidate{{addressOf(t.url), true}}
		}
	default:
		b.service, b.serviceErr = decodeOne[corev1.Service](f.source.Get(ctx, collection("", "v1", "Service", "services"), t.service.Namespace,
			t.service.Name))
		if b.serviceErr != nil || serviceProblem(w, t, b.service) != nil {
			return
		}
		kind := collection(discoveryv1.GroupName, "v1", "EndpointSlice", "endpointslices")
		b.slices, b.slicesErr = decodeAll[discoveryv1.EndpointSlice](f.source.List(ctx, kind, t.service.Namespace))
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
func (b *backend) readSecret(ctx context.Context, source Source, w entry) {
	var is bool
	if b.secret, is, b.storedErr = secretOf(ctx, source, w, b.service); !is || b.storedErr != nil {
		return
	}
	secret, err := decodeOne[corev1.Secret](source.Get(ctx, collection("", "v1", "Secret", "secrets"), b.secret.Namespace, b.secret.Name))
	if err != nil {
		b.storedErr = err
		return
	}
	if chain := certificates(secret.Data[corev1.TLSCertKey]); len(chain) > 0 {
		b.stored = &serving{chain, b.secret.String()}
	}
}

// secretOf returns the Secret with the certificate of what a webhook calls, as an annotation or usher names it.
func secretOf(ctx context.Context, source Source, w entry, service corev1.Service) (s secretRef, is bool, err error) {
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
		raw, err := source.Get(ctx, collection("cert-manager.io", "v1", "Certificate", "certificates"), at.Namespace, at.Name)
		certificate, err := decodeOne[struct{ Spec struct{ SecretName string } }](raw, err)
		if errors.Is(err, ErrNotFound) && w.ushers() { // in files, for one
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

// reachProblems returns what keeps the API server from calling a webhook: the first error on the way, or what is wrong
// with the certificates.
func (f *facts) reachProblems(w entry) []review.Finding {
	t, roots := targetOf(w.ClientConfig), readBundle(w.ClientConfig.CABundle)
	b := f.backends[t]
	if found := f.wayProblem(w, t, b); found != nil && found.Severity != review.Warning {
		return []review.Finding{*found}
	} else if found != nil { // what it is does not matter to the rest
		return append([]review.Finding{*found}, bundleProblems(w, t, roots, b.fix(w).bundle)...)
	}
	fix := b.fix(w)
	all := bundleProblems(w, t, roots, fix.bundle)
	if len(w.ClientConfig.CABundle) == 0 && !f.source.Live() && (w.ushers() || injector(w) != "") {
		return nil // it is filled in later, by usher or by what an annotation asks
	}
	if s := b.serving(); s != nil {
		return append(all, certificateProblems(t, roots, *s, f.now(), fix)...)
	}
	if len(all) > 0 && all[0].Severity == review.Error { // what it would have to verify does not matter
		return all
	}
	if now := f.now(); len(roots.certificates) > 0 && !slices.ContainsFunc(roots.certificates,
		func(c *x509.Certificate) bool { return now.Before(c.NotAfter) }) {
		return append(all, problem(expiredCA, review.Error, fix.bundle, "every CA in clientConfig.caBundle has expired: %s. %s",
			list(subjects(roots.certificates)), w.consequence()))
	}
	if f.source.Live() {
		all = append(all, b.unseen(w, t))
	}
	return all
}

// wayProblem returns the first error on the way to what a webhook calls, or nil.
func (f *facts) wayProblem(w entry, t target, b *backend) *review.Finding {
	if t.url != "" {
		if found := urlProblem(w, t.url); found != nil {
			return found
		}
		return handshakeProblemOf(w, t, b)
	}
	var found review.Finding
	switch {
	case t == target{}:
		found = problem(invalidURL, review.Error, w.show(), "clientConfig names neither a service nor a url. %s", w.consequence())
	case errors.Is(b.serviceErr, ErrNotFound) && f.noServices:
		return nil // files about something else
	case errors.Is(b.serviceErr, ErrNotFound):
		found = missingService(w, t)
	case b.serviceErr != nil:
		found = unreadFinding(b.serviceErr, "whether the webhook can be called")
	default:
		if found := serviceProblem(w, t, b.service); found != nil {
			return found
		}
		return f.endpointsOrHandshake(w, t, b)
	}
	return &found
}

func (f *facts) endpointsOrHandshake(w entry, t target, b *backend) *review.Finding {
	if b.slicesErr != nil {
		if b.serving() != nil && b.handshake.chain != nil {
			return nil // it answers
		}
		found := unreadFinding(b.slicesErr, "whether a pod is behind the Service")
		return &found
	}
	if len(b.slices) == 0 && !f.source.Live() {
		return nil // files seldom hold what controllers make
	}
	if found, _ := endpointsProblem(w, b.service, *portOf(b.service, t.port), b.slices); found != nil {
		return found
	}
	return handshakeProblemOf(w, t, b)
}

func handshakeProblemOf(w entry, t target, b *backend) *review.Finding {
	if b.handshake.err == nil {
		return nil
	}
	return handshakeProblem(w, t, b.handshake)
}

// serving returns the certificate that is served, or nil if it is unknown.
func (b *backend) serving() *serving {
	if b.handshake.chain != nil {
		return &serving{b.handshake.chain, "seen at " + b.handshake.address}
	}
	return b.stored
}

// unseen returns the finding for a certificate that could not be looked at.
func (b *backend) unseen(w entry, t target) review.Finding {
	if b.storedErr != nil {
		return unreadFinding(b.storedErr, fmt.Sprintf("the certificate of %s, which cannot be reached from this machine", t))
	}
	namespace := cmp.Or(t.service.Namespace, "default")
	return problem(notSeen, review.Unknown, "kubectl -n "+review.Word(namespace)+" get secrets --field-selector type=kubernetes.io/tls",
		"whether clientConfig.caBundle verifies the certificate of %s is unknown: it cannot be reached from this machine, and no annotation "+
			"names a Secret with it. Run usher doctor as a pod of the cluster.", t)
}

// fix returns the commands that correct the certificates of a webhook.
func (b *backend) fix(w entry) fixes {
	namespace := cmp.Or(targetOf(w.ClientConfig).service.Namespace, "default")
	list := "kubectl -n " + review.Word(namespace) + " get secrets --field-selector type=kubernetes.io/tls"
	switch {
	case injector(w) == "cert-manager" && b.secret.Name != "":
		return fixes{"kubectl -n cert-manager rollout restart deployment/cert-manager-cainjector", // which fills in the caBundle
			fmt.Sprintf("kubectl -n %s delete secret %s", review.Word(b.secret.Namespace), review.Word(b.secret.Name))} // it is issued again
	case w.ushers():
		service := review.Word(namespace + "/" + cmp.Or(b.service.Name, "usher"))
		return fixes{"usher webhooks apply --service " + service, "usher certs rotate --service " + service}
	case b.secret.Name != "":
		value := fmt.Sprintf(`'"$(kubectl -n %s get secret %s -o jsonpath='{.data.ca\.crt}')"'`, review.Word(b.secret.Namespace), review.Word(b.secret.Name))
		return fixes{strings.Replace(w.patch("clientConfig.caBundle", "CA"), `"CA"`, `"`+value+`"`, 1), list}
	}
	return fixes{list, list}
}
