package webhookmatch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/usherctl/webhookmatch"
)

// asked is the question of a table's row: a request, in words, and a webhook, in YAML.
type asked struct {
	operation, resource, sub string // resource as group/version/resource
	namespace                string
	object, old              string // JSON
	change                   func(*webhookmatch.Request)
}

func (a asked) request() webhookmatch.Request {
	parts := strings.Split(a.resource, "/")
	kinds := map[string]string{"pods": "Pod", "nodes": "Node", "namespaces": "Namespace", "deployments": "Deployment", "configmaps": "ConfigMap",
		"validatingwebhookconfigurations": "ValidatingWebhookConfiguration", "tokenreviews": "TokenReview", "widgets": "Widget"}
	kind := metav1.GroupVersionKind{Group: parts[0], Version: parts[1], Kind: kinds[parts[2]]}
	resource := metav1.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	r := webhookmatch.Request{AdmissionRequest: &admissionv1.AdmissionRequest{
		Kind: kind, Resource: resource, SubResource: a.sub, RequestKind: &kind, RequestResource: &resource, RequestSubResource: a.sub,
		Name: "x", Namespace: a.namespace, Operation: admissionv1.Operation(a.operation),
		Object: runtime.RawExtension{Raw: []byte(a.object)}, OldObject: runtime.RawExtension{Raw: []byte(a.old)},
	}}
	r.UserInfo.Username, r.UserInfo.Groups = "ann", []string{"system:authenticated"}
	r.InNamespace = webhookmatch.Namespace{Labels: map[string]string{"team": "web"}}
	if strings.Contains(a.object, "generateName") {
		r.Name = ""
	}
	if a.change != nil {
		a.change(&r)
	}
	return r
}

func hook(t testing.TB, text string) webhookmatch.Hook {
	t.Helper()
	var w registration.ValidatingWebhook
	if err := yaml.UnmarshalStrict([]byte(text), &w); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return webhookmatch.Hook{Configuration: "c", ValidatingWebhook: w}
}

const (
	onPods   = "rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]\n"
	onAll    = "rules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*/*']}]\n"
	labelled = `{"metadata":{"labels":{"app":"web"}}}`
)

func rule(resources string) string {
	return "rules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: [" + resources + "]}]\n"
}

