package recovery

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/e2e/kubetest"
)

// request is a request to the API server: a dry run, unless it opens a connection.
type request struct {
	rule         string // what it is in the rule of a webhook, such as UPDATE pods/resize
	method, path string
	body         string
}

const (
	core  = "/api/v1/namespaces/shop/"
	apps  = "/apis/apps/v1/namespaces/shop/"
	batch = "/apis/batch/v1/namespaces/shop/"
	dra   = "/apis/resource.k8s.io/v1/namespaces/shop/"
	rbac  = "/apis/rbac.authorization.k8s.io/v1/"
	quota = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/shop/elasticquotas"
	room  = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
	mixed = "/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles"
	tree  = "/apis/quota.koordinator.sh/v1alpha1/namespaces/shop/elasticquotaprofiles"
	slo   = "/api/v1/namespaces/koordinator-system/configmaps"

	label       = `{"metadata": {"labels": {"seen": "yes"}}}`
	finalize    = `{"metadata": {"finalizers": ["example.com/keep"]}}`
	pod         = `{"metadata": {"name": "new"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`
	podTemplate = `"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`
	template    = `"selector": {"matchLabels": {"a": "b"}}, ` + podTemplate
	controller  = `{"metadata": {"name": "new"}, "spec": {"selector": {"a": "b"}, ` + podTemplate + `}}`
	workload    = `{"metadata": {"name": "new"}, "spec": {` + template + `}}`
	job         = `{"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}`
	service     = `{"metadata": {"name": "new"}, "spec": {"ports": [{"port": 80}]}}`
	claim       = `{"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}}`
	named       = `{"metadata": {"name": "new"}}`
	role        = `{"metadata": {"name": "new"}, "rules": []}`
	newQuota    = `{"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": "new"}, "spec": {"max": {"cpu": "4"}, "min": {"cpu": "1"}}}`
	bound       = `{"metadata": {"name": "new"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}`
)

