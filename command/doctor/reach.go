package doctor

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/review"
)

// reachProblems returns what keeps the API server from calling a webhook: the first error on the way, or what is wrong
// with the certificates.
func (f *snapshot) reachProblems(w entry) []review.Finding {
	t, roots := targetOf(w.ClientConfig), readBundle(w.ClientConfig.CABundle)
	b := f.backends[t]
	about := subject{entry: w, target: t, backend: b}
	if found := f.wayProblem(w, t, b); found != nil && found.Severity != review.Warning {
		return []review.Finding{*found}
	} else if found != nil { // what it is does not matter to the rest
		return append([]review.Finding{*found}, bundleProblems(about, roots)...)
	}
	all := bundleProblems(about, roots)
	if len(w.ClientConfig.CABundle) == 0 && !f.source.Live() && (w.ushers() || injector(w) != "") {
		return nil // it is filled in later, by usher or by what an annotation asks
	}
	if s := b.serving(); s != nil {
		return append(all, certificateProblems(about, roots, *s, f.now())...)
	}
	if len(all) > 0 && all[0].Severity == review.Error { // what it would have to verify does not matter
		return all
	}
	if now := f.now(); len(roots.certificates) > 0 && !slices.ContainsFunc(roots.certificates,
		func(c *x509.Certificate) bool { return now.Before(c.NotAfter) }) {
		return append(all, problem("ca-expired", about, "every CA in clientConfig.caBundle has expired: %s. %s",
			list(subjects(roots.certificates)), w.consequence()))
	}
	if f.source.Live() {
		all = append(all, b.unseen(w, t))
	}
	return all
}

// wayProblem returns the first error on the way to what a webhook calls, or nil.
func (f *snapshot) wayProblem(w entry, t target, b *backend) *review.Finding {
	if t.url != "" {
		if found := urlProblem(w, t.url); found != nil {
			return found
		}
		return handshakeProblemOf(w, t, b)
	}
	var found review.Finding
	switch {
	case t == target{}:
		found = problem("url-invalid", w.about(), "clientConfig names neither a service nor a url. %s", w.consequence())
	case errors.Is(b.serviceErr, reader.ErrNotFound) && f.noServices:
		return nil // files about something else
	case errors.Is(b.serviceErr, reader.ErrNotFound):
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

func (f *snapshot) endpointsOrHandshake(w entry, t target, b *backend) *review.Finding {
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

// unseen returns the finding for a certificate that could not be looked at.
func (b *backend) unseen(w entry, t target) review.Finding {
	if b.storedErr != nil {
		return unreadFinding(b.storedErr, fmt.Sprintf("the certificate of %s, which cannot be reached from this machine", t))
	}
	return problem("certificate-not-seen", w.about(),
		"whether clientConfig.caBundle verifies the certificate of %s is unknown: it cannot be reached from this machine, and no annotation "+
			"names a Secret with it. Run usher doctor as a pod of the cluster.", t)
}
