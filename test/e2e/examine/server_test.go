package examine

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	cryptotls "crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// server is a webhook server of somebody else, behind the Service foreign/name.
type server struct {
	name    string
	address string
	ca, key []byte // PEM
}

// certificate says what is unusual about a certificate and its CA.
type certificate struct {
	names           []string // default: the Service's; "-": none, but the common name
	begins, ends    time.Duration
	caEnds          time.Duration
	plain, unspoken bool // no TLS; no answer
}

// tls returns the certificate itself: a word that says what it is for.
func tls(c certificate) certificate { return c }

// serve starts a server in this process, and creates its Service.
func serve(ctx context.Context, name string, c certificate) (*server, error) {
	s := &server{name: name}
	listener, err := net.Listen("tcp", host+":0")
	if err != nil {
		return nil, err
	}
	s.address = listener.Addr().String()
	own := s.issue(c)
	switch {
	case c.plain:
		go func() { _ = http.Serve(listener, http.NotFoundHandler()) }()
	case c.unspoken:
		go func() {
			for {
				if _, err := listener.Accept(); err != nil { // the connection stays open
					return
				}
			}
		}()
	default:
		go func() {
			_ = http.Serve(cryptotls.NewListener(listener, &cryptotls.Config{Certificates: []cryptotls.Certificate{own}}), http.NotFoundHandler())
		}()
	}
	services := "/api/v1/namespaces/foreign/services"
	if _, err := cluster.Admin().Create(ctx, services, s.service()); err != nil {
		return nil, err
	}
	return s, endpoints(ctx, "foreign", name, s.address, true)
}

// service returns the Service of the server.
func (s *server) service() kubetest.Object {
	return kubetest.Object{"apiVersion": "v1", "kind": "Service", "metadata": kubetest.Object{"name": s.name, "namespace": "foreign"},
		"spec": kubetest.Object{"selector": kubetest.Object{"app": s.name},
			"ports": []kubetest.Object{{"name": "https", "port": 443, "targetPort": "https"}}}}
}

// expired returns a CA that has expired.
func (s *server) expired() []byte {
	old := &server{name: s.name + "-old"}
	old.issue(certificate{caEnds: -24 * time.Hour})
	return old.ca
}

// issue makes a CA and a certificate, and returns the latter.
func (s *server) issue(c certificate) cryptotls.Certificate {
	now := time.Now()
	if c.ends == 0 {
		c.begins, c.ends = -time.Hour, 90*24*time.Hour
	}
	if c.caEnds == 0 {
		c.caEnds = 365 * 24 * time.Hour
	}
	key, caKey := newKey(), newKey()
	ca := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: s.name + " CA"}, NotBefore: now.Add(-400 * 24 * time.Hour),
		NotAfter: now.Add(c.caEnds), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: s.name + ".foreign.svc"}, NotBefore: now.Add(c.begins),
		NotAfter: now.Add(c.ends), DNSNames: []string{s.name + ".foreign.svc"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if c.names != nil {
		leaf.DNSNames = c.names
	}
	if len(c.names) == 1 && c.names[0] == "-" {
		leaf.DNSNames = nil
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	must(err)
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	must(err)
	keyDER, err := x509.MarshalECPrivateKey(caKey)
	must(err)
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	s.key = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	return cryptotls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	return key
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	must(err)
	return n
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// webhook returns a webhook that calls the server about ConfigMaps, and has no fault.
func (s *server) webhook(name string) kubetest.Object {
	return kubetest.Object{
		"name": name + ".foreign.example", "sideEffects": "None", "admissionReviewVersions": []string{"v1"}, "timeoutSeconds": 3, "failurePolicy": "Fail",
		"clientConfig":      kubetest.Object{"caBundle": s.ca, "service": kubetest.Object{"namespace": "foreign", "name": s.name, "path": "/"}},
		"rules":             rules("", "v1", "configmaps", "CREATE", "Namespaced"),
		"namespaceSelector": kubetest.Object{"matchLabels": kubetest.Object{"foreign": "yes"}},
	}
}

// rules returns one rule.
func rules(group, version, resource, operation, scope string) []kubetest.Object {
	return []kubetest.Object{{"apiGroups": []string{group}, "apiVersions": []string{version}, "resources": []string{resource},
		"operations": []string{operation}, "scope": scope}}
}

// configuration returns a configuration of webhooks.
func configuration(kind, name string, webhooks ...kubetest.Object) kubetest.Object {
	return kubetest.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind + "WebhookConfiguration",
		"metadata": kubetest.Object{"name": name}, "webhooks": webhooks}
}

// folded returns PEM as a YAML text with > would be.
func folded(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\n"), []byte(" ")) }