// table has requests for each row of the table in docs/operations.md, by the beginning of the row.
var table = map[string][]request{
	"a pod is created": {
		{"CREATE pods", "POST", core + "pods", pod},
		{"UPDATE pods", "PATCH", core + "pods/stored", label},
		{"UPDATE pods", "PATCH", core + "pods/stored", `{"metadata": {"annotations": {"seen": "yes"}}}`},
		{"UPDATE pods", "PATCH", core + "pods/stored", `{"spec": {"activeDeadlineSeconds": 60}}`},
		{"UPDATE pods/resize", "PATCH", core + "pods/stored/resize", `{"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}}`},
		{"UPDATE pods/ephemeralcontainers", "PATCH", core + "pods/stored/ephemeralcontainers", `{"spec": {"ephemeralContainers": [{"name": "e", "image": "i",
			"imagePullPolicy": "Always", "terminationMessagePolicy": "File"}]}}`},
	},
	"a Deployment, StatefulSet": {
		{"CREATE deployments", "POST", apps + "deployments", workload},
		{"UPDATE deployments", "PATCH", apps + "deployments/stored", label},
		{"CREATE statefulsets", "POST", apps + "statefulsets", workload},
		{"UPDATE statefulsets", "PATCH", apps + "statefulsets/stored", label},
		{"CREATE daemonsets", "POST", apps + "daemonsets", workload},
		{"UPDATE daemonsets", "PATCH", apps + "daemonsets/stored", label},
		{"CREATE jobs", "POST", batch + "jobs", `{"metadata": {"name": "new"}, "spec": ` + job + `}`},
		{"UPDATE jobs", "PATCH", batch + "jobs/stored", label},
		{"CREATE cronjobs", "POST", batch + "cronjobs", `{"metadata": {"name": "new"}, "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": ` + job + `}}}`},
		{"UPDATE cronjobs", "PATCH", batch + "cronjobs/stored", label},
		{"CREATE replicasets", "POST", apps + "replicasets", workload},
		{"UPDATE replicasets", "PATCH", apps + "replicasets/stored", label},
		{"CREATE replicationcontrollers", "POST", core + "replicationcontrollers", controller},
		{"UPDATE replicationcontrollers", "PATCH", core + "replicationcontrollers/stored", label},
		{"CREATE podtemplates", "POST", core + "podtemplates", `{"metadata": {"name": "new"}, ` + podTemplate + `}`},
		{"UPDATE podtemplates", "PATCH", core + "podtemplates/stored", label},
	},
	"what `restrictions` or `rules` name in a namespace": {
		{"DELETE deployments", "DELETE", apps + "deployments/stored", ""},
		{"UPDATE deployments/scale", "PATCH", apps + "deployments/stored/scale", `{"spec": {"replicas": 2}}`},
		{"DELETE statefulsets", "DELETE", apps + "statefulsets/stored", ""},
		{"DELETE persistentvolumeclaims", "DELETE", core + "persistentvolumeclaims/stored", ""},
		{"UPDATE statefulsets/scale", "PATCH", apps + "statefulsets/stored/scale", `{"spec": {"replicas": 2}}`},
		{"CREATE configmaps", "POST", core + "configmaps", named},
		{"UPDATE configmaps", "PATCH", core + "configmaps/stored", label},
		{"CREATE services", "POST", core + "services", service},
		{"UPDATE services", "PATCH", core + "services/stored", label},
		{"CREATE *", "POST", apps + "daemonsets", workload},
		{"UPDATE *", "PATCH", apps + "daemonsets/stored", label},
		{"CREATE roles", "POST", rbac + "namespaces/shop/roles", role},
		{"UPDATE roles", "PATCH", rbac + "namespaces/shop/roles/stored", label},
		{"DELETE roles", "DELETE", rbac + "namespaces/shop/roles/stored", ""},
		{"CREATE rolebindings", "POST", rbac + "namespaces/shop/rolebindings", bound},
		{"UPDATE rolebindings", "PATCH", rbac + "namespaces/shop/rolebindings/stored", label},
		{"DELETE rolebindings", "DELETE", rbac + "namespaces/shop/rolebindings/stored", ""},
		{"CREATE resourceclaims", "POST", dra + "resourceclaims", `{"metadata": {"name": "new"}, "spec": ` + claim + `}`},
		{"CREATE resourceclaimtemplates", "POST", dra + "resourceclaimtemplates", `{"metadata": {"name": "new"}, "spec": {"spec": ` + claim + `}}`},
		{"CONNECT pods/exec", "POST", core + "pods/stored/exec?command=sh&stdout=true", ""},
		{"CONNECT pods/attach", "POST", core + "pods/stored/attach?stdout=true", ""},
		{"CONNECT pods/portforward", "POST", core + "pods/stored/portforward", ""},
	},
	"what `restrictions` or `rules` name outside": {
		{"CREATE clusterroles", "POST", rbac + "clusterroles", role},
		{"UPDATE clusterroles", "PATCH", rbac + "clusterroles/developers", label},
		{"DELETE clusterroles", "DELETE", rbac + "clusterroles/developers", ""},
		{"CREATE clusterrolebindings", "POST", rbac + "clusterrolebindings", bound},
		{"UPDATE clusterrolebindings", "PATCH", rbac + "clusterrolebindings/developers", label},
		{"DELETE clusterrolebindings", "DELETE", rbac + "clusterrolebindings/developers", ""},
		{"CREATE namespaces", "POST", "/api/v1/namespaces", named},
		{"DELETE namespaces", "DELETE", "/api/v1/namespaces/my-csi", ""},
	},
	"the labels of a namespace": {
		{"UPDATE namespaces", "PATCH", "/api/v1/namespaces/shop", label},
		{"UPDATE namespaces/status", "PATCH", "/api/v1/namespaces/shop/status", label},
		{"UPDATE namespaces/finalize", "PUT", "/api/v1/namespaces/shop/finalize", `{"metadata": {"name": "shop", "labels": {"a": "b"}}}`},
	},
	"anything in `kube-system`": {
		{"CREATE pods", "POST", "/api/v1/namespaces/kube-system/pods", pod},
		{"CREATE pods", "POST", "/api/v1/namespaces/usher/pods", pod},
		{"CREATE pods", "POST", "/api/v1/namespaces/exempt/pods", pod},
		{"CREATE deployments", "POST", "/apis/apps/v1/namespaces/exempt/deployments", workload},
		{"CREATE configmaps", "POST", "/api/v1/namespaces/exempt/configmaps", named},
		{"CREATE roles", "POST", rbac + "namespaces/exempt/roles", role},
		{"CREATE elasticquotas", "POST", strings.Replace(quota, "shop", "exempt", 1), newQuota},
	},
	"a pod's status, finalizers": {
		{"UPDATE pods/status", "PATCH", core + "pods/stored/status", `{"status": {"phase": "Failed"}}`},
		{"UPDATE pods", "PATCH", core + "pods/stored", finalize},
		{"CREATE pods/eviction", "POST", core + "pods/stored/eviction", `{"metadata": {"name": "stored"}}`},
		{"DELETE pods", "DELETE", core + "pods/stored", ""},
	},
	"a pod is bound": {{"CREATE pods/binding", "POST", core + "pods/stored/binding", `{"metadata": {"name": "stored"}, "target": {"kind": "Node", "name": "node-1"}}`}},
	"a reservation": {
		{"CREATE reservations", "POST", room, `{"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "new"}, "spec": {"ttl": "1h", 
			"owners": [{"labelSelector": {"matchLabels": {"app": "a"}}}], "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}`},
		{"UPDATE reservations", "PATCH", room + "/stored", `{"spec": {"ttl": "2h"}}`},
		{"CREATE clustercolocationprofiles", "POST", mixed, `{"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
			"metadata": {"name": "new"}, "spec": {"selector": {"matchLabels": {"nobody": "has"}}}}`},
		{"UPDATE clustercolocationprofiles", "PATCH", mixed + "/stored", `{"spec": {"qosClass": "BE"}}`},
		{"CREATE elasticquotaprofiles", "POST", tree, `{"apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
			"metadata": {"name": "new"}, "spec": {"quotaName": "b", "nodeSelector": {"matchLabels": {"a": "b"}}}}`},
		{"UPDATE elasticquotaprofiles", "PATCH", tree + "/stored", `{"spec": {"quotaName": "c"}}`},
	},
	"an elastic quota": {
		{"CREATE elasticquotas", "POST", quota, newQuota},
		{"UPDATE elasticquotas", "PATCH", quota + "/stored", `{"spec": {"max": {"cpu": "5"}}}`},
		{"UPDATE elasticquotas", "PATCH", quota + "/stored", label},
		{"DELETE elasticquotas", "DELETE", quota + "/stored", ""},
	},
	"the SLO ConfigMap": {
		{"CREATE configmaps", "POST", slo, `{"metadata": {"name": "slo-controller-config"}}`},
		{"UPDATE configmaps", "PATCH", slo + "/slo-controller-config", `{"data": {"other": "key"}}`},
		{"DELETE configmaps", "DELETE", slo + "/slo-controller-config", ""},
	},
	"status, finalizers and similar": {
		{"UPDATE elasticquotas", "PATCH", quota + "/stored", finalize},
		{"UPDATE elasticquotas", "PATCH", quota + "/stored", `{"status": {"used": {"cpu": "1"}}}`},
		{"UPDATE reservations", "PATCH", room + "/stored", finalize},
		{"UPDATE clustercolocationprofiles", "PATCH", mixed + "/stored", finalize},
		{"UPDATE configmaps", "PATCH", slo + "/slo-controller-config", finalize},
	},
	"a node or its status": {
		{"UPDATE nodes", "PATCH", "/api/v1/nodes/node-1", label},
		{"UPDATE nodes/status", "PATCH", "/api/v1/nodes/node-1/status", `{"status": {"capacity": {"cpu": "4"}}}`},
	},
}

