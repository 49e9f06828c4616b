package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// Faults of certificates.

const secrets = "/api/v1/namespaces/usher/secrets/"

// rotate replaces the certificate, or the CA too, and waits until that is done.
func rotate(flags ...string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		_, err := w.usher.Run(ctx, append([]string{"certs", "rotate", "--kubeconfig=" + w.cluster.AdminKubeconfig()}, flags...)...)
		return err
	}
}

// endOften lets certificates live for 20 s and CAs for a minute, for longer than a CA lives.
func endOften(ctx context.Context, w *world) error {
	if err := w.restartWith(ctx, append(w.flags, "--cert-lifetime=20s", "--ca-lifetime=60s")...); err != nil {
		return err
	}
	if err := rotate("--ca")(ctx, w); err != nil { // to one of the new lifetime
		return err
	}
	kubetest.Pause(ctx, 70*time.Second)
	return w.restartWith(ctx, w.flags...)
}

// endCA puts a CA in place that has ended, while the certificate has not.
func endCA(ctx context.Context, w *world) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "ended"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(-time.Second), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	ended := text("CERTIFICATE", der)
	_, err = w.admin.Patch(ctx, secrets+"usher-ca", kubetest.MergePatch,
		kubetest.Object{"data": kubetest.Object{"ca.crt": ended, "ca.key": text("PRIVATE KEY", private)}})
	if err != nil {
		return err
	}
	return w.until(ctx, func(ca, _ string) bool { return ca != "" && ca != ended })
}

func text(kind string, der []byte) string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// until waits until the CA and the certificate in the Secrets are as wanted.
func (w *world) until(ctx context.Context, wanted func(ca, leaf string) bool) error {
	return kubetest.Eventually(ctx, func(ctx context.Context) error {
		if ca, leaf := w.stored(ctx, "usher-ca", "ca.crt"), w.stored(ctx, "usher-tls", "tls.crt"); !wanted(ca, leaf) {
			return fmt.Errorf("the Secrets are not repaired")
		}
		return nil
	})
}

// stored returns an entry of a Secret, or "".
func (w *world) stored(ctx context.Context, secret, key string) string {
	object, err := w.admin.Get(ctx, secrets+secret)
	if err != nil {
		return ""
	}
	return object.String("data", key)
}

// deleteSecrets deletes both Secrets, and waits until there is another certificate.
func deleteSecrets(ctx context.Context, w *world) error {
	before := w.stored(ctx, "usher-tls", "tls.crt")
	for _, name := range []string{"usher-ca", "usher-tls"} {
		if _, err := w.admin.Delete(ctx, secrets+name); err != nil {
			return err
		}
	}
	return w.until(ctx, func(ca, leaf string) bool { return ca != "" && leaf != "" && leaf != before })
}

// emptyBundles removes every caBundle of usher's webhooks.
func emptyBundles(ctx context.Context, w *world) error {
	for _, kind := range []string{"mutating", "validating"} {
		path := "/apis/admissionregistration.k8s.io/v1/" + kind + "webhookconfigurations/usher"
		configuration, err := w.admin.Get(ctx, path)
		if err != nil {
			return err
		}
		var patch []kubetest.Object
		for i := range configuration.List("webhooks") {
			patch = append(patch, kubetest.Object{"op": "remove", "path": fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i)})
		}
		if _, err := w.admin.Patch(ctx, path, kubetest.JSONPatch, patch); err != nil {
			return err
		}
	}
	return nil
}
