// Package connectivity examines whether the API server of a cluster can call a webhook: the Service and its endpoints, or the URL, the TLS
// handshake, the certificate and the caBundle that should verify it. It only reads.
package connectivity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/usherctl/report"
)

// Cluster is a cluster with the webhooks whose reachability is examined.
type Cluster struct {
	Source      reader.Source
	Inside      bool // this machine can call ClusterIPs
	NoServices  bool // files without any Service
	backends    map[Target]*backend
	connections *connections
	lacking     map[string]*bool // by kind and name, whether what annotations name does not exist
}

// Webhook is a registered webhook, as far as its reachability depends on it.
type Webhook struct {
	Client      registration.WebhookClientConfig
	Annotations map[string]string // of its configuration
	Ushers      bool              // usher has registered it
	Consequence string            // what becomes of requests while it cannot be called
}

// Problem is a reason why a webhook cannot be called, or soon cannot, or why that is unknown.
type Problem struct {
	ID       string // also the anchor of its section in docs/troubleshooting.md
	Severity report.Severity
	Text     string
	Subject
}

// Subject holds the values that the fix of a problem is made of.
type Subject struct {
	Target  Target
	Service corev1.Service
	Port    int32                // of the Service, which was probably meant; 0: unknown
	Secret  types.NamespacedName // with the certificate, if that is known
	Issued  bool                 // the Secret is made again once it is deleted
	// ServiceCA reports that OpenShift's service CA has issued the certificate, as the Secret says.
	ServiceCA bool
	OfCA      bool  // not the certificate of the server is wrong, but its CA
	Err       error // why something could not be read
}

// problem returns a problem that is an error.
func problem(id string, about Subject, format string, args ...any) *Problem {
	return &Problem{ID: id, Severity: report.Error, Text: fmt.Sprintf(format, args...), Subject: about}
}

// as returns the problem with another severity.
func (p *Problem) as(severity report.Severity) *Problem {
	p.Severity = severity
	return p
}

// Unread returns the problem of something that could not be read; what names what was not examined for that.
func Unread(err error, what string) *Problem {
	about := Subject{Err: err}
	unreadable, is := errors.AsType[*reader.UnreadableError](err)
	if is && unreadable.Away != nil {
		return problem("not-readable", about, "the API server does not answer: %v. Not looked at: %s.", unreadable.Away, what).as(report.Unknown)
	}
	if is && unreadable.Forbidden {
		return problem("not-readable", about, "%s may not be read. Not looked at: %s. deploy/doctor.yaml has all rights that are "+
			"needed.", unreadable.What, what).as(report.Unknown)
	}
	return problem("not-readable", about, "%v. Not looked at: %s.", err, what).as(report.Unknown)
}

// Missing reports whether the Service of a webhook that was read does not exist.
func (c *Cluster) Missing(t Target) bool {
	b := c.backends[t]
	return b != nil && errors.Is(b.serviceErr, reader.ErrNotFound)
}

// HasEndpoints reports whether a ready endpoint is known behind what a webhook that was read calls.
func (c *Cluster) HasEndpoints(w Webhook) bool {
	t := TargetOf(w.Client)
	b := c.backends[t]
	port := portOf(b.service, t.port)
	if port == nil {
		return false
	}
	_, ready := endpointsProblem(w, b.service, *port, b.slices)
	return len(ready) > 0
}

