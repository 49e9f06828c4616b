package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/server/installed"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/doctor/connectivity"
)

// TestChecks: each check is described, has a fix, and belongs to a finding.
func TestChecks(t *testing.T) {
	var source strings.Builder
	files, _ := filepath.Glob("*.go")
	more, _ := filepath.Glob("connectivity/*.go")
	rules, _ := filepath.Glob("../../internal/resources/*.go")
	for _, file := range slices.Concat(files, more, rules) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if file != "checks.go" && !strings.HasSuffix(file, "_test.go") {
			source.Write(raw)
		}
	}
	for i, c := range Checks() {
		if c.Doc == "" || strings.HasSuffix(c.Doc, ".") || c.command == nil || rank(c.ID) != i {
			t.Errorf("%s is not whole, or there twice", c.ID)
		}
		if !strings.Contains(source.String(), `"`+c.ID+`"`) {
			t.Errorf("%s: no code finds it", c.ID)
		}
	}
	for _, m := range regexp.MustCompile(`problem\("([^"]+)"`).FindAllStringSubmatch(source.String(), -1) {
		if rank(m[1]) < 0 {
			t.Errorf("%s is in no row", m[1])
		}
	}
}

// TestCertificateFixes: who fills in the caBundle decides what replaces it, and the certificate of the server.
func TestCertificateFixes(t *testing.T) {
	w := hook(nil)
	managed, ushers := hook(func(w *entry) {
		w.configuration.Annotations = map[string]string{"cert-manager.io/inject-ca-from": "ns/c"}
	}), hook(func(w *entry) {
		w.configuration.Name, w.Name, w.home = "usher", "mutate-pods.usher.dev", Usher{At: webhooks.Address{Namespace: "door", Service: "usher"}, Apply: "usher webhooks apply --as-installed", Deployed: installed.Usher{Arguments: []string{"--certs=managed"}}}
	})
	byURL := ushers
	byURL.ClientConfig = at("https://usher.example/mutate-pods")
	foreign := hook(func(w *entry) { w.ClientConfig = at("https://policies.example/x") })
	service := corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "svc"}}
	openShift := corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{connectivity.ServingSecret: "tls"}}}
	secret := connectivity.Subject{Secret: types.NamespacedName{Namespace: "ns", Name: "tls"}}
	for _, c := range []struct {
		name         string
		w            entry
		about        connectivity.Subject
		bundle, leaf string
	}{
		{"unknown", w, connectivity.Subject{}, "kubectl -n ns get secrets", "kubectl -n ns get secrets"},
		{"a Secret, as another webhook says", w, secret, "kubectl -n ns get secrets", "kubectl -n ns get secrets"},
		{"OpenShift", w, connectivity.Subject{Secret: secret.Secret, Service: openShift, Issued: true, ServiceCA: true}, "kubectl annotate validatingwebhookconfiguration c service.beta.openshift.io/inject-cabundle=true", `kubectl -n ns get secret tls -o jsonpath='{.data.tls\.crt}'`},
		{"a Service for OpenShift, a Secret of another issuer", w, connectivity.Subject{Secret: secret.Secret, Service: openShift}, "kubectl -n ns get secrets", "kubectl -n ns get secrets"},
		{"cert-manager", managed, connectivity.Subject{Secret: secret.Secret, Issued: true}, "-l app.kubernetes.io/component=cainjector", `kubectl -n ns get secret tls -o jsonpath='{.data.tls\.crt}'`},
		{"a Secret that nothing makes again", managed, secret, "-l app.kubernetes.io/component=cainjector", "kubectl -n ns get secrets"},
		{"cert-manager, of nothing", managed, connectivity.Subject{Err: reader.ErrNotFound}, "kubectl get validatingwebhookconfiguration c -o yaml", "kubectl -n ns get secrets"},
		{"usher by a URL", byURL, connectivity.Subject{Service: service}, "kubectl get validatingwebhookconfiguration usher -o yaml", "usher certs rotate --service door/usher"},
		{"a URL", foreign, connectivity.Subject{}, "kubectl get validatingwebhookconfiguration c -o yaml", "kubectl get validatingwebhookconfiguration c -o yaml"},
		{"usher", ushers, connectivity.Subject{Service: service}, "usher webhooks apply --as-installed", "usher certs rotate --service ns/svc"},
	} {
		about := subject{entry: c.w, Subject: c.about}
		about.Target = connectivity.TargetOf(c.w.ClientConfig)
		if bundle, leaf := replaceBundle(about).text, replaceCertificate(about).text; !strings.Contains(bundle, c.bundle) || !strings.Contains(leaf, c.leaf) {
			t.Errorf("%s: %s; %s", c.name, bundle, leaf)
		}
		if early := replaceEarly(about); early != replaceCertificate(about) {
			t.Errorf("%s: %s", c.name, early.text)
		}
	}
}
