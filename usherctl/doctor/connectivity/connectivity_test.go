package connectivity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// hook returns a webhook that calls a Service, as a table test changes it.
func hook(change func(*Webhook)) Webhook {
	w := Webhook{Consequence: "Requests are refused."}
	w.Client.Service = &registration.ServiceReference{Namespace: "ns", Name: "svc", Port: new(int32(443))}
	if change != nil {
		change(&w)
	}
	return w
}

// expectOne fails the test unless the problems have the ids, or there is none for "".
func expectOne(t *testing.T, found []*Problem, ids string, says ...string) {
	t.Helper()
	var has []string
	for _, p := range found {
		has = append(has, p.ID)
		if p.Text == "" || p.Severity == "" {
			t.Errorf("it is not whole: %+v", p)
		}
	}
	if strings.Join(has, " ") != ids {
		t.Fatalf("%q, want %q: %+v", has, ids, found)
	}
	for _, text := range says {
		if len(found) > 0 && !strings.Contains(found[0].Text, text) {
			t.Errorf("it does not say %q: %+v", text, found[0])
		}
	}
}

// some returns a problem as a list, which is empty for nil.
func some(p *Problem) []*Problem {
	if p == nil {
		return nil
	}
	return []*Problem{p}
}

func TestService(t *testing.T) {
	port := corev1.ServicePort{Name: "https", Port: 443, TargetPort: intstr.FromString("https")}
	service := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc"},
		Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{port}, Selector: map[string]string{"app": "a", "b": "c"}}}
	w := hook(nil)
	at := TargetOf(w.Client)
	for _, c := range []struct {
		name   string
		change func(*corev1.Service)
		want   string
		says   []string
		port   int32 // that was probably meant
	}{
		{"healthy", func(*corev1.Service) {}, "", nil, 0},
		{"no such port", func(s *corev1.Service) { s.Spec.Ports[0].Port = 8443 }, "service-port-missing", []string{"only port 8443"}, 8443},
		{"no port", func(s *corev1.Service) { s.Spec.Ports = nil }, "service-port-missing", []string{"no port"}, 0},
		{"headless", func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }, "service-headless", nil, 0},
		{"UDP", func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }, "service-port-missing", []string{"only port 443 for UDP"}, 0},
		{"UDP beside TCP", func(s *corev1.Service) {
			s.Spec.Ports = append([]corev1.ServicePort{{Name: "quic", Port: 443, Protocol: corev1.ProtocolUDP}}, s.Spec.Ports...)
		}, "", nil, 0},
		{"external", func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "x.example.com"
		}, "service-external-name", []string{"x.example.com"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := service.DeepCopy()
			c.change(s)
			p := serviceProblem(w, at, *s)
			expectOne(t, some(p), c.want, c.says...)
			if p != nil && p.Port != c.port {
				t.Errorf("port %d, want %d", p.Port, c.port)
			}
		})
	}
	for _, c := range []struct {
		name  string
		ready []bool
		other bool // the slice is of another Service
		want  string
		at    []string
	}{
		{"ready", []bool{false, true}, false, "", []string{"10.1.0.1:9443"}},
		{"none", nil, false, "no-endpoints", nil},
		{"another Service's", []bool{true}, true, "no-endpoints", nil},
		{"not ready", []bool{false, false}, false, "no-ready-endpoints", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			slice := discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{discoveryv1.LabelServiceName: "svc"}},
				Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(9443))}}}
			if c.other {
				slice.Labels[discoveryv1.LabelServiceName] = "other"
			}
			for i := range c.ready {
				slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.1.0." + string(rune('0'+i))}, Conditions: discoveryv1.EndpointConditions{Ready: &c.ready[i]}})
			}
			p, at := endpointsProblem(w, service, port, []discoveryv1.EndpointSlice{slice})
			expectOne(t, some(p), c.want)
			if !slices.Equal(at, c.at) {
				t.Errorf("%v, want %v", at, c.at)
			}
		})
	}
}

