package connectivity

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/apiserver"
)

// TestUnseenCertificate: a server that cannot be reached from here is judged by the Secret that it serves from; without
// one it is unknown, and not fine.
func TestUnseenCertificate(t *testing.T) {
	now := time.Now()
	ca := newAuthority(t, now.Add(-400*24*time.Hour), now.Add(400*24*time.Hour))
	leaf := ca.issue(t, now.Add(-time.Hour), now.Add(90*24*time.Hour), nil)
	foreign := newAuthority(t, now.Add(-time.Hour), now.Add(400*24*time.Hour)).issue(t, now.Add(-time.Hour), now.Add(90*24*time.Hour), nil)
	w := hook(func(w *Webhook) { w.Client.CABundle = ca.pem() })
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	client, err := apiserver.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	source := reader.API(client)
	for _, c := range []struct {
		name   string
		change func(*backend)
		want   string
	}{
		{"no Secret", func(*backend) {}, "certificate-not-seen"},
		{"its Secret", func(b *backend) { b.stored = &serving{[]*x509.Certificate{leaf}, "Secret ns/tls"} }, ""},
		{"a Secret that may not be read", func(b *backend) { b.storedErr = &reader.UnreadableError{What: "secrets ns/tls", Forbidden: true} }, "not-readable"},
		{"seen, and its Secret", func(b *backend) {
			b.handshake, b.stored = handshake{chain: []*x509.Certificate{leaf}}, &serving{[]*x509.Certificate{leaf}, "Secret ns/tls"}
		}, ""},
		{"seen, and a foreign one in its Secret", func(b *backend) {
			b.handshake, b.stored = handshake{chain: []*x509.Certificate{leaf}}, &serving{[]*x509.Certificate{foreign}, "Secret ns/tls"}
		}, "ca-bundle-mismatch"},
		{"no endpoints", func(b *backend) { b.slices = nil }, "no-endpoints"},
		{"endpoints that may not be read", func(b *backend) { b.slicesErr = &reader.UnreadableError{What: "endpointslices", Forbidden: true} }, "not-readable"},
		{"no Service", func(b *backend) { b.serviceErr = reader.ErrNotFound }, "service-missing"},
		{"a Service that may not be read", func(b *backend) { b.serviceErr = &reader.UnreadableError{What: "services", Forbidden: true} }, "not-readable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &backend{handshake: handshake{err: errUnreachable}}
			b.service = corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc"},
				Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}}
			b.slices = []discoveryv1.EndpointSlice{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{discoveryv1.LabelServiceName: "svc"}},
				Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(9443))}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}}}}}
			c.change(b)
			cluster := &Cluster{Source: source, backends: map[Target]*backend{TargetOf(w.Client): b}}
			expectOne(t, cluster.Problems(w), c.want)
		})
	}
}

// TestLeftSecret: beside a certificate that was seen, the Secret of usher counts if its Deployment uses it.
func TestLeftSecret(t *testing.T) {
	for pod, read := range map[string]bool{
		"": true, // there is no Deployment
		"containers: [{name: usher, args: [serve, --certs=managed]}]":                                                   true,
		"containers: [{name: usher, args: [serve, --certs, managed]}]":                                                  true,
		"containers: [{name: usher, args: [serve]}], volumes: [{name: certs, secret: {secretName: usher-tls}}]":         true,
		"containers: [{name: usher, args: [serve]}], volumes: [{name: certs, secret: {secretName: usher-tls-of-ours}}]": false,
	} {
		manifest := `{apiVersion: v1, kind: Secret, metadata: {name: usher-tls, namespace: usher}}`
		if pod != "" {
			manifest += "\n---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: usher, namespace: usher}, spec: {template: {spec: {" + pod + "}}}}"
		}
		source := filesWith(t, manifest)
		b := &backend{secret: types.NamespacedName{Namespace: "usher", Name: "usher-tls"}}
		b.service.Namespace, b.service.Name = "usher", "usher"
		if got := !b.unused(t.Context(), source); got != read {
			t.Errorf("%s: %t", pod, got)
		}
	}
}

