package quota

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// A tenant is a user who may do everything in his namespaces: he has the rules of the role admin, and may write
// ElasticQuotas and pods/resize. He tries to get out of the limits of his namespace, to take the room of another
// namespace, and to stop its pods.

// tenantPolicy is the policy that keeps tenants within their limits.
const tenantPolicy = `
quotas:
  selection:
  - {name: second namespace, quotas: [tenant-a-team], namespaces: [tenant-a2]}
  reserved: {label: false, default: false, move: false}
  administrators: {namespaces: [tenant-top], groups: [quota-admins]}
`

// tenancy is the tree of two tenants, and an usher with tenantPolicy.
type tenancy struct {
	tenant  *kubetest.Client
	guarded *kubetest.Usher
}

// newTenancy creates a tree with the limit 8, in which the namespaces tenant-a and tenant-b have a quota of 4 for their
// pods, and one of 4 to divide. The tenant also has the namespace tenant-a2, for which there is no quota.
func newTenancy(ctx context.Context, t *testing.T) tenancy {
	t.Helper()
	grow(ctx, t, "tenant-top", newQuota("tenant-top", "tenant-top-all", "", "8", true))
	for _, namespace := range []string{"tenant-a", "tenant-b"} {
		team := newQuota(namespace, namespace+"-team", "tenant-top-all", "4", false)
		annotate(team, "namespaces", fmt.Sprintf(`["%s"]`, namespace))
		grow(ctx, t, namespace, team, newQuota(namespace, namespace+"-dept", "tenant-top-all", "4", true))
	}
	grow(ctx, t, "tenant-a2")
	grow(ctx, t, "tenant-c")
	for _, namespace := range []string{"tenant-a", "tenant-a2"} {
		cluster.MustApply(ctx, t, tenantRights(namespace))
	}
	guarded, err := cluster.StartUsher(ctx, kubetest.UsherOptions{Name: "usher-tenant", Replicas: 2, Policy: tenantPolicy, Flags: []string{
		"--cluster=api", "--kubeconfig=" + cluster.Dir() + "/" + usherUser + ".kubeconfig", "--feature-gates=" + gates, "--quota-reservation-expiry=" + expiry.String()}})
	stored(t, err)
	t.Cleanup(guarded.Stop)
	t.Cleanup(func() { stored(t, front.lead(usher)) })
	return tenancy{cluster.User("tenant"), guarded}
}

func annotate(object kubetest.Object, key, value string) {
	object["metadata"].(kubetest.Object)["annotations"].(kubetest.Object)[prefix+key] = value
}

// tenantRights are the rights of the tenant in a namespace. Without a controller the role admin is empty: it has the
// rules of these roles.
func tenantRights(namespace string) string {
	var all strings.Builder
	for _, role := range []string{"system:aggregate-to-admin", "system:aggregate-to-edit", "system:aggregate-to-view"} {
		fmt.Fprintf(&all, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: %s, name: %q}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %q}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
---`, namespace, role, role)
	}
	fmt.Fprintf(&all, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: %[1]s, name: quotas}
rules:
- {apiGroups: [scheduling.sigs.k8s.io], resources: [elasticquotas], verbs: ["*"]}
- {apiGroups: [""], resources: [pods/resize, pods/ephemeralcontainers], verbs: [patch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: %[1]s, name: quotas}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: quotas}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
`, namespace)
	return all.String()
}

// attempt is a request of the tenant that the policy refuses, and that is allowed without it.
type attempt struct {
	name  string
	try   func(as *kubetest.Client, query string) error
	texts []string
}

// TestTenant: what the policy is for. Each attempt succeeds without the policy, on dry run, and is refused with it.
func TestTenant(t *testing.T) {
	ctx := cluster.Within(t, 4*time.Minute)
	tenancy := newTenancy(ctx, t)
	stored(t, front.lead(tenancy.guarded))
	_, err := tenancy.tenant.Create(ctx, podPath("tenant-a2", ""), newPod("moved", "tenant-a-team", "1"))
	stored(t, err)
	_, err = tenancy.tenant.Create(ctx, podPath("tenant-a", ""), newPod("own", "", "1"))
	stored(t, err)
	settled(ctx, t, "tenant-a-team", "2")
	for _, a := range append(podAttempts(ctx), quotaAttempts(ctx)...) {
		t.Run(a.name, func(t *testing.T) {
			stored(t, front.lead(usher))
			if err := a.try(tenancy.tenant, "?dryRun=All"); err != nil {
				t.Errorf("without the policy: %v", err)
			}
			stored(t, front.lead(tenancy.guarded))
			err := a.try(tenancy.tenant, "")
			kubetest.RefusedWith(t, err, a.texts...)
		})
	}
	tenancy.allowed(ctx, t)
	stored(t, createPod(ctx, "tenant-b", "all", "", "4")) // its room is untouched
	settled(ctx, t, "tenant-b-team", "4")
}

