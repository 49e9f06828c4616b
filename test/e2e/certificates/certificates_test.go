package certificates

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
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestUnderLoad: whatever happens to the certificates, the Secrets and the API server, no request fails. Only where the
// caBundles themselves are damaged, requests fail until they are put back.
func TestUnderLoad(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	l := startLoad(ctx)
	defer l.stop()
	for _, phase := range []struct {
		name   string
		excuse bool
		act    func(context.Context, *testing.T)
	}{
		// The CA is not replaced before its time.
		{"the leaf's Secret is deleted", false, deleted("usher-tls")},
		{"a replica restarts", false, restarted},
		{"a leaf is rotated", false, rotate()},
		{"the API server restarts", false, apiServerRestarted},
		{"leaf and CA are due", false, due},
		{"a CA is rotated", false, rotate("--ca")},
		{"a CA is rotated, and the old one distrusted", false, rotate("--ca", "--distrust")},
		{"old copies are put back, and a replica starts", false, restored},
		{"the CA's Secret is deleted", false, deleted("usher-ca")},
		{"both Secrets are deleted", false, deleted("usher-tls", "usher-ca")},
		{"the key of the CA is damaged", false, damaged},
		{"the CA has expired, the leaf has not", true, expired},
		{"the caBundles are emptied", true, emptied},
	} {
		l.phase.Store(phase.name)
		began := time.Now()
		phase.act(ctx, t)
		healthy(ctx, t)
		t.Logf("%s: %.1f s, %d failed", phase.name, time.Since(began).Seconds(), l.Get(phase.name+": failed"))
		time.Sleep(500 * time.Millisecond)
		allowed := 0
		if phase.excuse {
			allowed = 1 << 30
		}
		l.want(t, phase.name, allowed)
	}
	l.stop()
	t.Log(l.String())
}

func rotate(flags ...string) func(context.Context, *testing.T) {
	return func(ctx context.Context, t *testing.T) {
		leaf, ca := serial(ctx, t, "usher-tls", "tls.crt"), serial(ctx, t, "usher-ca", "ca.crt")
		out, err := usher.Run(ctx, append([]string{"certs", "rotate", "--kubeconfig=" + cluster.AdminKubeconfig()}, flags...)...)
		if err != nil || !strings.Contains(out, "\nnew certificate ") || serial(ctx, t, "usher-tls", "tls.crt") == leaf {
			t.Errorf("%v: %s", err, out)
		}
		if newCA := serial(ctx, t, "usher-ca", "ca.crt") != ca; newCA != (len(flags) > 0) {
			t.Errorf("new CA: %v", newCA)
		}
		if strings.Contains(strings.Join(flags, ""), "distrust") && (!strings.Contains(out, "is no longer trusted") || trusts(ctx, t, ca)) {
			t.Errorf("the old CA is still trusted: %s", out)
		}
	}
}

// due waits until a leaf and a CA were renewed because two thirds of their lives are over.
func due(ctx context.Context, t *testing.T) {
	leaf, ca := serial(ctx, t, "usher-tls", "tls.crt"), serial(ctx, t, "usher-ca", "ca.crt")
	eventually(ctx, t, func() error {
		if serial(ctx, t, "usher-ca", "ca.crt") == ca || serial(ctx, t, "usher-tls", "tls.crt") == leaf {
			return fmt.Errorf("the CA %s is not renewed", ca)
		}
		return nil
	})
}

func deleted(names ...string) func(context.Context, *testing.T) {
	return func(ctx context.Context, t *testing.T) {
		leaf := serial(ctx, t, "usher-tls", "tls.crt")
		for _, name := range names {
			if _, err := cluster.Admin().Delete(ctx, secrets+name); err != nil {
				t.Error(err)
			}
		}
		eventually(ctx, t, func() error {
			if is := serial(ctx, t, "usher-tls", "tls.crt"); is == "" || is == leaf || serial(ctx, t, "usher-ca", "ca.crt") == "" {
				return fmt.Errorf("no new leaf: %s", is)
			}
			return nil
		})
	}
}

func damaged(ctx context.Context, t *testing.T) {
	ca := serial(ctx, t, "usher-ca", "ca.crt")
	merge(ctx, t, secrets+"usher-ca", `{"metadata": {"labels": {"mine": "stays"}}, "data": {"ca.key": "ZGFtYWdlZA==", "mine": "c3RheXM="}}`)
	eventually(ctx, t, func() error {
		if serial(ctx, t, "usher-ca", "ca.crt") == ca {
			return fmt.Errorf("the CA %s stays", ca)
		}
		return nil
	})
	secret, err := cluster.Admin().Get(ctx, secrets+"usher-ca")
	if err != nil || secret.String("metadata", "labels", "mine") != "stays" || secret.String("data", "mine") != "c3RheXM=" {
		t.Errorf("what others put on the Secret is lost: %v", err)
	}
}