// TestTable: while usher is away, the API server refuses what the table in docs/operations.md says, and nothing that should
// pass by it; and the table has every request that a webhook with failurePolicy Fail is for.
func TestTable(t *testing.T) {
	ctx := cluster.Within(t, 5*time.Minute)
	printed, err := register(ctx) // as shipped
	if err != nil {
		t.Fatal(err)
	}
	locked := map[string]bool{}
	page := rowsOf(t)
	for start, requests := range table {
		i := slices.IndexFunc(page, func(r [2]string) bool { return strings.HasPrefix(r[0], start) })
		if i < 0 {
			t.Errorf("docs/operations.md has no row that begins with %q", start)
			continue
		}
		refusal := ""
		if strings.HasPrefix(page[i][1], "refused") {
			refusal = away
		}
		page = slices.Delete(page, i, i+1)
		for _, r := range requests {
			locked[r.rule] = locked[r.rule] || refusal != ""
			t.Run(start+"/"+r.rule, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				if err := kubetest.Eventually(ctx, func(ctx context.Context) error {
					err := r.send(ctx)
					return unlike(fmt.Sprint(err), err, refusal)
				}); err != nil {
					t.Errorf("%s %s %s: %v", r.method, r.path, r.body, err)
				}
			})
		}
	}
	for _, row := range page {
		t.Errorf("no request is for the row %q", row[0])
	}
	for _, rule := range slices.Sorted(maps.Keys(failClosed(t, printed))) {
		if !locked[rule] {
			t.Errorf("a webhook with failurePolicy Fail is for %s, and no row that says refused is", rule)
		}
	}
}