// TestFacts: what the API server does, filter by filter.
func TestFacts(t *testing.T) {
	pod := asked{operation: "CREATE", resource: "/v1/pods", namespace: "shop", object: labelled}
	with := func(change func(*asked)) asked { a := pod; change(&a); return a }
	status := with(func(a *asked) { a.operation, a.sub, a.old = "UPDATE", "status", labelled })
	node := asked{operation: "UPDATE", resource: "/v1/nodes", object: labelled, old: labelled}
	space := asked{operation: "CREATE", resource: "/v1/namespaces", namespace: "x", object: `{"metadata":{"labels":{"team":"api"}}}`}
	dry := with(func(a *asked) { a.change = func(r *webhookmatch.Request) { yes := true; r.DryRun = &yes } })
	nowhere := with(func(a *asked) {
		a.change = func(r *webhookmatch.Request) { r.InNamespace = webhookmatch.Namespace{Err: errors.New("gone")} }
	})
	widget := asked{operation: "CREATE", resource: "example.com/v2/widgets", namespace: "shop", object: `{"metadata":{"labels":{}},"spec":{"size":1}}`,
		change: func(r *webhookmatch.Request) {
			of := schema.GroupVersion{Group: "example.com", Version: "v1"}
			r.Equivalents = []webhookmatch.Equivalent{{Resource: of.WithResource("widgets"), Kind: of.WithKind("Widget"), SameFields: true}}
		}}
	const onWidgets = "rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [widgets]}]\n"
	for _, c := range []struct {
		name   string
		asked  asked
		hook   string
		filter string // "" for called
		why    string
	}{
		{"a rule for pods", pod, onPods, "", ""},
		{"no rule", pod, "{}", "rules", "there are none"},
		{"another resource", node, onPods, "rules", "are for [pods], not for nodes"},
		{"another operation", with(func(a *asked) { a.operation = "DELETE" }), onPods, "rules",
			"rules[0].operations is [CREATE], which does not contain DELETE"},
		{"another group", with(func(a *asked) { a.resource = "apps/v1/pods" }), onPods, "rules",
			`rules[0].apiGroups is [""], which does not contain "apps"`},
		{"another version", with(func(a *asked) { a.resource = "/v2/pods" }), onPods, "rules", "rules[0].apiVersions is [v1], which does not contain v2"},
		{"pods is no subresource", status, rule("pods"), "rules",
			"rules[0].resources is [pods], which does not contain pods/status; a resource does not include its subresources, pods/* does"},
		{"* is no subresource", status, rule("'*'"), "rules",
			"rules[0].resources is [*], which does not contain pods/status; a resource does not include its subresources, pods/* does"},
		{"pods/* is a subresource", status, rule("pods/*"), "", ""},
		{"pods/* is a pod", pod, rule("pods/*"), "", ""},
		{"*/* is everything", status, rule("'*/*'"), "", ""},
		{"*/status", status, rule("'*/status'"), "", ""},
		{"*/scale is no status", status, rule("'*/scale'"), "rules", "rules[0].resources is [*/scale], which does not contain pods/status"},
		{"a subresource only", pod, rule("pods/status"), "rules", "rules[0].resources is [pods/status], which does not contain pods"},
		{"scope Cluster", pod, strings.Replace(onPods, "[pods]", "[pods], scope: Cluster", 1), "scope",
			"rules[0].scope is Cluster, and pods are in namespaces; use Namespaced or *"},
		{"scope Namespaced", node, strings.Replace(rule("nodes"), "[nodes]", "[nodes], scope: Namespaced", 1), "scope",
			"rules[0].scope is Namespaced, and nodes are not in a namespace; use Cluster or *"},
		{"a Namespace is cluster-scoped", space, strings.Replace(rule("namespaces"), "[namespaces]", "[namespaces], scope: Cluster", 1), "", ""},
		{"an equivalent version", widget, onWidgets, "", ""},
		{"an equivalent version, and Exact", widget, onWidgets + "matchPolicy: Exact", "matchPolicy",
			"is Exact, and the rules are for example.com/v1 widgets, which has the same objects, but not for example.com/v2 widgets; use Equivalent"},
		{"equivalents are not known", with(func(a *asked) {
			a.resource = "/v2/pods"
			a.change = func(r *webhookmatch.Request) { r.EquivalentsErr = errors.New("forbidden") }
		}), onPods, "unknown", "forbidden"},

		{"namespaceSelector", pod, onAll + "namespaceSelector: {matchLabels: {team: web}}", "", ""},
		{"the label is missing", pod, onAll + "namespaceSelector: {matchLabels: {admission-webhook: enabled}}", "namespaceSelector",
			"asks for the label admission-webhook: enabled, which namespace shop does not have"},
		{"the label has another value", pod, onAll + "namespaceSelector: {matchLabels: {team: api}}", "namespaceSelector",
			"asks for the label team: api, and namespace shop has team: web"},
		{"left out by name", pod, onAll + "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: " +
			"[kube-system, shop]}]}",
			"namespaceSelector", "leaves out namespace shop"},
		{"a node has no namespace", node, onAll + "namespaceSelector: {matchLabels: {team: api}}", "", ""},
		{"a Namespace by its own labels", space, onAll + "namespaceSelector: {matchLabels: {team: api}}", "", ""},
		{"an unknown namespace", nowhere, onAll + "namespaceSelector: {matchLabels: {team: web}}", "unknown", "gone"},
		{"an unknown namespace, not asked for", nowhere, onAll, "", ""},
		{"an unknown namespace, by name", nowhere, onAll +
			"namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}", "", ""},
		{"an unknown namespace and no rule", nowhere, "namespaceSelector: {matchLabels: {team: web}}", "rules", ""},

		{"objectSelector", pod, onAll + "objectSelector: {matchLabels: {app: web}}", "", ""},
		{"objectSelector misses", pod, onAll + "objectSelector: {matchExpressions: [{key: x, operator: Exists}]}", "objectSelector",
			"asks for the label x, which the object does not have"},
		{"both selectors miss", pod, onAll + "objectSelector: {matchLabels: {app: api}}\nnamespaceSelector: {matchLabels: {team: api}}",
			"namespaceSelector",
			"and objectSelector: asks for the label app: api, and the object has app: web"},
		{"the old object matches", asked{operation: "UPDATE", resource: "/v1/pods", namespace: "shop", object: `{"metadata":{}}`, old: labelled},
			onAll + "objectSelector: {matchLabels: {app: web}}", "", ""},
		{"neither the old object nor the new one", asked{operation: "UPDATE", resource: "/v1/pods", namespace: "shop", object: `{"metadata":{}}`,
			old: labelled},
			onAll + "objectSelector: {matchLabels: {app: api}}", "objectSelector",
			"asks for the label app: api, which the new object does not have; the old one does not match either"},
		{"a label that is left out", pod, onAll + "objectSelector: {matchExpressions: [{key: app, operator: NotIn, values: [web]}]}", "objectSelector",
			"leaves out app: web, which the object has"},
		{"the deleted object matches", asked{operation: "DELETE", resource: "/v1/pods", namespace: "shop", old: labelled},
			onAll + "objectSelector: {matchLabels: {app: web}}", "", ""},
		{"options have no labels", asked{operation: "CONNECT", resource: "/v1/pods", sub: "exec", namespace: "shop", object: labelled},
			onAll + "objectSelector: {matchExpressions: [{key: x, operator: DoesNotExist}]}", "objectSelector",
			"the object of a CONNECT request has no labels"},

		{"a condition", pod, onAll + `matchConditions: [{name: a, expression: 'request.userInfo.username == "ann"'}]`, "", ""},
		{"a false condition", pod, onAll + `matchConditions: [{name: a, expression: 'object.metadata.labels.app != "web"'}]`, "matchConditions",
			`a is false: object.metadata.labels.app != "web"`},
		{"false wins over an error", pod, onAll + `matchConditions: [{name: a, expression: 'object.metadata.nothing == "x"'}, {name: b, expression: ` +
			`'false'}]`,
			"matchConditions", "b is false: false"},
		{"an error, and Fail", pod, onAll + `matchConditions: [{name: a, expression: 'object.metadata.nothing == "x"'}]`, "matchConditions",
			"no such key: nothing; failurePolicy is Fail, so the API server refuses the request"},
		{"an error, and Ignore", pod, onAll + "failurePolicy: Ignore\n" + `matchConditions: [{name: a, expression: 'object.metadata.nothing == "x"'}]`,
			"matchConditions", "failurePolicy is Ignore, so the webhook is skipped"},
		{"no old object", pod, onAll + `matchConditions: [{name: a, expression: 'oldObject == null'}]`, "", ""},
		{"an authorizer that is not known", pod, onAll +
			`matchConditions: [{name: a, expression: 'authorizer.group("").resource("pods").check("get").allowed()'}]`,
			"unknown", "--cluster=api"},
		{"an authorizer that is not asked", pod, onAll + `matchConditions: [{name: a, expression: 'true || authorizer.path("/x").check("get").allowed()'}]`,
			"", ""},
		{"false wins over what is not known", pod, onAll +
			`matchConditions: [{name: a, expression: 'authorizer.path("/x").check("get").allowed()'}, {name: b, expression: 'false'}]`,
			"matchConditions", "b is false"},
		{"an authorizer", with(func(a *asked) {
			a.change = func(r *webhookmatch.Request) {
				r.Authorize = func(_ context.Context, what authorizer.Attributes) (bool, string, error) {
					return what.GetVerb() == "get", "", nil
				}
			}
		}), onAll + `matchConditions: [{name: a, expression: 'authorizer.path("/x").check("get").allowed() && ` +
			`!authorizer.path("/x").check("put").allowed()'}]`, "", ""},
		{"the object in the other version", widget, onWidgets +
			`matchConditions: [{name: a, expression: 'object.apiVersion == "example.com/v1" && object.spec.size == 1'}]`, "", ""},
		{"the budget", pod, onAll + `matchConditions: [{name: a, expression: '[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, ` +
			`[1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a+b+c+d+e+f > 0))))))'}]`,
			"matchConditions", "the API server refuses the request"},

		{"webhooks are not asked about webhooks", asked{operation: "UPDATE", resource: "admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
			object: labelled, old: labelled},
			onAll, "exempt", "calls no webhook for a ValidatingWebhookConfiguration"},
		{"nor about tokens", asked{operation: "CREATE", resource: "authentication.k8s.io/v1/tokenreviews", object: labelled}, onAll, "exempt",
			"since Kubernetes 1.37"},
		{"as before 1.37", asked{operation: "CREATE", resource: "authentication.k8s.io/v1/tokenreviews", object: labelled,
			change: func(r *webhookmatch.Request) { r.SendsVirtualResources = true }}, onAll, "", ""},
		{"a dry run", dry, onAll + "sideEffects: NoneOnDryRun", "", ""},
		{"a dry run with side effects", dry, onAll + "sideEffects: Some", "sideEffects", "the API server refuses the dry run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := hook(t, c.hook)
			v := new(webhookmatch.Matcher).One(t.Context(), c.asked.request(), h)
			if v.Called != (c.filter == "") || v.Filter != c.filter || !strings.Contains(v.Why, c.why) {
				t.Errorf("called %t, filter %q, why %q", v.Called, v.Filter, v.Why)
			}
		})
	}
}

