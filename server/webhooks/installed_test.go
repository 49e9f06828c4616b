package webhooks

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/apiserver"
)

// installedRoutes are two routes about pods, and one about the status of nodes.
func installedRoutes() []admit.Route {
	routes := admit.OfSuite("core", admit.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 5, OptIn: admit.Label{Key: "in", Value: "yes"}},
		[]admit.Route{{Path: "/validate-a", For: admit.Pods(admissionv1.Create)}, {Path: "/validate-b", For: admit.Pods(admissionv1.Create)},
			{Path: "/validate-n", For: admit.NodeStatus()}})
	routes[2].FailurePolicy = registration.Ignore
	return routes
}

// TestAsInstalled: what is restored is what somebody has broken, and nothing that was chosen at the registration.
func TestAsInstalled(t *testing.T) {
	at := Address{Namespace: "usher", Service: "usher", Excluded: []string{"rook-ceph"}, ExcludedPods: []string{"net/cni", "disk/csi"}, SkipKubelets: true, Annotations: map[string]string{injectOpenShift: "true"}}
	all := []string{"validate-a.usher.dev", "validate-b.usher.dev", "validate-n.usher.dev"}
	byURL := func(c *configuration) {
		for i, w := range c.Webhooks {
			c.Webhooks[i].ClientConfig = registration.WebhookClientConfig{URL: new("https://door/base" + *w.ClientConfig.Service.Path), CABundle: []byte("x")}
		}
	}
	for _, c := range []struct {
		name   string
		change func(c *configuration)
		want   []string // how the lines of the plan begin
	}{
		{"as registered", func(*configuration) {}, nil},
		{"timeout", func(c *configuration) { c.Webhooks[0].TimeoutSeconds = new(int32(9)) }, nil},
		{"looser", func(c *configuration) { c.Webhooks[0].FailurePolicy = new(registration.Ignore) }, nil},
		{"stricter heartbeats", func(c *configuration) { c.Webhooks[2].FailurePolicy = new(registration.Fail) }, []string{"~ validate-n.usher.dev: failurePolicy:"}},
		{"a port", func(c *configuration) { c.Webhooks[0].ClientConfig.Service.Port = new(int32(8443)) }, nil},
		{"a URL", byURL, nil},
		{"a missing one beside URLs", func(c *configuration) { byURL(c); c.Webhooks = c.Webhooks[1:] }, []string{"+ validate-a.usher.dev"}},
		{"more is left out", func(c *configuration) {
			s := c.Webhooks[0].NamespaceSelector
			s.MatchExpressions = append(s.MatchExpressions, notIn("control-plane", "true"))
			s.MatchExpressions[0].Values = append(s.MatchExpressions[0].Values, "other")
		}, nil},
		{"a condition of others", func(c *configuration) {
			c.Webhooks[0].MatchConditions = append(c.Webhooks[0].MatchConditions, registration.MatchCondition{Name: "theirs", Expression: "false"})
		}, nil},
		{"a path", func(c *configuration) { c.Webhooks[0].ClientConfig.Service.Path = new("/validate-b") }, []string{"~ validate-a.usher.dev: clientConfig:"}},
		{"rules", func(c *configuration) { c.Webhooks[1].Rules[0].Operations = []registration.OperationType{"UPDATE"} }, []string{"~ validate-b.usher.dev: rules:"}},
		{"no selector", func(c *configuration) { c.Webhooks[0].NamespaceSelector = nil },
			[]string{"~ validate-a.usher.dev: namespaceSelector: <none> -> in=yes,kubernetes.io/metadata.name notin (kube-system,rook-ceph,usher)"}},
		{"a label of the selector is misspelt", func(c *configuration) { c.Webhooks[0].NamespaceSelector.MatchLabels = map[string]string{"iin": "yes"} },
			[]string{"~ validate-a.usher.dev: namespaceSelector: iin=yes,kubernetes.io/metadata.name notin (kube-system,rook-ceph,usher),usher.dev/exempt notin (true) -> in=yes,"}},
		{"another URL than the others", func(c *configuration) {
			byURL(c)
			c.Webhooks[1].ClientConfig = registration.WebhookClientConfig{URL: new("https://other/validate-b"), CABundle: []byte("other")}
		}, []string{"~ validate-b.usher.dev: clientConfig: https://other/validate-b -> https://door/base/validate-b"}},
		{"a URL beside Services", func(c *configuration) {
			c.Webhooks[0].ClientConfig = registration.WebhookClientConfig{URL: new("https://other/validate-a"), CABundle: []byte("x")}
		}, []string{"~ validate-a.usher.dev: clientConfig: https://other/validate-a -> Service usher/usher port 443 /validate-a"}},
		{"another Service beside URLs", func(c *configuration) {
			byURL(c)
			c.Webhooks[0].ClientConfig = registration.WebhookClientConfig{Service: &registration.ServiceReference{Namespace: "other", Name: "usher", Path: new("/validate-a")}, CABundle: []byte("x")}
		}, []string{"~ validate-a.usher.dev: clientConfig: Service other/usher port 0 /validate-a -> https://door/base/validate-a"}},
		{"an old condition", func(c *configuration) {
			c.Webhooks[0].MatchConditions = append(c.Webhooks[0].MatchConditions, registration.MatchCondition{Name: "changed", Expression: "false"})
		}, []string{"~ validate-a.usher.dev: matchConditions:"}},
		{"Exact", func(c *configuration) { c.Webhooks[0].MatchPolicy = new(registration.Exact) }, []string{"~ validate-a.usher.dev: matchPolicy:"}},
		{"missing", func(c *configuration) { c.Webhooks = c.Webhooks[1:] }, []string{"+ validate-a.usher.dev: is called for CREATE of pods (v1, Namespaced); failurePolicy Fail"}},
		{"one too many", func(c *configuration) {
			more := c.Webhooks[0]
			more.Name = "validate-old.usher.dev"
			c.Webhooks = append(c.Webhooks, more)
		}, []string{"- validate-old.usher.dev"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := needed(installedRoutes(), at)[1]
			for i := range is.Webhooks {
				is.Webhooks[i].ClientConfig.CABundle = []byte("x")
			}
			c.change(&is)
			r, err := Registrar{Client: registered(t, is), At: Address{Namespace: "usher", Service: "usher"}}.AsInstalled(t.Context(), func(names []string) []admit.Route {
				if len(names) < 2 || !slices.Contains(names, all[1]) {
					t.Errorf("registered: %v", names)
				}
				return installedRoutes()
			})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := r.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(plan.Changes) != len(c.want) {
				t.Fatalf("got %q, want %q", plan.Changes, c.want)
			}
			for i, line := range plan.Changes {
				if !strings.HasPrefix(line, c.want[i]) {
					t.Errorf("got %s, want %s", line, c.want[i])
				}
			}
		})
	}
}

