package connectivity

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/usherctl/parallel"
	"usher.dev/usher/usherctl/report"
)

// backend describes the server behind the client configuration of one or several webhooks, as far as it could be read.
// Nothing is read after the first error.
type backend struct {
	service    corev1.Service
	serviceErr error
	slices     []discoveryv1.EndpointSlice
	slicesErr  error
	handshake  handshake
	dead       []string             // endpoints that do not answer while others do, each with the reason
	secret     types.NamespacedName // with the certificate
	issued     bool                 // the Secret is made again once it is deleted
	serviceCA  bool                 // of OpenShift has issued it
	stored     *serving             // what the Secret holds
	storedErr  error
	workloads  []workload // whose pods the Service selects
	neighbours int        // workloads in its namespace, with them
	meant      string     // a question for another Service, if it does not exist
}

// Read reads what each of the webhooks calls.
func (c *Cluster) Read(ctx context.Context, webhooks []Webhook) {
	c.backends, c.connections, c.lacking = map[Target]*backend{}, &connections{}, map[string]*bool{}
	var calls []func()
	for _, w := range webhooks {
		t := TargetOf(w.Client)
		if from, name := w.caSource(); name != "" && c.lacking[from.Kind+" "+name] == nil {
			lacks := new(bool)
			c.lacking[from.Kind+" "+name] = lacks
			calls = append(calls, func() { *lacks = isLacking(ctx, c.Source, from, named(name)) })
		}
		if c.backends[t] != nil {
			continue
		}
		b := &backend{}
		c.backends[t] = b
		calls = append(calls, func() {
			b.read(ctx, c, w, t)
			if b.serviceErr == nil {
				b.readSecret(ctx, c.Source, w)
				b.readWorkloads(ctx, c.Source)
			}
		})
	}
	parallel.Run(calls...)
}

// read reads a Service and its endpoints, and makes a handshake.
func (b *backend) read(ctx context.Context, c *Cluster, w Webhook, t Target) {
	var to []candidate
	switch {
	case t == Target{}:
		return
	case t.URL != "":
		if address, problem := addressOf(t.URL); problem == nil {
			to = []candidate{{address, true}}
		}
	default:
		b.service, b.serviceErr = reader.One[corev1.Service](c.Source.Get(ctx, reader.NewKind("", "v1", "Service", "services"), t.Service.Namespace,
			t.Service.Name))
		if errors.Is(b.serviceErr, reader.ErrNotFound) {
			b.meant = nearService(ctx, c.Source, t)
		}
		if b.serviceErr != nil || serviceProblem(w, t, b.service) != nil {
			return
		}
		kind := reader.NewKind(discoveryv1.GroupName, "v1", "EndpointSlice", "endpointslices")
		b.slices, b.slicesErr = reader.All[discoveryv1.EndpointSlice](c.Source.List(ctx, kind, t.Service.Namespace))
		for _, address := range b.addresses(w, t) {
			to = append(to, candidate{address, c.Inside || local(address)})
		}
	}
	if !c.Source.Live() || len(to) == 0 {
		return
	}
	roots := readBundle(w.Client.CABundle)
	var others []handshake
	b.handshake, others = c.connections.probe(ctx, t.name(), to, func(chain []*x509.Certificate) bool {
		return chain[0].VerifyHostname(t.name()) == nil || signer(roots, serving{chain: chain}) != nil
	})
	for _, h := range others {
		if host, _, _ := net.SplitHostPort(h.address); host != b.service.Spec.ClusterIP { // at which any of them answers
			b.dead = append(b.dead, h.address+" ("+h.err.Error()+")")
		}
	}
	if loopback(t.name()) && b.handshake.err != nil {
		b.handshake.err = errUnreachable // it is the machine of the API server that is meant
	}
}

