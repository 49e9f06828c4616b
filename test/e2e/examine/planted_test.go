package examine

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// planted is a fault, and the finding that it must lead to.
type planted struct {
	name  string
	want  string      // the id of the first finding
	serve certificate // of the server that the webhook calls
	kind  string      // of the configuration; default Validating
	// change changes the webhook, which has no fault.
	change func(w kubetest.Object, s *server)
	// also changes the cluster.
	also   func(ctx context.Context, s *server) error
	says   []string // texts of the message, or of the command
	remark bool     // it may be meant: the exit code is 0
	before int      // the minor version of Kubernetes from which it is never sent; 0: none
}

// day is a day of a certificate.
const day = 24 * time.Hour

func set(field string, value any) func(kubetest.Object, *server) {
	return func(w kubetest.Object, _ *server) { w[field] = value }
}

func about(group, version, resource, operation, scope string) func(kubetest.Object, *server) {
	return func(w kubetest.Object, _ *server) {
		w["rules"] = rules(group, version, resource, operation, scope)
		delete(w, "namespaceSelector")
	}
}

// leases is about those of all namespaces but the server's own.
func leases(operation string) func(kubetest.Object, *server) {
	return func(w kubetest.Object, _ *server) {
		w["rules"] = rules("coordination.k8s.io", "v1", "leases", operation, "*")
		w["namespaceSelector"] = kubetest.Object{"matchExpressions": []kubetest.Object{{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": []string{"foreign"}}}}
	}
}

// few is about what the webhook may be called for without danger.
func few(group, version, resource, operation, scope string) func(kubetest.Object, *server) {
	return func(w kubetest.Object, _ *server) {
		w["rules"], w["failurePolicy"] = rules(group, version, resource, operation, scope), "Ignore"
	}
}

func caBundle(of func(s *server) []byte) func(kubetest.Object, *server) {
	return func(w kubetest.Object, s *server) { w["clientConfig"].(kubetest.Object)["caBundle"] = of(s) }
}

func created(ctx context.Context, path string, o kubetest.Object) error {
	_, err := cluster.Admin().Create(ctx, path, o)
	return err
}

// remove deletes an object of the server.
func remove(resource string) func(context.Context, *server) error {
	return func(ctx context.Context, s *server) error {
		_, err := cluster.Admin().Delete(ctx, "/api/v1/namespaces/foreign/"+resource+"/"+s.name)
		return err
	}
}

// faults are the stumbling blocks of people who learn webhooks, as far as a cluster can show them.
func faults() []planted {
	return []planted{
		{name: "unknown-authority", want: "ca-bundle-mismatch", change: caBundle(func(*server) []byte { return healthy.ca }), says: []string{"unknown-authority CA", "healthy CA"}},
		{name: "expired", want: "certificate-expired", serve: certificate{begins: -30 * day, ends: -day}},
		{name: "early", want: "certificate-not-yet-valid", serve: certificate{begins: day, ends: 30 * day}},
		{name: "expired-ca", want: "ca-expired", serve: certificate{caEnds: -day}},
		{name: "soon", want: "certificate-expires-soon", serve: certificate{begins: -80 * day, ends: 10 * day}, says: []string{"in 9 days"}},
		{name: "ca-soon", want: "ca-expires-soon", serve: certificate{caEnds: 10 * day}},
		{name: "common-name", want: "certificate-common-name-only", serve: certificate{names: []string{"-"}}},
		{name: "other-name", want: "certificate-name", serve: certificate{names: []string{"other.foreign.svc"}}, says: []string{"other.foreign.svc", "other-name.foreign.svc"}},
		{name: "text-bundle", want: "ca-bundle-invalid", change: caBundle(func(*server) []byte { return []byte("my-ca") })},
		{name: "twice-bundle", want: "ca-bundle-invalid", says: []string{"twice"},
			change: caBundle(func(s *server) []byte { return []byte(base64.StdEncoding.EncodeToString(s.ca)) })},
		{name: "folded-bundle", want: "ca-bundle-invalid", says: []string{"folded"}, change: caBundle(func(s *server) []byte { return folded(s.ca) })},
		{name: "no-bundle", want: "ca-bundle-missing", change: caBundle(func(*server) []byte { return nil })},
		{name: "key-bundle", want: "ca-bundle-private-key", change: caBundle(func(s *server) []byte { return append(slices.Clone(s.ca), s.key...) })},
		{name: "plain", want: "plain-http", serve: certificate{plain: true}},
		{name: "unspoken", want: "handshake-timeout", serve: certificate{unspoken: true}},
		{name: "refused", want: "connection-refused", also: func(ctx context.Context, s *server) error {
			return endpoints(ctx, "foreign", s.name, host+":1", true)
		}},
		{name: "no-service", want: "service-missing", also: remove("services"), says: []string{"kubectl get validatingwebhookconfiguration no-service"}},
		{name: "no-port", want: "service-port-missing", change: func(w kubetest.Object, _ *server) {
			w["clientConfig"].(kubetest.Object)["service"].(kubetest.Object)["port"] = 9443
		}, says: []string{"only port 443", `"value":443`}},
		{name: "no-pods", want: "no-endpoints", also: func(ctx context.Context, s *server) error {
			_, err := cluster.Admin().Delete(ctx, "/apis/discovery.k8s.io/v1/namespaces/foreign/endpointslices/"+s.name+"-1")
			return err
		}, says: []string{"get pods -l app=no-pods"}},
		{name: "not-ready", want: "no-ready-endpoints", also: func(ctx context.Context, s *server) error {
			return endpoints(ctx, "foreign", s.name, s.address, false)
		}},
		{name: "half", want: "some-endpoints-down", also: func(ctx context.Context, s *server) error {
			return created(ctx, "/apis/discovery.k8s.io/v1/namespaces/foreign/endpointslices", kubetest.Object{
				"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
				"metadata":  kubetest.Object{"name": s.name + "-2", "namespace": "foreign", "labels": kubetest.Object{"kubernetes.io/service-name": s.name}},
				"ports":     []kubetest.Object{{"name": "https", "port": 1}},
				"endpoints": []kubetest.Object{{"addresses": []string{host}, "conditions": kubetest.Object{"ready": true}}},
			})
		}, says: []string{host + ":1", "connection refused"}},
		{name: "external", want: "service-external-name", also: func(ctx context.Context, s *server) error {
			service := s.service()
			service["spec"] = kubetest.Object{"type": "ExternalName", "externalName": "webhooks.example.com"}
			return errors.Join(remove("services")(ctx, s), created(ctx, "/api/v1/namespaces/foreign/services", service))
		}},
		{name: "headless", want: "service-headless", also: func(ctx context.Context, s *server) error {
			service := s.service()
			service["spec"].(kubetest.Object)["clusterIP"] = "None"
			return errors.Join(remove("services")(ctx, s), created(ctx, "/api/v1/namespaces/foreign/services", service))
		}},
		{name: "url", want: "url-host-unknown", change: func(w kubetest.Object, s *server) {
			w["clientConfig"] = kubetest.Object{"caBundle": s.ca, "url": "https://webhook.invalid/review"}
		}},
		{name: "no-namespace", want: "selector-no-namespace", change: set("namespaceSelector", kubetest.Object{"matchLabels": kubetest.Object{"team": "none"}}),
			remark: true, says: []string{"there is none"}},
		{name: "node-namespaces", want: "selector-no-effect", change: func(w kubetest.Object, s *server) {
			w["rules"], w["failurePolicy"] = rules("", "v1", "nodes", "UPDATE", "Cluster"), "Ignore"
		}},
		{name: "object-selector", want: "object-selector-never", change: func(w kubetest.Object, s *server) {
			w["rules"] = rules("", "v1", "pods/binding", "CREATE", "Namespaced")
			w["objectSelector"] = kubetest.Object{"matchLabels": kubetest.Object{"app": "web"}}
		}},
		{name: "singular", want: "rule-unknown-resource", change: few("", "v1", "pod", "CREATE", "Namespaced"), says: []string{"did you mean pods?"}},
		{name: "kind", want: "rule-unknown-resource", change: few("apps", "v1", "Deployment", "CREATE", "Namespaced"), says: []string{"did you mean deployments?"}},
		{name: "no-status", want: "rule-unknown-resource", change: few("", "v1", "configmaps/status", "UPDATE", "Namespaced"), says: []string{"no subresource status"}},
		{name: "core-deployments", want: "rule-wrong-group", change: few("", "v1", "deployments", "CREATE", "Namespaced"), says: []string{"the group apps"}},
		{name: "old-version", want: "rule-wrong-version", change: few("apps", "v1beta1", "deployments", "CREATE", "Namespaced")},
		{name: "node-scope", want: "rule-wrong-scope", change: few("", "v1", "nodes", "CREATE", "Namespaced")},
		{name: "status-create", want: "rule-never-sent", change: few("", "v1", "nodes/status", "CREATE", "Cluster"), says: []string{"only UPDATE"}},
		{name: "own-namespace", want: "fail-own-namespace", change: func(w kubetest.Object, s *server) {
			w["rules"] = rules("", "v1", "pods", "CREATE", "Namespaced")
			w["namespaceSelector"] = kubetest.Object{"matchExpressions": []kubetest.Object{{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": []string{"kube-system"}}}}
		}},
		{name: "kube-system", want: "fail-kube-system", change: func(w kubetest.Object, s *server) {
			w["rules"] = rules("", "v1", "pods", "CREATE", "Namespaced")
			w["namespaceSelector"] = kubetest.Object{"matchExpressions": []kubetest.Object{{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": []string{"foreign"}}}}
		}, says: []string{`kube-system`}},
		{name: "leases", want: "fail-leases", change: leases("UPDATE")},
		{name: "node-status", want: "fail-nodes", change: about("", "v1", "nodes/status", "UPDATE", "*")},
		{name: "token-reviews", want: "fail-token-reviews", before: 37, change: about("authentication.k8s.io", "v1", "tokenreviews", "CREATE", "*")},
		{name: "events", want: "fail-events", change: about("", "v1", "events", "CREATE", "*")},
		{name: "everything", want: "rule-everything", change: func(w kubetest.Object, _ *server) {
			w["rules"] = rules("*", "*", "*/*", "CREATE", "*") // of the namespaces with the label, and of what is in none
			w["matchConditions"] = []kubetest.Object{{"name": "people", "expression": "request.userInfo.username == 'jane'"}}
		}},
		{name: "slow", want: "pod-timeouts", kind: "Mutating", change: func(w kubetest.Object, _ *server) {
			w["rules"], w["timeoutSeconds"] = rules("", "v1", "pods", "CREATE", "Namespaced"), 15
		}, says: []string{"one after the other", "slow.foreign.example 15 s"}},
		{name: "amplifier", want: "two-amplifiers", kind: "Mutating", change: func(w kubetest.Object, _ *server) {
			w["rules"], w["failurePolicy"] = rules("", "v1", "nodes/status", "UPDATE", "Cluster"), "Ignore"
			delete(w, "namespaceSelector")
		}},
		{name: "koordinator-validating-webhook-configuration", want: "koordinator-beside-usher", change: func(w kubetest.Object, _ *server) {
			w["rules"] = rules("", "v1", "pods", "CREATE", "Namespaced")
		}},
		{name: "exact", want: "match-policy-exact", change: func(w kubetest.Object, _ *server) {
			w["rules"], w["matchPolicy"] = rules("autoscaling", "v2", "horizontalpodautoscalers", "CREATE", "Namespaced"), "Exact"
		}},
		{name: "stale-bundle", want: "ca-bundle-stale", remark: true,
			change: caBundle(func(s *server) []byte { return append(slices.Clone(s.ca), s.expired()...) })},
		{name: "bindings", want: "fail-control-plane", change: func(w kubetest.Object, _ *server) {
			w["rules"] = rules("*", "*", "*", "*", "Cluster")
			w["matchConditions"] = []kubetest.Object{{"name": "some", "expression": "request.resource.resource in ['namespaces', 'clusterroles', 'priorityclasses']"}}
			delete(w, "namespaceSelector")
		}, says: []string{"ClusterRoles", "namespaces"}},
		{name: "all-leases", want: "fail-leases", change: leases("*"), says: []string{"of nodes", "in kube-system"}},
		{name: "twice", want: "registered-twice", change: func(w kubetest.Object, _ *server) {
			w["clientConfig"] = healthy.webhook("healthy")["clientConfig"]
		}},
		{name: "default-timeout", want: "timeout-long", remark: true, change: set("timeoutSeconds", 10)},
		{name: "two-slow", want: "pod-timeouts", kind: "Mutating", change: func(w kubetest.Object, _ *server) {
			w["rules"], w["timeoutSeconds"] = rules("", "v1", "pods", "CREATE", "Namespaced"), 30
		}},
		{name: "two-typos", want: "rule-unknown-resource", change: func(w kubetest.Object, _ *server) {
			w["rules"] = rules("", "v1", "pod", "CREATE", "Namespaced")
			w["rules"].([]kubetest.Object)[0]["resources"] = []string{"pod", "secret"}
		}, says: []string{"mean pods?", "mean secrets?"}},
		{name: "old-reviews", want: "review-version-v1", change: set("admissionReviewVersions", []string{"v1beta1"})},
	}
}

// TestPlanted: each fault is the first finding, and it is about the webhook that has it.
func TestPlanted(t *testing.T) {
	if n := len(faults()); n < 16 {
		t.Fatalf("only %d faults", n)
	}
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			ctx := cluster.Within(t, time.Minute)
			s, err := serve(ctx, f.name, f.serve)
			apply(t, err)
			w := s.webhook(f.name)
			if f.change != nil {
				f.change(w, s)
			}
			if f.also != nil {
				apply(t, f.also(ctx, s))
			}
			if f.kind == "" {
				f.kind = "Validating"
			}
			collection := "/apis/admissionregistration.k8s.io/v1/" + strings.ToLower(f.kind) + "webhookconfigurations"
			apply(t, created(ctx, collection, configuration(f.kind, f.name, w)))
			cluster.DeleteAfter(t, collection+"/"+f.name)
			found, code := doctor(ctx, t, cluster.AdminKubeconfig())
			if f.before > 0 && minorVersion(ctx, t) >= f.before {
				f.want = "rule-never-sent"
			}
			if f.remark && code == 0 {
				code = 1
			}
			expect(t, found, code, f.want, f.says)
			if len(found) > 0 && !strings.Contains(found[0].Object, f.name) && found[0].Object != "the cluster" {
				t.Errorf("the finding is about %s", found[0].Object)
			}
			correct(ctx, t, found)
		})
	}
}

// minorVersion returns the minor version that the API server has or emulates.
func minorVersion(ctx context.Context, t *testing.T) int {
	t.Helper()
	version, err := cluster.Admin().Get(ctx, "/version")
	apply(t, err)
	minor, err := strconv.Atoi(version.String("emulationMinor"))
	apply(t, err)
	return minor
}

// expect fails the test unless a finding is the first.
func expect(t *testing.T, found []finding, code int, want string, says []string) {
	t.Helper()
	if code != 1 || len(found) == 0 || found[0].ID != want {
		t.Fatalf("exit code %d, want 1 and %s first: %+v", code, want, found)
	}
	first := found[0]
	for _, text := range says {
		if !strings.Contains(first.Message, text) && !strings.Contains(first.Fix+first.Look, text) {
			t.Errorf("it does not say %q: %s, fix: %s", text, first.Message, first.Fix+first.Look)
		}
	}
	if (first.Fix == "") == (first.Look == "") || first.Link != "docs/troubleshooting.md#"+want || first.Message == "" {
		t.Errorf("it is not whole: %+v", first)
	}
	var others []string
	for _, f := range found[1:] {
		if f.Severity != "info" {
			others = append(others, f.Severity+" "+f.ID+": "+f.Object)
		}
	}
	if len(others) > 0 {
		t.Logf("%s, and %v", first.Message, others)
	} else {
		t.Log(first.Message)
	}
}

func apply(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
