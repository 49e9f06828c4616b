package requests

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
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