// TestIssued: a Secret is made again only if what makes it is there.
func TestIssued(t *testing.T) {
	const certificate = `{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: c, namespace: ns}, spec: {secretName: tls}}`
	secret := func(annotations string) string {
		return `{apiVersion: v1, kind: Secret, metadata: {name: tls, namespace: ns, annotations: {` + annotations + `}}}`
	}
	bySecret, byCertificate := map[string]string{fromSecret: "ns/tls"}, map[string]string{fromCertificate: "ns/c"}
	for _, c := range []struct {
		name, objects string
		annotations   map[string]string
		openShift     string
		want          bool
	}{
		{"a Certificate", certificate, byCertificate, "", true},
		{"no Certificate any more", secret(""), byCertificate, "", false},
		{"a Secret made by hand", secret(""), bySecret, "", false},
		{"a Secret of a Certificate", secret("cert-manager.io/certificate-name: c") + "\n---\n" + certificate, bySecret, "", true},
		{"a Secret of a Certificate that is gone", secret("cert-manager.io/certificate-name: c"), bySecret, "", false},
		{"a Secret beside a Certificate of another", secret("cert-manager.io/certificate-name: c") + "\n---\n" + strings.Replace(certificate, "tls", "other", 1), bySecret, "", false},
		{"OpenShift", secret("service.beta.openshift.io/originating-service-name: svc"), nil, "tls", true},
		{"OpenShift, for another Service", secret("service.beta.openshift.io/originating-service-name: other"), nil, "tls", false},
		{"a Service for OpenShift, a Secret made by hand", secret(""), nil, "tls", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := filesWith(t, c.objects)
			b := &backend{}
			b.service.Namespace, b.service.Name, b.service.Annotations = "ns", "svc", map[string]string{ServingSecret: c.openShift}
			b.readSecret(t.Context(), source, Webhook{Annotations: c.annotations})
			if b.issued != c.want {
				t.Errorf("%v, %s, %v", b.issued, b.secret, b.storedErr)
			}
		})
	}
}

// TestSecretWithoutCertificate: files in which the Certificate of an annotation is missing have the serving certificate in a Secret for the Service.
func TestSecretWithoutCertificate(t *testing.T) {
	now := time.Now()
	ca := newAuthority(t, now.Add(-400*24*time.Hour), now.Add(400*24*time.Hour))
	for want, ends := range map[string]time.Duration{"certificate-expired": -time.Hour, "": 90 * 24 * time.Hour} {
		leaf := ca.issue(t, now.Add(-48*time.Hour), now.Add(ends), nil)
		secret := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls", "namespace": "ns"}, "data": {"tls.crt": %q}}`,
			base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw})))
		const service = `{apiVersion: v1, kind: Service, metadata: {name: svc, namespace: ns}, spec: {clusterIP: 10.0.0.1, ports: [{port: 443}]}}`
		source := filesWith(t, service+"\n---\n"+secret)
		w := hook(func(w *Webhook) {
			w.Client.CABundle, w.Annotations = ca.pem(), map[string]string{fromCertificate: "ns/c"}
		})
		c := &Cluster{Source: source}
		c.Read(t.Context(), []Webhook{w})
		expectOne(t, c.Problems(w), want)
	}
}

// TestBundleWithoutPods: what is wrong with a caBundle is found whatever is wrong with what is called.
func TestBundleWithoutPods(t *testing.T) {
	now := time.Now()
	key := string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("x")}))
	old := string(newAuthority(t, now.Add(-48*time.Hour), now.Add(-time.Hour)).pem())
	const other = `{apiVersion: v1, kind: Service, metadata: {name: other, namespace: ns}, spec: {ports: [{port: 443}]}}`
	const headless = `{apiVersion: v1, kind: Service, metadata: {name: svc, namespace: ns}, spec: {clusterIP: None, ports: [{port: 443}]}}`
	for _, c := range []struct{ objects, bundle, want string }{
		{other, key, "service-missing ca-bundle-private-key"},
		{other, "hello", "service-missing ca-bundle-invalid"},
		{other, old, "service-missing ca-expired"},
		{other, "", "service-missing"},
		{headless, key, "service-headless ca-bundle-private-key"},
		{noEndpoints, key, "no-endpoints ca-bundle-private-key"},
	} {
		source := filesWith(t, c.objects)
		w, cluster := hook(func(w *Webhook) { w.Client.CABundle = []byte(c.bundle) }), &Cluster{Source: source}
		cluster.Read(t.Context(), []Webhook{w})
		expectOne(t, cluster.Problems(w), c.want)
	}
}

const noEndpoints = `{apiVersion: v1, kind: Service, metadata: {name: svc, namespace: ns}, spec: {clusterIP: 10.0.0.1, selector: {a: b}, ports: [{port: 443}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: ns}, spec: {replicas: 0, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}
`

// filesWith returns a cluster of files that has some objects.
func filesWith(t *testing.T, objects string) reader.Source {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := reader.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	return source
}
