package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	registration "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/live"
	"usher.dev/usher/usherctl/report"
)

// ushers returns a webhook of usher.
func ushers(change func(*entry)) entry {
	return hook(func(w *entry) {
		w.configuration.Name, w.Name, w.ClientConfig.Service.Path = "usher", "validate-pods.usher.dev", new("/validate-pods")
		if change != nil {
			change(w)
		}
	})
}

// at returns a client configuration with a URL.
func at(url string) registration.WebhookClientConfig {
	return registration.WebhookClientConfig{URL: &url}
}

func TestUshersWebhooks(t *testing.T) {
	needed := ushers(nil).Hook
	u := Usher{At: webhooks.Address{Namespace: "usher", Service: "usher"}, Paths: []string{"/validate-pods", "/mutate-pods"},
		Needed: func([]string) []webhooks.Hook { return []webhooks.Hook{needed} }}
	for _, c := range []struct {
		name   string
		change func(*entry)
		want   string
		says   string
	}{
		{"as needed", nil, "", ""},
		{"a slash at the end, which the API server does not send", func(w *entry) { w.ClientConfig.Service.Path = new("/validate-pods/") }, "", ""},
		{"one at the end of a URL", func(w *entry) { w.ClientConfig = at("https://usher.example//validate-pods/") }, "", ""},
		{"another path", func(w *entry) { w.ClientConfig.Service.Path = new("/validate-pod") }, "usher-path-unknown", "Did you mean /validate-pods?"},
		{"a path of something else", func(w *entry) { w.ClientConfig.Service.Path = nil }, "usher-path-unknown", "usherctl steps"},
		{"the path of another webhook", func(w *entry) { w.ClientConfig.Service.Path = new("/mutate-pods") }, "usher-path-differs",
			"the registered path is /mutate-pods, and that of this webhook is /validate-pods"},
		{"that of another one in a URL", func(w *entry) { w.ClientConfig = at("https://usher.example/base/mutate-pods") }, "usher-path-differs", "/mutate-pods"},
		{"in a URL with a base", func(w *entry) { w.ClientConfig = at("https://usher.example/base/validate-pods") }, "", ""},
		{"for cluster-scoped objects", func(w *entry) { w.Name = "cluster.validate-pods.usher.dev" }, "usher-registration-differs", "for nothing"},
		{"for nothing", func(w *entry) { w.Name, w.ClientConfig.Service.Path = "mutate-pods.usher.dev", new("/mutate-pods") }, "usher-registration-differs", "for nothing"},
		{"other rules", func(w *entry) { w.Rules[0].Resources = []string{"pods"} }, "usher-registration-differs", "registered CREATE of pods"},
		{"fewer objects", func(w *entry) { w.ObjectSelector = labelled("team", "x") }, "usher-leaves-out", "objectSelector team in (x)"},
		{"fewer namespaces", func(w *entry) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "NotIn", Values: []string{"b"}}}}
		}, "usher-leaves-out", "namespaceSelector a notin (b)"},
		{"a condition", func(w *entry) {
			w.MatchConditions = []registration.MatchCondition{{Name: "off", Expression: "false"}}
		}, "usher-leaves-out", "matchConditions off: false"},
		{"looser", func(w *entry) { w.FailurePolicy = new(registration.Ignore) }, "", ""}, // as --fail-open does,
		{"longer", func(w *entry) { w.TimeoutSeconds = new(int32(9)) }, "", ""},
		{"of somebody else", func(w *entry) { w.Name = "a.example.com" }, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var says []string
			if c.says != "" {
				says = []string{c.says}
			}
			w := ushers(c.change)
			w.needed = neededFor(w, []webhooks.Hook{needed})
			expectOne(t, u.webhookProblems(w, nil), c.want, says...)
		})
	}
	conditions := func(all ...string) func(w *entry) {
		return func(w *entry) {
			for i, e := range all {
				w.MatchConditions = append(w.MatchConditions, registration.MatchCondition{Name: fmt.Sprint(i), Expression: e})
			}
		}
	}
	var namespaces []corev1.Namespace
	for _, name := range []string{"a", "b", "c", "d"} {
		namespaces = append(namespaces, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name, "team": name, "a": "b"}}})
	}
	pods := needed
	pods.Rules = rulesFor("", "v1", "pods", registration.Create, registration.NamespacedScope)
	for _, c := range []struct {
		name     string
		change   func(*entry)
		severity report.Severity
	}{
		{"labels that authors write", func(w *entry) { w.ObjectSelector = labelled("usher", "on") }, report.Warning},
		{"a condition on the object", conditions("request.dryRun == false", "object.metadata.labels['a'] == 'b'"), report.Warning},
		{"a condition on the name", conditions("!request.name.startsWith('p')"), report.Warning},
		{"a condition that leaves out administrators", conditions("request.dryRun == false", "!('system:masters' in request.userInfo.groups)"), report.Warning},
		{"a condition that leaves out controllers", conditions("!request.userInfo.username.startsWith('system:')"), report.Warning},
		{"a condition on rights", conditions("!authorizer.group('').resource('pods').check('delete').allowed()"), report.Warning},
		{"a condition on the user", conditions("request.userInfo.username != 'x'"), report.Info},
		{"a condition on the namespace", conditions("object.metadata.namespace != 'x'"), report.Info},
		{"one namespace of four", func(w *entry) { w.NamespaceSelector = labelled("team", "a") }, report.Warning},
		{"all four", func(w *entry) { w.NamespaceSelector = labelled("a", "b") }, report.Info},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ushers(func(w *entry) { w.Rules = pods.Rules; c.change(w) })
			w.needed = &pods
			found := u.webhookProblems(w, namespaces)
			if len(found) == 0 || found[0].ID != "usher-leaves-out" {
				t.Fatalf("%+v", found)
			}
			if f := found[0]; f.Severity != c.severity || f.Look != "kubectl edit validatingwebhookconfiguration usher" {
				t.Errorf("%+v", f)
			}
		})
	}
	expectOne(t, u.problems(t.Context(), &snapshot{webhooks: []entry{ushers(nil)}}, []webhooks.Hook{needed}, nil), "")
	other := ushers(func(w *entry) { w.Name = "mutate-pods.usher.dev" })
	expectOne(t, u.problems(t.Context(), &snapshot{webhooks: []entry{other}}, []webhooks.Hook{needed}, nil), "usher-not-registered", "validate-pods.usher.dev", "--service usher/usher")
	expectOne(t, u.problems(t.Context(), &snapshot{webhooks: []entry{hook(nil)}}, []webhooks.Hook{needed}, nil), "") // there is no usher
	u.Needed = func(names []string) []webhooks.Hook {
		if len(names) != 1 || names[0] != "mutate-pods.usher.dev" {
			t.Errorf("the suites are those of %v", names)
		}
		return nil
	}
	misnamed := ushers(func(w *entry) { w.Name = "validate-pod.usher.dev" })
	_ = u.neededBy([]entry{misnamed, ushers(func(w *entry) { w.Name, w.ClientConfig.Service.Path = "mutate-pods.usher.dev", new("/mutate-pods") })})
	u.Unknown = errors.New("forbidden")
	expectOne(t, u.problems(t.Context(), &snapshot{webhooks: []entry{other}}, []webhooks.Hook{needed}, nil), "not-readable")
}

