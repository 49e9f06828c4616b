package review

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/internal/cli"
)

// inCluster are the lists and objects of a cluster: by their paths.
var inCluster = map[string]string{
	"/api/v1/namespaces/shop":                    `{"metadata":{"name":"shop","labels":{"team":"web"}}}`,
	"/api/v1/namespaces/shop/limitranges":        `{"metadata":{"name":"l","namespace":"shop"},"spec":{"limits":[{"type":"Container","max":{"cpu":"2"}}]}}`,
	"/api/v1/namespaces/shop/resourcequotas":     `{"metadata":{"name":"q","namespace":"shop"},"spec":{"hard":{"services":"0","count/replicasets.apps":"1"}},"status":{"hard":{"services":"0","count/replicasets.apps":"1"},"used":{"services":"0","count/replicasets.apps":"1"}}}`,
	"/apis/scheduling.k8s.io/v1/priorityclasses": `{"metadata":{"name":"urgent"},"value":7}`,
	"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": `{"metadata":{"name":"p"},"spec":{"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["secrets"]}]},
		"validations":[{"expression":"object.metadata.name == params.data.name"}]}}`,
	"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": `{"metadata":{"name":"p"},"spec":{"policyName":"p","validationActions":["Deny"],"paramRef":{"name":"p","namespace":"shop","parameterNotFoundAction":"Deny"}}}`,
	"/api/v1/namespaces/shop/configmaps":                                      `{"metadata":{"name":"p","namespace":"shop"},"data":{"name":"right"}}`,
	"/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas": `{"metadata":{"name":"shop","namespace":"shop","managedFields":[{"manager":"usher","subresource":"status","time":"2026-11-27T13:00:00Z"}]},
		"spec":{"max":{"cpu":"8"}},"status":{"used":{"cpu":"6"},"reserved":{"cpu":"1"},"limit":{"cpu":"8"},"binds":{"cpu":"shop"}}}`,
	"/apis/discovery.k8s.io/v1/namespaces/usher/endpointslices": `{"metadata":{"name":"a","labels":{"kubernetes.io/service-name":"usher"}},"endpoints":[{"targetRef":{"kind":"Pod","name":"usher-0"}}]}`,
	"/api/v1/namespaces/usher/pods/usher-0:8081/proxy/metrics":  "\nusher_build_info{version=\"0.9\"} 1\nusher_step_info{mode=\"warn\",route=\"/validate-pods\",step=\"denied-names\"} 1\n",
	"/api/v1": `{"name":"configmaps","kind":"ConfigMap","namespaced":true},{"name":"pods","kind":"Pod","namespaced":true},
		{"name":"services","kind":"Service","namespaced":true},{"name":"secrets","kind":"Secret","namespaced":true}`,
	"/apis/apiextensions.k8s.io/v1": `{"name":"customresourcedefinitions","kind":"CustomResourceDefinition"}`,
	"/api/v1/pods":                  "",
	"/apis/apps/v1":                 `{"name":"deployments","kind":"Deployment","namespaced":true}`,
}

