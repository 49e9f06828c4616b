// Package certs makes a certificate, and the CA by which the API server knows it: caBundle in the webhook configuration. A CA of its
// own is enough, because nobody else has to trust it.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Ensure makes ca.crt, tls.crt and tls.key in a folder that has no tls.crt. The CA's key is not kept.
func Ensure(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "tls.crt")); err == nil {
		return nil
	}
	caKey, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	key, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err1, err2, os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	from, until := time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "webhook CA"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	// The API server calls a Service NAME.NAMESPACE.svc, and looks for that among the DNS names, never in the common name.
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "webhook"}, NotBefore: from, NotAfter: until,
		DNSNames: []string{"webhook.webhook.svc", "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	caDER, err1 := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	leafDER, err2 := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	keyDER, err3 := x509.MarshalPKCS8PrivateKey(key)
	return errors.Join(err1, err2, err3, write(dir, "ca.crt", "CERTIFICATE", caDER), write(dir, "tls.key", "PRIVATE KEY", keyDER),
		write(dir, "tls.crt", "CERTIFICATE", leafDER))
}

func write(dir, name, kind string, der []byte) error {
	return os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