// send sends the request as an administrator.
func (r request) send(ctx context.Context) error {
	path, kind := r.path, "application/json"
	if !strings.HasPrefix(r.rule, "CONNECT") {
		path += "?dryRun=All"
	}
	if r.method == "PATCH" {
		kind = kubetest.MergePatch
	}
	var body any
	if r.body != "" {
		body = r.body
	}
	answer, err := cluster.Admin().Do(ctx, r.method, path, kind, body)
	if err != nil {
		return err
	}
	return answer.Err()
}

// rowsOf returns the rows of the table in docs/operations.md.
func rowsOf(t *testing.T) (rows [][2]string) {
	t.Helper()
	text, err := kubetest.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = strings.Cut(text, "| request | while usher is unavailable |\n|---|---|\n")
	text, _, found := strings.Cut(text, "\n\n")
	if !found {
		t.Fatal("docs/operations.md has no table of requests")
	}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		rows = append(rows, [2]string{cells[0], cells[1]})
	}
	return rows
}

// failClosed returns what the rules of webhooks with failurePolicy Fail are for, such as UPDATE pods, without what does not
// occur: connections to anything but some subresources of pods, and all else to those.
func failClosed(t *testing.T, configurations []string) map[string]bool {
	t.Helper()
	connected := []string{"pods/exec", "pods/attach", "pods/portforward"}
	all := map[string]bool{}
	for text := range strings.SplitSeq(strings.Join(configurations, "\n---\n"), "\n---\n") {
		var o kubetest.Object
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		for _, webhook := range o.List("webhooks") {
			if webhook.String("failurePolicy") != "Fail" {
				continue
			}
			for _, rule := range webhook.List("rules") {
				for _, operation := range rule.At("operations").([]any) {
					for _, resource := range rule.At("resources").([]any) {
						name, connect := resource.(string), operation == "CONNECT"
						update := strings.Contains(name, "/") && !slices.Contains(connected, name)
						if connect == slices.Contains(connected, name) && (!update || operation == "UPDATE") {
							all[fmt.Sprint(operation, " ", name)] = true
						}
					}
				}
			}
		}
	}
	if len(all) < 30 {
		t.Fatalf("the rules are not read: %v", all)
	}
	return all
}