// authority is a CA, and what it has issued.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, begins, ends time.Time) authority {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(begins.Unix()), Subject: pkix.Name{CommonName: "CA"}, NotBefore: begins, NotAfter: ends, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	return authority{made(t, template, template, key, key), key}
}

func made(t *testing.T, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (a authority) issue(t *testing.T, begins, ends time.Time, change func(*x509.Certificate)) *x509.Certificate {
	return a.issueCA(t, begins, ends, change).certificate
}

// issueCA returns what is issued, with its key.
func (a authority) issueCA(t *testing.T, begins, ends time.Time, change func(*x509.Certificate)) authority {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "svc.ns.svc"}, NotBefore: begins, NotAfter: ends,
		DNSNames: []string{"svc.ns.svc"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if change != nil {
		change(template)
	}
	return authority{made(t, template, a.certificate, key, a.key), key}
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

func TestCertificates(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	in := func(days int) time.Time { return now.Add(time.Duration(days) * 24 * time.Hour) }
	good, other, old, ending := newAuthority(t, in(-400), in(400)), newAuthority(t, in(-300), in(400)), newAuthority(t, in(-400), in(-1)), newAuthority(t, in(-400), in(5))
	issued := func(a authority, begins, ends int, change func(*x509.Certificate)) []*x509.Certificate {
		return []*x509.Certificate{a.issue(t, in(begins), in(ends), change)}
	}
	withSubject := func(name string, ca bool) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.Subject.CommonName, c.IsCA, c.BasicConstraintsValid, c.KeyUsage = name, ca, true, x509.KeyUsageCertSign
		}
	}
	between := good.issueCA(t, in(-10), in(80), withSubject("Between", true))
	noCA := good.issueCA(t, in(-10), in(80), withSubject("No CA", false))
	at := TargetOf(hook(nil).Client)
	for _, c := range []struct {
		name  string
		chain []*x509.Certificate
		roots []authority
		want  string
		says  []string
	}{
		{"good", issued(good, -10, 80, nil), []authority{good}, "", nil},
		{"rotated", issued(good, -10, 80, nil), []authority{other, good}, "", nil},
		{"made for a day", []*x509.Certificate{good.issue(t, now.Add(-time.Hour), now.Add(23*time.Hour), nil)}, []authority{good}, "", nil},
		{"no bundle", issued(good, -10, 80, nil), nil, "", nil},
		{"another CA", issued(good, -10, 80, nil), []authority{other}, "ca-bundle-mismatch", []string{`"CN=CA"`, "or of an older one"}},
		{"no intermediate", issued(between, -10, 80, nil), []authority{good}, "ca-bundle-mismatch", []string{`issued by "CN=Between"`, "must send that certificate"}},
		{"the intermediate is sent", append(issued(between, -10, 80, nil), between.certificate), []authority{good}, "", nil},
		{"no CA", issued(noCA, -10, 80, nil), []authority{noCA}, "ca-bundle-mismatch", []string{`"CN=No CA" has signed it, and is no CA`}},
		{"expired", issued(good, -90, -1, nil), []authority{good}, "certificate-expired", []string{"21 Nov 2026", "22 Nov 2026"}},
		{"expired, and of another CA", issued(good, -90, -1, nil), []authority{other}, "certificate-expired" + " " + "ca-bundle-mismatch", nil},
		{"early", issued(good, 1, 90, nil), []authority{good}, "certificate-not-yet-valid", nil},
		{"soon", issued(good, -80, 10, nil), []authority{good}, "certificate-expires-soon", []string{"in 10 days"}},
		{"expired CA", issued(old, -10, 80, nil), []authority{old}, "ca-expired", nil},
		{"CA that ends", issued(ending, -10, 80, nil), []authority{ending}, "ca-expires-soon", nil},
		{"stale CA", issued(good, -10, 80, nil), []authority{good, old}, "ca-bundle-stale", nil},
		{"no name", issued(good, -10, 80, func(c *x509.Certificate) { c.DNSNames = nil }), []authority{good}, "certificate-common-name-only", []string{"svc.ns.svc"}},
		{"other name", issued(good, -10, 80, func(c *x509.Certificate) { c.DNSNames = []string{"a", "b"} }), []authority{good}, "certificate-name", []string{"a and b", "not for svc.ns.svc"}},
		{"for clients", issued(good, -10, 80, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), []authority{good}, "certificate-usage", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var text []byte
			for _, a := range c.roots {
				text = append(text, a.pem()...)
			}
			found := certificateProblems(Subject{Target: at}, readBundle(text), serving{c.chain, "a test"}, now)
			expectOne(t, found, c.want, c.says...)
		})
	}
}