// live returns a source that asks a server of the test.
func liveSource(t *testing.T, answer http.HandlerFunc) reader.Source {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	client, err := apiserver.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return reader.API(client)
}

func TestRightsOfUsher(t *testing.T) {
	source := liveSource(t, func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || r.Method != http.MethodPost {
			t.Errorf("%s %v", r.Method, err)
		}
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = a.Resource == "pods" && review.Spec.User == "system:serviceaccount:door:usher" && review.Spec.Groups[2] == "system:serviceaccounts:door"
		if a.Resource == "secrets" && a.Namespace != "door" {
			t.Errorf("secrets of namespace %q", a.Namespace)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
	u := Usher{At: webhooks.Address{Namespace: "door", Service: "usher", User: "system:serviceaccount:door:usher"}}
	u.Watching = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}}}
	expectOne(t, u.rightsProblems(t.Context(), source), "")
	u.Watching = append(u.Watching, rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments/scale"}, Verbs: []string{"get", "update"}})
	u.Writing = append(u.Writing, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"usher-tls"}, Verbs: []string{"get"}})
	found := u.rightsProblems(t.Context(), source)
	expectOne(t, found, "usher-rights-missing", "may not: get, update deployments.apps/scale; get secrets usher-tls", "usher webhooks --rbac | kubectl auth reconcile -f - && kubectl create clusterrolebinding usher --clusterrole=usher --serviceaccount=door:usher",
		"--certs=managed --service door/usher")
	expectOne(t, u.rightsProblems(t.Context(), reader.Source{}), "")

	broken := liveSource(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	if found := u.rightsProblems(t.Context(), broken); len(found) != 1 || found[0].ID != "not-readable" || found[0].Severity != report.Unknown {
		t.Errorf("%+v", found)
	}
}