// Problems returns what keeps the API server from calling a webhook that was read: the first error on the way, or what
// is wrong with the certificates.
func (c *Cluster) Problems(w Webhook) []*Problem {
	t, roots := TargetOf(w.Client), readBundle(w.Client.CABundle)
	b := c.backends[t]
	about := Subject{Target: t, Service: b.service, Secret: b.secret, Issued: b.issued, ServiceCA: b.serviceCA, Err: b.storedErr}
	if found := c.wayProblem(w, t, b); found != nil {
		all := []*Problem{found}
		if len(w.Client.CABundle) > 0 || found.Severity == report.Warning { // what it is does not matter to the rest
			all = append(all, bundleProblems(w, about, roots)...)
		}
		if expired := c.expiredProblem(w, about, roots); expired != nil {
			all = append(all, expired)
		}
		return all
	}
	all := b.partlyProblems(w)
	if b.handshake.demands {
		all = append(all, demandProblem(about, b.handshake))
	}
	later := len(w.Client.CABundle) == 0 && !c.Source.Live() && (w.Ushers || w.Injector() != "") // usher or what an annotation asks fills it in
	if !later {
		all = append(bundleProblems(w, about, roots), all...)
	}
	if found := c.sourceProblem(w, about); found != nil && (later || len(w.Client.CABundle) > 0) { // else it is said of the empty caBundle
		all = append(all, found)
	}
	if s := b.serving(); s != nil {
		found := certificateProblems(about, roots, *s, c.Source.Now())
		if len(found) == 0 && b.stored != nil { // which usher serves next
			found = certificateProblems(about, roots, *b.stored, c.Source.Now())
		}
		return append(all, found...)
	}
	if later {
		return all
	}
	if len(all) > 0 && all[0].Severity == report.Error { // what it would have to verify does not matter
		return all
	}
	if expired := c.expiredProblem(w, about, roots); expired != nil {
		return append(all, expired)
	}
	if c.Source.Live() {
		all = append(all, b.unseen(t))
	}
	return all
}

// expiredProblem returns the finding for a caBundle of which nothing is valid any more, or nil.
func (c *Cluster) expiredProblem(w Webhook, about Subject, roots bundle) *Problem {
	now := c.Source.Now()
	if len(roots.certificates) == 0 || slices.ContainsFunc(roots.certificates, func(c *x509.Certificate) bool { return now.Before(c.NotAfter) }) {
		return nil
	}
	return problem("ca-expired", about, "every CA in clientConfig.caBundle has expired: %s. %s",
		report.List(subjects(roots.certificates)), w.Consequence)
}

// wayProblem returns the first error on the way to what a webhook calls, or nil.
func (c *Cluster) wayProblem(w Webhook, t Target, b *backend) *Problem {
	if t.URL != "" {
		if _, found := addressOf(t.URL); found != nil {
			return found
		}
		return handshakeProblem(w, t, b.handshake)
	}
	switch {
	case t == Target{}:
		return problem("url-invalid", Subject{}, "clientConfig names neither a service nor a url. %s", w.Consequence)
	case errors.Is(b.serviceErr, reader.ErrNotFound) && c.NoServices:
		return nil // files about something else
	case errors.Is(b.serviceErr, reader.ErrNotFound):
		return missingService(w, t, b.meant)
	case b.serviceErr != nil:
		return Unread(b.serviceErr, "whether the webhook can be called")
	}
	if found := serviceProblem(w, t, b.service); found != nil {
		return found
	}
	return c.endpointsOrHandshake(w, t, b)
}

func (c *Cluster) endpointsOrHandshake(w Webhook, t Target, b *backend) *Problem {
	if b.slicesErr != nil {
		if b.handshake.chain != nil {
			return nil // it answers
		}
		return Unread(b.slicesErr, "whether a pod is behind the Service")
	}
	cause := b.workloadProblem(w, *portOf(b.service, t.port))
	if len(b.slices) == 0 && !c.Source.Live() { // files seldom hold what controllers make
		if cause != nil && len(b.workloads) == 0 {
			cause = cause.as(report.Warning) // or all that a Service needs
		}
		return cause
	}
	if found, _ := endpointsProblem(w, b.service, *portOf(b.service, t.port), b.slices); found != nil {
		if found.ID == "no-endpoints" && cause != nil {
			return cause
		}
		return found
	}
	return handshakeProblem(w, t, b.handshake)
}

// unseen returns the problem of a certificate that could not be looked at.
func (b *backend) unseen(t Target) *Problem {
	if b.storedErr != nil {
		return Unread(b.storedErr, fmt.Sprintf("the certificate of %s, which cannot be reached from this machine", t))
	}
	if loopback(t.name()) {
		return problem("certificate-not-seen", Subject{Target: t}, "%s leads to the machine of each API server itself, and what listens there "+
			"cannot be seen from this machine. Run usherctl doctor on the machines of the control plane.", t).as(report.Unknown)
	}
	return problem("certificate-not-seen", Subject{Target: t},
		"whether clientConfig.caBundle verifies the certificate of %s is unknown: it cannot be reached from this machine, and no annotation "+
			"names a Secret with it. Run usherctl doctor as a pod of the cluster.", t).as(report.Unknown)
}
