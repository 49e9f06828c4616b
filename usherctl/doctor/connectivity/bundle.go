package connectivity

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/usherctl/report"
)

// bundle holds the contents of a caBundle.
type bundle struct {
	certificates []*x509.Certificate
	why          string // it cannot be used, or a part of it
	key          bool   // it holds a private key
	empty        bool
}

// readBundle reads a caBundle as the API server does: anything but a certificate is skipped.
func readBundle(raw []byte) (b bundle) {
	rest := raw
	b.empty = len(raw) == 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		switch {
		case strings.Contains(block.Type, "PRIVATE KEY"):
			b.key = true
		case block.Type != "CERTIFICATE":
			b.why = "it holds a PEM block of type " + block.Type
		default:
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				b.why = "it holds a certificate that cannot be parsed"
				continue
			}
			b.certificates = append(b.certificates, certificate)
		}
	}
	if len(b.certificates) == 0 && !b.key && b.why == "" {
		b.why = notPEM(raw)
	}
	if bytes.HasPrefix(raw, []byte("\ufeff")) { // PEM begins a line
		b.why = "it begins with a byte order mark, which hides its first certificate"
	}
	return b
}

// notPEM says what a caBundle is that holds no PEM block.
func notPEM(raw []byte) string {
	compact := bytes.Join(bytes.Fields(raw), nil)
	decoded, err := base64.StdEncoding.DecodeString(string(compact))
	_, notDER := x509.ParseCertificate(raw)
	switch {
	case err == nil && bytes.Contains(decoded, []byte("-----BEGIN")):
		return "it is encoded in base64 twice"
	case bytes.Contains(raw, []byte("-----BEGIN CERTIFICATE")):
		return "its lines were folded into one, as a YAML text with > does, or its end is missing"
	case notDER == nil:
		return "it is a certificate in DER, not PEM"
	}
	return "it is no PEM"
}

// bundleProblems returns what is wrong with the caBundle of a webhook by itself.
func bundleProblems(w Webhook, about Subject, b bundle) (all []*Problem) {
	t, raw := about.Target, w.Client.CABundle
	switch {
	case len(raw) == 0 && t.URL == "":
		by := ""
		if who := w.Injector(); who != "" {
			by = " " + who + " should have filled it in, as an annotation asks, and has not."
		}
		if errors.Is(about.Err, reader.ErrNotFound) {
			by += " What the annotation names does not exist."
		}
		return []*Problem{problem("ca-bundle-missing", about, "clientConfig.caBundle is empty, so the API server uses the CAs of "+
			"its own machine, and no public CA issues a certificate for %s.%s %s", t.name(), by, w.Consequence)}
	case len(raw) == 0:
		return nil
	case len(b.certificates) == 0 && !b.key:
		return []*Problem{problem("ca-bundle-invalid", about, "clientConfig.caBundle has no certificate: %s. It is base64 of a PEM "+
			"file with -----BEGIN CERTIFICATE----- lines. %s", b.why, w.Consequence)}
	case b.why != "":
		all = append(all, problem("ca-bundle-invalid", about, "clientConfig.caBundle has more than certificates: %s. The API server skips it.",
			b.why).as(report.Warning))
	}
	if b.key {
		all = append(all, problem("ca-bundle-private-key", about, "clientConfig.caBundle holds a private key, which everyone can read who may "+
			"read the configuration. Replace the key and its certificate, and put only certificates here."))
	}
	return all
}

// Injector returns who fills in the caBundle, as an annotation of the configuration asks, or "".
func (w Webhook) Injector() string {
	for key, who := range map[string]string{
		"cert-manager.io/inject-ca-from":            "cert-manager",
		"cert-manager.io/inject-ca-from-secret":     "cert-manager",
		"cert-manager.io/inject-apiserver-ca":       "cert-manager",
		"service.beta.openshift.io/inject-cabundle": "OpenShift",
	} {
		if w.Annotations[key] != "" {
			return who
		}
	}
	return ""
}