// TestAsInstalledElsewhere: what calls another Service, or nothing, is no installation to restore, nor what calls two servers alike.
func TestAsInstalledElsewhere(t *testing.T) {
	of := func([]string) []admit.Route { return installedRoutes() }
	undecided := needed(installedRoutes()[:2], Address{URL: "https://door"})[1]
	undecided.Webhooks[1].ClientConfig.URL = new("https://other/validate-b")
	for want, is := range map[string]configuration{
		"validate-a.usher.dev calls https://door, and validate-b.usher.dev calls https://other: nothing shows": undecided,
		"pass --service door/usher": needed(installedRoutes(), Address{Namespace: "door", Service: "usher"})[1],
		"usher is not registered":   {TypeMeta: configurationType("Validating"), ObjectMeta: metav1.ObjectMeta{Name: "usher"}},
	} {
		_, err := Registrar{Client: registered(t, is), At: Address{Namespace: "usher", Service: "usher"}}.AsInstalled(t.Context(), of)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// registered returns a client of an API server that has one configuration, and returns what is applied.
func registered(t *testing.T, is configuration) apiserver.Client {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodPatch:
			applied, _ := io.ReadAll(r.Body)
			_, _ = w.Write(applied)
		case r.Method == http.MethodPut:
			t.Error("it is updated in a plan")
		case r.URL.Path == is.path():
			_ = json.NewEncoder(w).Encode(is)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
		}
	}))
	t.Cleanup(server.Close)
	client, err := apiserver.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestNamesOf: an entry that calls the path of another one may have the name of another suite by mistake, and says nothing.
func TestNamesOf(t *testing.T) {
	entry := func(name, path string) Hook {
		return Hook{Name: name + ".usher.dev", ClientConfig: registration.WebhookClientConfig{Service: &registration.ServiceReference{Path: &path}}}
	}
	url := Hook{Name: "mutate-pods.usher.dev", ClientConfig: registration.WebhookClientConfig{URL: new("https://door/base/mutate-pods/")}}
	mistaken := entry("validate-pod", "/validate-pods")
	for _, c := range []struct {
		entries []Hook
		want    string
	}{
		{[]Hook{entry("cluster.validate-rules", "/validate-rules"), url, mistaken}, "cluster.validate-rules.usher.dev mutate-pods.usher.dev"},
		{[]Hook{mistaken}, "validate-pod.usher.dev"},
		{nil, ""},
	} {
		if got := strings.Join(NamesOf(c.entries), " "); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// TestBaseOf: a URL without the path of a route is one that a path can be added to.
func TestBaseOf(t *testing.T) {
	for url, want := range map[string]string{
		"https://door:9443/validate-pods": "https://door:9443", "https://door/base/validate-pods": "https://door/base",
		"https://door/validate-pods/": "https://door", "https://door:9443": "https://door:9443", "https://door/": "https://door",
	} {
		if got := baseOf(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

// TestAwaitByURL: a server that is called by a URL is verified by the caBundle that is registered, if no flag has another one.
func TestAwaitByURL(t *testing.T) {
	usher := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(usher.Close)
	is := needed(installedRoutes(), Address{URL: usher.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: usher.Certificate().Raw})})[1]
	r := Registrar{Client: registered(t, is), At: Address{Namespace: "usher", Service: "usher", URL: usher.URL}}
	if missing, err := r.urlReady(t.Context()); missing != "" || err != nil {
		t.Error(missing, err)
	}
	r.Client = registered(t, needed(installedRoutes(), Address{URL: usher.URL})[1])
	if missing, err := r.urlReady(t.Context()); missing == "" || err != nil {
		t.Error("a certificate that nothing verifies is taken", err)
	}
}