// podAttempts are about the quota of pods.
func podAttempts(ctx context.Context) []attempt {
	create := func(namespace, label, cpu string) func(*kubetest.Client, string) error {
		return func(as *kubetest.Client, query string) error {
			_, err := as.Create(ctx, podPath(namespace, "")+query, newPod("p", label, cpu))
			return err
		}
	}
	relabel := func(path, label string) func(*kubetest.Client, string) error {
		return func(as *kubetest.Client, query string) error {
			_, err := as.Patch(ctx, path+query, kubetest.MergePatch, `{"metadata": {"labels": {"`+prefix+`name": `+label+`}}}`)
			return err
		}
	}
	controller := func(try func(*kubetest.Client, string) error) func(*kubetest.Client, string) error {
		return func(_ *kubetest.Client, query string) error { return try(cluster.Admin(), query) }
	}
	own, moved := podPath("tenant-a", "own"), podPath("tenant-a2", "moved")
	const another, reserved = "namespace tenant-a may not name quota tenant-b-team", "pods may not choose the reserved quota koordinator-default-quota"
	return []attempt{
		{"another's quota", create("tenant-a", "tenant-b-team", "1"), []string{"quota-selection", another}},
		{"a reserved quota", create("tenant-a", "koordinator-default-quota", "100"), []string{"quota-selection", reserved}},
		{"a namespace without a quota", create("tenant-a2", "", "100"), []string{"quota-selection", "no elastic quota is for pods of namespace tenant-a2"}},
		{"a move to another's quota", relabel(own, `"tenant-b-team"`), []string{"quota-selection", another}},
		{"a move to a reserved quota", relabel(own, `"koordinator-default-quota"`), []string{"quota-selection", reserved}},
		{"the label is removed", relabel(moved, "null"), []string{"quota-selection", "no elastic quota is for pods of namespace tenant-a2"}},
		{"the label is emptied", relabel(moved, `""`), []string{"quota-selection", "no elastic quota is for pods of namespace tenant-a2"}},
		{"a label by pods/status, of a controller", controller(relabel(own+"/status", `"tenant-b-team"`)), []string{"quota-selection", another}},
	}
}

// quotaAttempts are about the tree.
func quotaAttempts(ctx context.Context) []attempt {
	create := func(name, parent string, change func(kubetest.Object)) func(*kubetest.Client, string) error {
		return func(as *kubetest.Client, query string) error {
			q := newQuota("tenant-a", name, parent, "1000", false)
			if change != nil {
				change(q)
			}
			_, err := as.Create(ctx, quotaPath("tenant-a", "")+query, q)
			return err
		}
	}
	patch := func(name, body string) func(*kubetest.Client, string) error {
		return func(as *kubetest.Client, query string) error {
			_, err := as.Patch(ctx, quotaPath("tenant-a", name)+query, kubetest.MergePatch, body)
			return err
		}
	}
	label := func(key, value string) string {
		return fmt.Sprintf(`{"metadata": {"labels": {%q: %s}}}`, prefix+key, value)
	}
	const only = "only administrators of quotas (quotas.administrators of usher's policy) may "
	const boundary = only + "change tenant-a-team, which is not below a quota of namespace tenant-a"
	return []attempt{
		{"lists another namespace", create("tenant-a-x", "tenant-a-dept", func(q kubetest.Object) { annotate(q, "namespaces", `["tenant-c"]`) }),
			[]string{"quota-authority", only + "list namespaces other than tenant-a"}},
		{"named like his namespace, at the top", create("tenant-a", "", nil), []string{"quota-authority", only + "put a quota at the top of a tree"}},
		{"named like another namespace", create("tenant-b", "tenant-a-dept", nil), []string{"metadata.name", only + "use a name that is neither tenant-a nor begins with tenant-a-"}},
		{"below another's quota", create("tenant-a-x", "tenant-b-dept", nil), []string{only + "put a quota below tenant-b-dept, which is of namespace tenant-b"}},
		{"exempt from the checks", create("tenant-a-x", "tenant-a-dept", func(q kubetest.Object) {
			q["metadata"].(kubetest.Object)["labels"].(kubetest.Object)[prefix+"allow-force-update"] = "true"
		}), []string{only + "exempt a quota from the checks"}},
		{"to the top", patch("tenant-a-team", label("parent", `"koordinator-root-quota"`)), []string{"parent", boundary}},
		{"to another's quota", patch("tenant-a-team", label("parent", `"tenant-b-dept"`)), []string{"parent", boundary}},
		{"out of the tree", patch("tenant-a-team", label("parent", "null")), []string{"parent", boundary}},
		{"a larger max", patch("tenant-a-team", `{"spec": {"max": {"cpu": "8"}}}`), []string{"spec.max", boundary}},
		{"other limits at admission", patch("tenant-a-team", `{"metadata": {"annotations": {"`+prefix+`admission": "{\"cpu\":\"1000\"}"}}}`), []string{"admission", boundary}},
		{"its namespace elsewhere", patch("tenant-a-team", `{"metadata": {"annotations": {"`+prefix+`namespaces": "[]"}}}`), []string{"namespaces", boundary}},
		{"its limit is deleted", func(as *kubetest.Client, query string) error {
			options := kubetest.Object{"kind": "DeleteOptions", "apiVersion": "v1"}
			if query != "" { // the query does not count beside a body
				options["dryRun"] = []string{"All"}
			}
			answer, err := as.Do(ctx, "DELETE", quotaPath("tenant-a", "tenant-a-dept"), "application/json", options)
			if err == nil {
				err = answer.Err()
			}
			return err
		}, []string{"metadata.name", only + "delete tenant-a-dept"}},
	}
}