// TestNoBundle: a certificate behind a URL, without a caBundle, is verified by the CAs of this machine.
func TestNoBundle(t *testing.T) {
	now := time.Now()
	private := newAuthority(t, now.Add(-time.Hour), now.Add(time.Hour))
	local := func(c *x509.Certificate) { c.DNSNames = []string{"svc.ns.svc", "webhook.example.com"} }
	s := serving{[]*x509.Certificate{private.issue(t, now.Add(-time.Hour), now.Add(time.Hour), local)}, "seen"}
	url := Subject{Target: Target{URL: "https://webhook.example.com/a"}}
	expectOne(t, certificateProblems(url, readBundle(nil), s, now), "ca-bundle-missing", `issued by "CN=CA"`)
	expectOne(t, certificateProblems(url, readBundle(private.pem()), s, now), "")
	expectOne(t, certificateProblems(Subject{Target: TargetOf(hook(nil).Client)}, readBundle(nil), s, now), "") // which is found by itself
}

func TestBundle(t *testing.T) {
	now := time.Now()
	good := newAuthority(t, now.Add(-time.Hour), now.Add(time.Hour)).pem()
	key := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("x")})
	block, _ := pem.Decode(good)
	for _, c := range []struct {
		name string
		text string
		want string
		says string
	}{
		{"good", string(good), "", ""},
		{"two", string(good) + string(good), "", ""},
		{"empty", "", "ca-bundle-missing", "is empty"},
		{"text", "hello", "ca-bundle-invalid", "no PEM"},
		{"twice", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==", "ca-bundle-invalid", "twice"},
		{"folded", strings.ReplaceAll(string(good), "\n", " "), "ca-bundle-invalid", "folded"},
		{"a byte order mark", "\ufeff" + string(good), "ca-bundle-invalid", "byte order mark"},
		{"DER", string(block.Bytes), "ca-bundle-invalid", "DER"},
		{"damaged", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "ca-bundle-invalid", "cannot be parsed"},
		{"more", string(good) + "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "ca-bundle-invalid", "PUBLIC KEY"},
		{"key", string(good) + string(key), "ca-bundle-private-key", "private key"},
		{"only a key", string(key), "ca-bundle-private-key", "private key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := hook(func(w *Webhook) { w.Client.CABundle = []byte(c.text) })
			expectOne(t, bundleProblems(w, Subject{Target: TargetOf(w.Client)}, readBundle([]byte(c.text))), c.want, c.says)
		})
	}
}

// FuzzBundle: anyone who may register webhooks can write a caBundle.
func FuzzBundle(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="))
	f.Fuzz(func(t *testing.T, raw []byte) {
		w := hook(func(w *Webhook) { w.Client.CABundle = raw })
		b := readBundle(raw)
		if found := bundleProblems(w, Subject{Target: TargetOf(w.Client)}, b); len(b.certificates) == 0 && len(found) == 0 {
			t.Error("a caBundle without a certificate is fine")
		}
	})
}

func TestURLs(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"https://example.com/a", ""}, {"https://127.0.0.1:9443/a", ""}, {"http://example.com/", "url-invalid"}, {"https:///a", "url-invalid"},
		{"https://a@example.com", "url-invalid"}, {"https://example.com/?a=b", "url-invalid"}, {"example.com", "url-invalid"}, {"https://a b/", "url-invalid"},
	} {
		_, found := addressOf(c.url)
		expectOne(t, some(found), c.want)
	}
}
