package webhooks

import (
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
)

// TestChanges: what is shown to the person who is asked.
func TestChanges(t *testing.T) {
	bundle, err := os.ReadFile("../../test/testdata/ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	of := func(names ...string) configuration {
		c := configuration{TypeMeta: metav1.TypeMeta{Kind: "ValidatingWebhookConfiguration"}, ObjectMeta: metav1.ObjectMeta{Name: "usher"}}
		for _, name := range names {
			c.Webhooks = append(c.Webhooks, Hook{Name: name, FailurePolicy: new(registration.Fail),
				Rules: []registration.RuleWithOperations{rule(admit.Pods(admissionv1.Create)[0])}})
		}
		return c
	}
	changed := of("a.usher.dev")
	changed.Annotations = map[string]string{"k": "v"}
	changed.Webhooks[0].FailurePolicy = new(registration.Ignore)
	changed.Webhooks[0].ClientConfig = registration.WebhookClientConfig{CABundle: bundle, URL: new("https://x/a")}
	for _, c := range []struct {
		name          string
		before, after configuration
		stale         []string
		want          []string
	}{
		{"the same", of("a.usher.dev"), of("a.usher.dev"), nil, nil},
		{"new", configuration{}, of("a.usher.dev"), nil, []string{"+ a.usher.dev: is called for CREATE of pods (v1, Namespaced); failurePolicy Fail"}},
		{"gone", of("a.usher.dev", "b.usher.dev"), of("a.usher.dev"), nil, []string{"- b.usher.dev: is no longer needed"}},
		{"to go", of("a.usher.dev", "b.usher.dev"), of("a.usher.dev", "b.usher.dev"), []string{"b.usher.dev"}, []string{"- b.usher.dev: is no longer needed"}},
		{"changed", of("a.usher.dev"), changed, nil, []string{"~ ValidatingWebhookConfiguration usher: annotation k: none -> v",
			`~ a.usher.dev: failurePolicy: "Fail" -> "Ignore"`, "~ a.usher.dev: clientConfig:  -> https://x/a",
			"~ a.usher.dev: caBundle: none -> "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := changes(c.before, c.after, c.stale)
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestInject(t *testing.T) {
	for _, c := range []struct{ by, annotation, problem string }{
		{"", "", ""},
		{"openshift", "service.beta.openshift.io/inject-cabundle=true", ""},
		{"cert-manager", "cert-manager.io/inject-ca-from=door/usher-tls", ""},
		{"cert-manager=a/b", "cert-manager.io/inject-ca-from=a/b", ""},
		{"cert-manager=", "", "must be namespace/certificate"},
		{"cert-manager=a", "", "must be namespace/certificate"},
		{"openshift=a/b", "", "--inject"},
		{"=a/b", "", "--inject"},
		{"somebody", "", `--inject "somebody": must be cert-manager`},
	} {
		annotations, err := Inject(c.by, "door")
		key, value, _ := strings.Cut(c.annotation, "=")
		if (err != nil) != (c.problem != "") || err != nil && !strings.Contains(err.Error(), c.problem) || annotations[key] != value {
			t.Errorf("--inject=%s: %v, %v", c.by, annotations, err)
		}
	}
}

// TestStatic: what the API server does not take from files is refused.
func TestStatic(t *testing.T) {
	rows := admit.OfSuite("core", admit.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 5},
		[]admit.Route{{Path: "/validate-a", For: admit.Pods(admissionv1.Create), Chain: admit.Chain{}}})
	at := Address{Namespace: "usher", Service: "usher", URL: "https://127.0.0.1:9443"}
	files, err := Static(rows, at, "/etc/usher")
	if err != nil || len(files) != 2 || files[0].Name != "admission.yaml" || files[1].Name != "validating/usher.yaml" {
		t.Fatalf("%+v %v", files, err)
	}
	if c := files[1].Object.(configuration); c.Name != "usher.static.k8s.io" || c.Webhooks[0].ClientConfig.Service != nil {
		t.Errorf("%+v", c)
	}
	service, injected := at, at
	service.URL, injected.Annotations = "", map[string]string{"a": "b"}
	for want, c := range map[string]struct {
		at  Address
		dir string
	}{"pass --url": {service, "/etc"}, "instead of --inject": {injected, "/etc"}, "absolute path": {at, "etc"}} {
		if _, err := Static(rows, c.at, c.dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestFailOpen(t *testing.T) {
	for _, c := range []struct {
		paths   []string
		want    string
		problem string
	}{
		{nil, "Fail Fail", ""}, {[]string{"/validate-b"}, "Fail Ignore", ""}, {[]string{"all"}, "Ignore Ignore", ""},
		{[]string{"/validate-c"}, "", "--fail-open /validate-c: --suite and --feature-gates register no such path"},
	} {
		routes := []admit.Route{{Path: "/validate-a", Call: admit.Call{FailurePolicy: registration.Fail}},
			{Path: "/validate-b", Call: admit.Call{FailurePolicy: registration.Fail}}}
		err := FailOpen(routes, c.paths)
		got := string(routes[0].FailurePolicy + " " + routes[1].FailurePolicy)
		if err == nil && got != c.want || err != nil && err.Error() != c.problem {
			t.Errorf("%v: %s, %v", c.paths, got, err)
		}
	}
}