// addresses returns where a port of a Service can be called: at its ClusterIP, and at some of its endpoints.
func (b *backend) addresses(w Webhook, t Target) (all []string) {
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

// readSecret reads the serving certificate from the Secret that holds it, if that is known and the certificate was not seen. That of usher is
// read as well, if usher may serve it: a foreign one is served from its next start.
func (b *backend) readSecret(ctx context.Context, source reader.Source, w Webhook) {
	var is bool
	b.secret, is, b.storedErr = secretOf(ctx, source, w, b.service)
	if errors.Is(b.storedErr, reader.ErrNotFound) {
		b.findStored(ctx, source)
	}
	if !is || b.storedErr != nil {
		return
	}
	seen := b.handshake.chain != nil && (!w.Ushers || b.unused(ctx, source))
	b.issued = issues(ctx, source, named(w.Annotations[fromCertificate]), b.secret)
	if seen && b.issued {
		return
	}
	secret, err := reader.One[corev1.Secret](source.Get(ctx, secrets, b.secret.Namespace, b.secret.Name))
	by := types.NamespacedName{Namespace: b.secret.Namespace, Name: secret.Annotations[certificateName]}
	b.serviceCA = b.service.Annotations[ServingSecret] == b.secret.Name && err == nil && secret.Annotations[originatingService] == b.service.Name
	b.issued = b.issued || b.serviceCA || issues(ctx, source, by, b.secret)
	switch {
	case seen:
		return
	case err != nil:
		b.storedErr = err
		return
	}
	if chain := readBundle(secret.Data[corev1.TLSCertKey]).certificates; len(chain) > 0 {
		b.stored = &serving{chain, "Secret " + b.secret.String()}
	}
}

// findStored has the serving certificate from a Secret of files that holds one for the Service.
func (b *backend) findStored(ctx context.Context, source reader.Source) {
	if source.Live() {
		return // where the rights to list Secrets are no small thing
	}
	all, _ := reader.All[corev1.Secret](source.List(ctx, secrets, b.service.Namespace))
	for _, s := range all {
		chain := readBundle(s.Data[corev1.TLSCertKey]).certificates
		if len(chain) > 0 && chain[0].VerifyHostname(b.service.Name+"."+b.service.Namespace+".svc") == nil &&
			(b.stored == nil || b.stored.chain[0].NotAfter.Before(chain[0].NotAfter)) {
			b.secret = types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
			b.stored, b.storedErr = &serving{chain, "Secret " + b.secret.String()}, nil
		}
	}
}

var certificates, secrets = reader.NewKind("cert-manager.io", "v1", "Certificate", "certificates"), reader.NewKind("", "v1", "Secret", "secrets")

// caSource returns what cert-manager is to take the caBundle from, as an annotation says; "" if it says nothing.
func (w Webhook) caSource() (from reader.Kind, name string) {
	if name = w.Annotations[fromCertificate]; name != "" {
		return certificates, name
	}
	return secrets, w.Annotations[fromSecret]
}

// isLacking reports whether an object does not exist. Files without any of its kind in its namespace say nothing about it.
func isLacking(ctx context.Context, source reader.Source, kind reader.Kind, at types.NamespacedName) bool {
	_, err := source.Get(ctx, kind, at.Namespace, at.Name)
	if !errors.Is(err, reader.ErrNotFound) || source.Live() {
		return errors.Is(err, reader.ErrNotFound)
	}
	all, _ := source.List(ctx, kind, at.Namespace)
	return len(all) > 0
}

// sourceProblem returns the finding for what is to fill in the caBundle and does not exist, or nil.
func (c *Cluster) sourceProblem(w Webhook, about Subject) *Problem {
	from, name := w.caSource()
	which := from.Kind + " " + name
	if lacks := c.lacking[which]; lacks == nil || !*lacks {
		return nil
	}
	return problem("ca-source-missing", about, "an annotation asks cert-manager to fill in clientConfig.caBundle from the %s, which does not "+
		"exist: nothing fills it in, or replaces it once the CA is another one.", which).as(report.Warning)
}

// unused reports whether the Deployment behind the Service neither names the Secret nor keeps certificates in it, so that the Secret is left of
// another way to run usher.
func (b *backend) unused(ctx context.Context, source reader.Source) bool {
	raw, err := source.Get(ctx, reader.NewKind("apps", "v1", "Deployment", "deployments"), b.service.Namespace, b.service.Name)
	deployment, err := reader.One[appsv1.Deployment](raw, err)
	pod, _ := json.Marshal(deployment.Spec.Template.Spec)
	managed := slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return strings.Contains(strings.Join(slices.Concat(c.Command, c.Args), "="), "--certs=managed")
	})
	return err == nil && !managed && !strings.Contains(string(pod), strconv.Quote(b.secret.Name))
}

// ServingSecret is the annotation of a Service whose certificate OpenShift issues, with the name of its Secret.
const ServingSecret = "service.beta.openshift.io/serving-cert-secret-name"

// originatingService is the annotation that OpenShift's service CA sets on a Secret that it has made, with the name of the Service.
const originatingService = "service.beta.openshift.io/originating-service-name"

// The annotations of cert-manager: of configurations, with what the caBundle is taken from, and of a Secret, with the Certificate that it is of.
const fromCertificate, fromSecret, certificateName = "cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret",
	"cert-manager.io/certificate-name"

// secretOf returns the Secret with the certificate of what a webhook calls, as an annotation or usher names it.
func secretOf(ctx context.Context, source reader.Source, w Webhook, service corev1.Service) (s types.NamespacedName, is bool, err error) {
	at := named(cmp.Or(w.Annotations[fromCertificate], w.Annotations[fromSecret]))
	switch {
	case service.Annotations[ServingSecret] != "":
		return types.NamespacedName{Namespace: service.Namespace, Name: service.Annotations[ServingSecret]}, true, nil
	case w.Annotations[fromCertificate] != "":
		name, err := issuedBy(ctx, source, at)
		if errors.Is(err, reader.ErrNotFound) && w.Ushers && !source.Live() {
			return types.NamespacedName{Namespace: at.Namespace, Name: "usher-tls"}, true, nil
		}
		return types.NamespacedName{Namespace: at.Namespace, Name: name}, err == nil, err
	case w.Annotations[fromSecret] != "":
		return at, true, nil
	case w.Ushers && service.Name != "":
		return types.NamespacedName{Namespace: service.Namespace, Name: "usher-tls"}, true, nil
	}
	return s, false, nil
}

// named returns the name that an annotation of cert-manager holds.
func named(annotation string) (at types.NamespacedName) {
	at.Namespace, at.Name, _ = strings.Cut(annotation, "/")
	return at
}

// issues reports whether a Certificate of cert-manager is there, and is for a Secret.
func issues(ctx context.Context, source reader.Source, at, secret types.NamespacedName) bool {
	if at.Name == "" {
		return false
	}
	of, err := issuedBy(ctx, source, at)
	return err == nil && of == secret.Name && at.Namespace == secret.Namespace
}

// issuedBy returns the name of the Secret of a Certificate of cert-manager.
func issuedBy(ctx context.Context, source reader.Source, at types.NamespacedName) (string, error) {
	raw, err := source.Get(ctx, certificates, at.Namespace, at.Name)
	certificate, err := reader.One[struct{ Spec struct{ SecretName string } }](raw, err)
	return certificate.Spec.SecretName, err
}

// serving returns the certificate that is served, or nil if it is unknown.
func (b *backend) serving() *serving {
	if b.handshake.chain != nil {
		return &serving{b.handshake.chain, "seen at " + b.handshake.address}
	}
	return b.stored
}