// clusterOf serves the cluster to a user who may not read paths that end in some of the words.
func clusterOf(t *testing.T, forbidden ...string) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		refuse := func(code int, reason string) {
			w.WriteHeader(code)
			_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"user bob cannot list it"}`, reason, code)
		}
		object, has := inCluster[r.URL.Path]
		_, lists := inCluster[strings.Replace(r.URL.Path, "/namespaces/shop", "", 1)]
		for _, word := range forbidden {
			if strings.HasSuffix(r.URL.Path, word) {
				refuse(http.StatusForbidden, "Forbidden")
				return
			}
		}
		switch {
		case !has && !lists:
			refuse(http.StatusNotFound, "NotFound")
		case strings.HasPrefix(object, `{"metadata":`) && path.Base(r.URL.Path) == objectOf([]byte(object)).GetName():
			_, _ = fmt.Fprint(w, object)
		case strings.HasPrefix(object, `{"name":`):
			_, _ = fmt.Fprintf(w, `{"kind":"APIResourceList","resources":[%s]}`, object)
		default:
			_, _ = fmt.Fprintf(w, `{"kind":"List","apiVersion":"v1","items":[%s]}`, object)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}]}", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// TestCluster: with --cluster=api what decides is what the cluster has, and nothing is allowed of which a part could not be read.
func TestCluster(t *testing.T) {
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: %s}, spec: {%s containers: [{name: a, image: b, resources: {limits: {cpu: %s}}}]}}`
	const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: shop}, spec: {replicas: 2, selector: {matchLabels: {a: b}},
		template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b, resources: {limits: {cpu: 500m, memory: 1Gi}}}]}}}}`
	for name, c := range map[string]struct {
		manifest  string
		forbidden []string
		want      []string
	}{
		"LimitRange":       {fmt.Sprintf(pod, "shop", "", "3"), nil, []string{"invalid  CREATE Pod shop/a", "maximum cpu usage per Container is 2"}},
		"PriorityClass":    {fmt.Sprintf(pod, "shop", "priorityClassName: urgent,", "1"), nil, []string{"1 object: 1 ", "no registered webhook of usher is called for it"}},
		"no PriorityClass": {fmt.Sprintf(pod, "shop", "priorityClassName: other,", "1"), nil, []string{"no PriorityClass with name other was found"}},
		"no Namespace":     {fmt.Sprintf(pod, "absent", "", "1"), nil, []string{`namespaces "absent" not found`}},
		"no such kind":     {"{apiVersion: e.example/v1, kind: Widget, metadata: {name: a}}", nil, []string{`no matches for kind "Widget" in version "e.example/v1"`, "1 object: 1 invalid"}},
		"a new kind": {`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.e.example}, spec: {group: e.example, scope: Cluster, names: {plural: widgets, kind: Widget},
			versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}` + "\n---\n{apiVersion: e.example/v1, kind: Widget, metadata: {name: a}}", nil, []string{"2 objects: 2 skipped"}},
		"ResourceQuota":     {"{apiVersion: v1, kind: Service, metadata: {name: a, namespace: shop}, spec: {ports: [{port: 80}]}}", nil, []string{"exceeded quota: q"}},
		"parameters":        {"{apiVersion: v1, kind: Secret, metadata: {name: wrong, namespace: shop}}", nil, []string{"failed expression: object.metadata.name == params.data.name"}},
		"parameters match":  {"{apiVersion: v1, kind: Secret, metadata: {name: right, namespace: shop}}", nil, []string{"1 object: 1 skipped"}},
		"unknown field":     {"{apiVersion: v1, kind: Secret, metadata: {name: right, namespace: shop}, dta: {a: b}}", nil, []string{"1 object: 1 not judged", `unknown field "dta"`}},
		"LimitRange unread": {fmt.Sprintf(pod, "shop", "", "3"), []string{"limitranges"}, []string{"not judged  CREATE Pod shop/a", "warning: not known: limitranges", "user bob cannot list it"}},
		"unread, of others": {"{apiVersion: v1, kind: Secret, metadata: {name: right, namespace: shop}}", []string{"priorityclasses"}, []string{"1 object: 1 skipped"}},
		"webhooks unread":   {"{apiVersion: v1, kind: Secret, metadata: {name: right, namespace: shop}}", []string{"mutatingwebhookconfigurations"}, []string{"1 object: 1 not judged"}},
		"elastic quota":     {fmt.Sprintf(pod, "shop", "", "1"), nil, []string{"shop: 1 pods of Pod a would take cpu 1, 1 is left: fits: yes: shop (spec.max)"}},
		"of a Deployment":   {deployment, nil, []string{"shop: 2 pods of Deployment a would take cpu 1, 1 is left: fits: yes: shop (spec.max)"}},
		"for a tenant":      {deployment, []string{"shop", "ranges", "resourcequotas", "accounts", "classes", "configurations", "policies", "bindings", "definitions", "pods"}, []string{"1 not judged", "fits: yes: shop (spec.max)"}},
		"without memory":    {fmt.Sprintf(pod, "shop", "", "1"), []string{"limitranges"}, []string{"whether the pods of Pod a fit is not known: requests that it lacks may be set by what could not be read"}},
		"stored unread":     {deployment, []string{"deployments/a"}, []string{"1 not judged", "not judged: whether it is stored: deployments shop/a may not be read"}},
		"a kind unread":     {deployment, []string{"/apps/v1"}, []string{"1 not judged", "not judged: whether it is stored: /apis/apps/v1 may not be read"}},
		"steps of usher":    {fmt.Sprintf(pod, "shop", "", "1"), nil, []string{"warning: usher in the cluster is 0.9, and this usherctl is ", "; usher-0 lacks ", "in mode warn instead of enforce"}},
		"steps unread":      {fmt.Sprintf(pod, "shop", "", "1"), []string{"/metrics"}, []string{"warning: the steps of the running usher are not known: pods/proxy in namespace usher may not be read"}},
		"a full one":        {fmt.Sprintf(pod, "shop", "", "2"), nil, []string{"quota-full: shop", "1 pods of Pod a do not fit"}},
	} {
		t.Run(name, func(t *testing.T) {
			said, err := reviewOf(t, c.manifest, "--kubeconfig", clusterOf(t, c.forbidden...))
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("%q is not in %v:\n%s", want, err, said)
				}
			}
		})
	}
}

// TestAssumedPolicy: a registered route that the assumed policy does not use proves that usher has another one. --config settles it.
func TestAssumedPolicy(t *testing.T) {
	const hook = `{"name":"%[1]s.usher.dev","clientConfig":{"url":"https://192.0.2.1/%[1]s"},"sideEffects":"None","admissionReviewVersions":["v1"],
		"rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["CREATE"],"resources":[%[2]q]}]}`
	const list = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}, spec: {containers: [{name: a, image: b, resources: {limits: {cpu: 1}}}]}}`
	const secret, few = "{apiVersion: v1, kind: Secret, metadata: {name: right, namespace: shop}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}}"
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("rules: [{name: never, match: {apiGroups: [''], resources: [secrets], operations: [CREATE]}, validations: [{expression: 'false', message: never}]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	mutating := strings.Replace(list, "validating", "mutating", 1)
	inCluster[mutating] = ""
	t.Cleanup(func() { delete(inCluster, list); delete(inCluster, mutating) })
	pods, rules := fmt.Sprintf(hook, "validate-pods", "pods"), fmt.Sprintf(hook, "validate-rules", "secrets")
	for _, c := range []struct{ name, hooks, manifest, flag, want string }{
		{"called", pods + "," + rules, secret, "", "1 object: 1 not judged"},
		{"of another kind", pods + "," + rules, pod, "", "1 object: 1 not judged"},
		{"used", pods, pod, "", "1 object: 1 allowed"},
		{"not for it", rules, few, "", "1 object: 1 skipped"},
		{"with a policy", rules, secret, "--config=" + policy, "1 object: 1 denied"},
	} {
		inCluster[list] = `{"metadata":{"name":"usher"},"webhooks":[` + c.hooks + `]}`
		flags := strings.Fields(c.flag + " --suite=core --kubeconfig " + clusterOf(t))
		said, err := reviewOf(t, c.manifest, flags...)
		unknown := strings.Contains(c.want, "not judged")
		if !strings.Contains(said, c.want) || strings.Contains(said, "usher webhooks apply") || strings.Contains(said, "validate-rules is registered") != unknown ||
			unknown && (err == nil || errors.Is(err, cli.ErrDenied)) {
			t.Errorf("%s: %v, want %q:\n%s", c.name, err, c.want, said)
		}
	}
}