// TestStepsOfTheRunningUsher: steps that differ are found, and what could not be read of them is unknown. Nobody is asked if it is not known
// which there should be.
func TestStepsOfTheRunningUsher(t *testing.T) {
	source := liveSource(t, nil)
	u := Usher{At: webhooks.Address{Namespace: "door", Service: "usher"}}
	var running live.Running
	var failed error
	u.Running = func(context.Context) (live.Running, error) { return running, failed }
	expectOne(t, u.stepProblems(t.Context(), source), "")
	running = live.Running{Versions: []string{"1.2.3"}, Differ: []string{"usher-0 lacks a of /b"}}
	expectOne(t, u.stepProblems(t.Context(), source), "usher-steps-differ", "version 1.2.3", "usher-0 lacks a of /b", "kubectl -n door get deployment usher")
	expectOne(t, u.stepProblems(t.Context(), reader.Source{}), "")
	failed = errors.New("forbidden")
	expectOne(t, u.stepProblems(t.Context(), source), "not-readable")
	u.Unknown = failed
	expectOne(t, u.stepProblems(t.Context(), source), "")
}

// TestNothingReadable: a cluster that cannot be read is unknown, not fine.
func TestNothingReadable(t *testing.T) {
	source := liveSource(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	reports := Examine(t.Context(), source, nil, Usher{})
	if report.ExitOf(reports) != report.Unjudged || len(reports) != 1 || len(reports[0].Findings) < 3 {
		t.Errorf("%+v", reports)
	}
	text, err := json.Marshal(reports[0])
	for _, what := range []string{"what the servers answer", "how fast", "admission policies", "conversion webhooks", "NetworkPolicies", "plug-ins that are switched off", "files of the API server", "--canary"} {
		if err != nil || !strings.Contains(reports[0].Hint, what) || !strings.Contains(string(text), what) {
			t.Errorf("it does not say that it has not looked at %s: %s", what, text)
		}
	}
	for _, f := range reports[0].Findings {
		if f.ID != "not-readable" || f.Severity != report.Unknown || f.Look == "" {
			t.Errorf("%+v", f)
		}
	}
}

// TestFilesOfSomethingElse: what files leave out is no fault.
func TestFilesOfSomethingElse(t *testing.T) {
	dir := t.TempDir()
	const manifest = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: usher, annotations: {cert-manager.io/inject-ca-from: usher/usher-tls}}
webhooks:
- {name: mutate-pods.usher.dev, clientConfig: {service: {namespace: usher, name: usher, path: /mutate-pods}}, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 5,
   rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}], namespaceSelector: {matchLabels: {a: b}}}
`
	if err := os.WriteFile(dir+"/a.yaml", []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := reader.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	reports := Examine(t.Context(), source, nil, Usher{})
	if got := Summary(reports); got != "1 webhook in 1 configuration: nothing found" {
		t.Errorf("%s: %+v", got, reports)
	}
	if hint := reports[len(reports)-1].Hint + reports[0].Hint; !strings.Contains(hint, "--cluster=api") {
		t.Errorf("no line says what files do not show: %q", hint)
	}
}

// TestOneFindingOfAnAwayServer: what cannot be read since the API server does not answer is one finding.
func TestOneFindingOfAnAwayServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	client, err := apiserver.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var found []report.Finding
	for _, r := range Examine(t.Context(), reader.API(client), nil, Usher{Unknown: errors.New("the cluster could not be read")}) {
		found = append(found, r.Findings...)
	}
	if len(found) != 1 || !strings.Contains(found[0].Message, "refused") || !strings.Contains(found[0].Message, "the webhooks in them") ||
		!strings.Contains(found[0].Message, "namespaceSelectors") || strings.Contains(found[0].Message, "/apis/") {
		t.Errorf("%d findings: %+v", len(found), found)
	}
}