// TestOneRefusesForAll: a webhook that cannot be asked as it should keeps the request from those after it.
func TestOneRefusesForAll(t *testing.T) {
	failing := hook(t, onAll+`matchConditions: [{name: a, expression: 'object.metadata.nothing == "x"'}]`)
	fine := hook(t, onAll)
	mutating := func(h webhookmatch.Hook) webhookmatch.Hook { h.Mutating = true; return h }
	unsure := hook(t, onAll+`matchConditions: [{name: a, expression: 'object.spec.restartPolicy == "Always"'}]`)
	pod := asked{operation: "CREATE", resource: "/v1/pods", namespace: "shop", object: labelled,
		change: func(r *webhookmatch.Request) { r.Bare = true }}
	for _, c := range []struct {
		name  string
		hooks []webhookmatch.Hook
		want  string
	}{
		{"mutating", []webhookmatch.Hook{mutating(fine), mutating(failing), mutating(fine), fine}, "called matchConditions refused refused"},
		{"validating", []webhookmatch.Hook{mutating(fine), fine, failing, fine}, "called refused matchConditions refused"},
		{"perhaps", []webhookmatch.Hook{mutating(unsure), fine}, "unknown unknown"},
		{"what is not called anyway", []webhookmatch.Hook{mutating(failing), hook(t, "{}")}, "matchConditions rules"},
	} {
		var got []string
		for _, v := range new(webhookmatch.Matcher).Of(t.Context(), pod.request(), pod.request(), c.hooks) {
			if v.Called {
				v.Filter = "called"
			}
			got = append(got, v.Filter)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

// TestCompare: configurations in files of the API server come before others, then they are by name.
func TestCompare(t *testing.T) {
	configurations := []string{"b", "a", "z.static.k8s.io", "y.static.k8s.io"}
	slices.SortFunc(configurations, webhookmatch.Compare)
	if got := strings.Join(configurations, " "); got != "y.static.k8s.io z.static.k8s.io a b" {
		t.Errorf("order %s", got)
	}
}

// TestOnDisk: only webhooks in files of the API server are called for webhook configurations, and they neither for tokens.
func TestOnDisk(t *testing.T) {
	for resource, want := range map[string][2]string{
		"admissionregistration.k8s.io/v1/validatingwebhookconfigurations": {"exempt", ""},
		"authentication.k8s.io/v1/tokenreviews":                           {"exempt", "exempt"},
	} {
		for i, configuration := range []string{"c", "c.static.k8s.io"} {
			h := hook(t, onAll)
			h.Configuration = configuration
			request := asked{operation: "CREATE", resource: resource, object: labelled}.request()
			if v := new(webhookmatch.Matcher).One(t.Context(), request, h); v.Filter != want[i] || v.Called != (want[i] == "") {
				t.Errorf("%s, %s: %+v", resource, configuration, v)
			}
		}
	}
}