// allowed: what is the tenant's to do remains possible, and what RBAC and the rules of the tree refuse remains refused.
func (n tenancy) allowed(ctx context.Context, t *testing.T) {
	t.Helper()
	child := newQuota("tenant-a", "tenant-a-x", "tenant-a-dept", "3", false)
	child["metadata"].(kubetest.Object)["annotations"].(kubetest.Object)[recordOf] = `{"seen":"9999999999","pods":[{"pod":"tenant-b/x","uid":"u","quota":"tenant-b-team","at":9999999999999,"requests":{"cpu":"4"}}]}`
	_, err := n.tenant.Create(ctx, quotaPath("tenant-a", ""), child)
	stored(t, err)
	forged := fmt.Sprintf(`{"metadata": {"annotations": {%q: "{\"seen\":\"9999999999\",\"tree\":\"9999999999\"}"}}, "spec": {"max": {"cpu": "2"}}}`, recordOf)
	_, err = n.tenant.Patch(ctx, quotaPath("tenant-a", "tenant-a-x"), kubetest.MergePatch, forged)
	stored(t, err)
	_, err = n.tenant.Patch(ctx, quotaPath("tenant-a", "tenant-a-x"), kubetest.JSONPatch,
		`[{"op": "add", "path": "/metadata/annotations/usher.dev~1reservations", "value": "{}"}]`)
	stored(t, err)
	_, err = n.tenant.Patch(ctx, quotaPath("tenant-a", "tenant-a-x")+"?fieldManager=tenant&force=true", kubetest.ApplyPatch,
		fmt.Sprintf(`{"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": "tenant-a-x", "annotations": {%q: "{}"}}}`, recordOf))
	stored(t, err)
	if text, _ := record(ctx, t, "tenant-a", "tenant-a-x"); text != "" {
		t.Errorf("the tenant has written a record: %s", text)
	}
	eventually(ctx, t, func(ctx context.Context) error { // pods may name what the tenant has made of his room
		_, err := n.tenant.Create(ctx, podPath("tenant-a", "")+"?dryRun=All", newPod("divided", "tenant-a-x", "2"))
		return err
	})
	_, err = n.tenant.Create(ctx, podPath("tenant-a", "")+"?dryRun=All", newPod("divided", "tenant-a-x", "3"))
	kubetest.RefusedWith(t, err, "quota tenant-a-x (via label)", "limit 2")
	_, err = n.tenant.Delete(ctx, quotaPath("tenant-a", "tenant-a-x"))
	stored(t, err)
	admin := cluster.Admin().Impersonate("ann", "quota-admins", "system:masters")
	_, err = admin.Create(ctx, quotaPath("tenant-b", "")+"?dryRun=All", newQuota("tenant-b", "tenant-b", "tenant-b-dept", "1", false))
	stored(t, err)
	_, err = n.tenant.Patch(ctx, podPath("tenant-a", "own")+"/status", kubetest.MergePatch, `{"metadata": {"labels": {"`+prefix+`name": "tenant-b-team"}}}`)
	kubetest.RefusedWith(t, err, "403", "pods/status")
	_, err = n.tenant.Patch(ctx, "/api/v1/namespaces/tenant-a", kubetest.MergePatch, `{"metadata": {"labels": {"usher.dev/exempt": "true"}}}`)
	kubetest.RefusedWith(t, err, "403", "namespaces")
	_, err = n.tenant.Patch(ctx, quotaPath("tenant-top", "tenant-top-all"), kubetest.MergePatch, `{"spec": {"max": {"cpu": "80"}}}`)
	kubetest.RefusedWith(t, err, "403", "elasticquotas")
	_, err = n.tenant.Patch(ctx, quotaPath("tenant-a", "tenant-a-team"), kubetest.MergePatch, `{"metadata": {"labels": {"`+prefix+`tree-id": "other"}}}`)
	kubetest.RefusedWith(t, err, "tree-id")
}