func restarted(ctx context.Context, t *testing.T) {
	if err := usher.Replicas[0].Restart(ctx); err != nil {
		t.Error(err)
	}
}

// restored puts both Secrets back as they were before their CA was replaced and distrusted, and starts a replica beside them.
func restored(ctx context.Context, t *testing.T) {
	ca, old := serial(ctx, t, "usher-ca", "ca.crt"), map[string]any{}
	for _, name := range []string{"usher-ca", "usher-tls"} {
		old[name] = secret(ctx, t, name)["data"]
	}
	rotate("--ca", "--distrust")(ctx, t)
	for name, data := range old {
		eventually(ctx, t, func() error {
			object := secret(ctx, t, name)
			object["data"] = data
			_, err := cluster.Admin().Update(ctx, secrets+name, object)
			return err
		})
	}
	restarted(ctx, t)
	eventually(ctx, t, func() error {
		if is := serial(ctx, t, "usher-ca", "ca.crt"); is == "" || is == ca {
			return fmt.Errorf("no new CA: %q", is)
		}
		return nil
	})
}

func secret(ctx context.Context, t *testing.T, name string) kubetest.Object {
	object, err := cluster.Admin().Get(ctx, secrets+name)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func apiServerRestarted(ctx context.Context, t *testing.T) {
	if err := cluster.RestartAPIServer(ctx); err != nil {
		t.Error(err)
	}
}

// expired puts a CA in place that has ended: what peers did not notice as long as their leaf was valid.
func expired(ctx context.Context, t *testing.T) {
	cert, key := authority(t, time.Now().Add(-time.Hour), time.Now().Add(-time.Second))
	merge(ctx, t, secrets+"usher-ca", fmt.Sprintf(`{"data": {"ca.crt": %q, "ca.key": %q}}`, cert, key))
	eventually(ctx, t, func() error {
		if is := serial(ctx, t, "usher-ca", "ca.crt"); is == "7" || is == "" {
			return fmt.Errorf("the CA is %q", is)
		}
		return nil
	})
}

// authority returns a CA that usher has not made, with the serial number 7, and its key, as PEM in base64.
func authority(t *testing.T, from, until time.Time) (cert, key string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "another CA"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := x509.MarshalPKCS8PrivateKey(private)
	text := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", secret)
}

func emptied(ctx context.Context, t *testing.T) {
	for _, path := range []string{mutating, validating} {
		c, err := cluster.Admin().Get(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		var patch []string
		for i := range c.List("webhooks") {
			patch = append(patch, fmt.Sprintf(`{"op": "remove", "path": "/webhooks/%d/clientConfig/caBundle"}`, i))
		}
		if _, err := cluster.Admin().Patch(ctx, path+"?fieldManager=somebody", kubetest.JSONPatch, "["+strings.Join(patch, ",")+"]"); err != nil {
			t.Error(err)
		}
	}
}

// healthy waits until the API server calls both replicas and every certificate verifies.
func healthy(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := usher.Balancer.Wait(ctx, len(usher.Replicas)); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, func() error {
		for i := range usher.Replicas {
			if _, err := connect(ctx, i); err != nil {
				return err
			}
		}
		_, err := createPod(ctx)
		return err
	})
}

func eventually(ctx context.Context, t *testing.T, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := kubetest.Eventually(ctx, func(context.Context) error { return try() }); err != nil {
		t.Fatal(err)
	}
}

func merge(ctx context.Context, t *testing.T, path, patch string) {
	t.Helper()
	if _, err := cluster.Admin().Patch(ctx, path, kubetest.MergePatch, patch); err != nil {
		t.Fatal(err)
	}
}

// serial returns the serial number of a certificate in a Secret, or "".
func serial(ctx context.Context, t *testing.T, secret, key string) string {
	t.Helper()
	object, err := cluster.Admin().Get(ctx, secrets+secret)
	if err != nil {
		return ""
	}
	for _, serial := range serials(object.String("data", key)) {
		return serial
	}
	return ""
}

// serials returns the serial numbers of certificates that are PEM, in base64.
func serials(encoded string) (all []string) {
	text, _ := base64.StdEncoding.DecodeString(encoded)
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, cert.SerialNumber.Text(16))
		}
	}
	return all
}

// trusts reports whether a webhook trusts a CA.
func trusts(ctx context.Context, t *testing.T, ca string) bool {
	t.Helper()
	c, err := cluster.Admin().Get(ctx, mutating)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(serials(c.List("webhooks")[0].String("clientConfig", "caBundle")), ca)
}
