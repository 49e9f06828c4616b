package requests

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/internal/resources"
)

// TestRequests: what names no request, and what would stop a cluster, is refused.
func TestRequests(t *testing.T) {
	named := func(groups string, resources ...string) Requests {
		return Requests{APIGroups: strings.Split(groups, ","), Resources: resources, Operations: []string{"CREATE"}}
	}
	with := func(r Requests, change func(*Requests)) Requests { change(&r); return r }
	for _, c := range []struct {
		name string
		is   Requests
		want []string // what each problem begins with and contains
	}{
		{"one resource", named("", "pods"), nil},
		{"subresources", named("", "pods/exec", "pods/attach", "services/proxy", "nodes/proxy"), nil},
		{"all of a group", named("apps", "*"), nil},
		{"custom resources", named("example.com", "widgets", "widgets/status"), nil},
		{"nothing", Requests{}, []string{"at.apiGroups: Required", "at.resources: Required", "at.operations: Required"}},
		{"operations", with(named("", "pods"), func(r *Requests) { r.Operations = []string{"*", "create"} }),
			[]string{`at.operations[1]: Unsupported value: "create": supported values: "CREATE"`}},
		{"scope", with(named("", "pods"), func(r *Requests) { r.Scope = "namespaced" }), []string{`at.scope: Unsupported value: "namespaced"`}},
		{"spelling", named("", "Pods", "", "pods/a/b"), []string{"at.resources[0]", "at.resources[1]", "at.resources[2]"}},
		{"everything", named("*", "*"), []string{"at.resources[0]: Invalid value: \"*\": must not match leases: "}},
		{"leases", named("apps,coordination.k8s.io", "leases"), []string{"must not match leases: "}},
		{"heartbeats", named("", "nodes/status", "nodes/*", "*/status"), []string{"nodes/status: ", "nodes/status: ", "nodes/status: "}},
		{"pods' status", named("", "pods/*"), []string{"must not match pods/status: "}},
		{"access", named("authentication.k8s.io", "tokenreviews"), []string{"must not match tokenreviews: "}},
		{"webhooks", named("admissionregistration.k8s.io", "validatingwebhookconfigurations"), []string{"guard them with RBAC"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			problems := c.is.Check(field.NewPath("at"))
			if len(problems) != len(c.want) {
				t.Fatalf("got %v, want %d problems", problems, len(c.want))
			}
			for i, want := range c.want {
				if !strings.Contains(problems[i].Error(), want) {
					t.Errorf("got %v, want %s", problems[i], want)
				}
			}
		})
	}
}

// TestWarnings: what no request can match is warned of, if it is a resource of Kubernetes or of no API server.
func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		name, groups, resources string
		change                  func(*Requests)
		want                    string // of each warning, in order
	}{
		{"right", ",apps", "pods,deployments,pods/ephemeralcontainers,*", nil, ""},
		{"a custom resource", "example.com", "widgets,deployments,widgets/status", nil, ""},
		{"an unknown resource of a known group", "scheduling.k8s.io", "things", nil, ""},
		{"perhaps a custom resource", "apps,example.com", "deployment,ingresses", nil, ""},
		{"all groups", "*", "deployment,things", nil, ""},
		{"a group with its version", "apps/v1", "deployments", nil,
			"at.resources[0]: no request matches deployments: apps/v1 is a group with a version; the group is apps, and v1 belongs into apiVersions"},
		{"a custom group with its version", "example.com/v1", "widgets", nil, "the group is example.com"},
		{"the singular", "apps", "deployments,deployment", nil, "at.resources[1]: no request matches deployment: the group apps has no resource deployment; did you mean deployments?"},
		{"the kind", "apps", "statefulset", nil, "did you mean statefulsets?"},
		{"the core group", "", "deployments", nil, `the core group ("") has no resource deployments; it is in the group apps`},
		{"no subresource", "", "secrets/status", nil, "secrets has no subresource status"},
		{"an old version", "apps", "deployments", func(r *Requests) { r.APIVersions = []string{"v1beta1"} }, "it is served as v1"},
		{"a version that may be switched on", "resource.k8s.io", "resourceclaims", func(r *Requests) { r.APIVersions = []string{"v1beta1"} }, ""},
		{"the other scope", "", "nodes,namespaces", func(r *Requests) { r.Scope = "Namespaced" }, "nodes are cluster-scoped|namespaces are cluster-scoped"},
		{"never sent", "", "pods/exec,pods/log", nil, "there is only CONNECT|no operation on it that webhooks see"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Requests{APIGroups: strings.Split(c.groups, ","), Resources: strings.Split(c.resources, ","), Operations: []string{"CREATE", "UPDATE"}}
			if c.change != nil {
				c.change(&r)
			}
			var want []string
			if c.want != "" {
				want = strings.Split(c.want, "|")
			}
			got := r.Warnings(field.NewPath("at"), resources.BuiltIn())
			if len(got) != len(want) {
				t.Fatalf("got %q, want %d warnings", got, len(want))
			}
			for i := range want {
				if !strings.Contains(got[i], want[i]) {
					t.Errorf("got %s, want %s", got[i], want[i])
				}
			}
		})
	}
}
