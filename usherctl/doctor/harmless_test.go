package doctor

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/test/seed"
	"usher.dev/usher/usherctl/doctor/connectivity"
	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/webhookmatch"
)

// shapes are webhooks as well-known projects ship them: kind, configuration, webhook, namespace and Service, failurePolicy, rules (operations, group,
// resources), and more fields.
var shapes = [][]string{
	{mutatingKind, "sidecar-injector", "object.sidecar.istio.example", "istio-system", "Fail", "CREATE", "", "pods", `namespaceSelector: {matchExpressions: [{key: istio-injection, operator: DoesNotExist}]}`},
	{validatingKind, "config-validator", "config.istio.example", "istio-system", "Ignore", "CREATE UPDATE", "networking.istio.example", "*", ``},
	{mutatingKind, "certs", "webhook.certs.example", "cert-manager", "Fail", "CREATE UPDATE", "certs.example", "certificaterequests issuers/status", `matchPolicy: Equivalent`},
	{validatingKind, "certs", "webhook.certs.example", "cert-manager", "Fail", "CREATE UPDATE", "certs.example", "*/*",
		`namespaceSelector: {matchExpressions: [{key: certs.example/disable, operator: NotIn, values: ["true"]}]}`},
	{validatingKind, "kyverno-resource", "validate.kyverno.example-fail", "kyverno", "Fail", "CREATE UPDATE DELETE CONNECT", "*", "*/*",
		`namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kyverno]}]}`},
	{mutatingKind, "kyverno-resource", "mutate.kyverno.example-ignore", "kyverno", "Ignore", "CREATE UPDATE", "", "pods pods/ephemeralcontainers configmaps", ``},
	{validatingKind, "gatekeeper", "validation.gatekeeper.example", "gatekeeper-system", "Ignore", "CREATE UPDATE", "*", "* pods/ephemeralcontainers pods/exec services/status",
		`matchConditions: [{name: not-leases, expression: "request.resource.group != 'coordination.k8s.io'"}]`},
	{validatingKind, "gatekeeper", "check-ignore-label.gatekeeper.sh", "gatekeeper-system", "Fail", "CREATE UPDATE", "", "namespaces", ``},
	{mutatingKind, "linkerd-injector", "proxy-injector.linkerd.example", "linkerd", "Ignore", "CREATE", "", "pods services",
		`namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, cert-manager]}]}`},
	{validatingKind, "linkerd-policy", "policy.linkerd.example", "linkerd", "Fail", "CREATE UPDATE", "apps", "deployments replicasets", ``},
	{mutatingKind, "kueue", "mpod.kueue.example", "kueue-system", "Fail", "CREATE", "", "pods",
		`{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kueue-system]}]}, reinvocationPolicy: IfNeeded}`},
	{validatingKind, "kueue", "vjob.kueue.example", "kueue-system", "Fail", "CREATE UPDATE", "batch", "jobs", ``},
	{mutatingKind, "volcano-pods", "mutatepod.volcano.example", "volcano-system", "Fail", "CREATE", "", "pods", `objectSelector: {matchExpressions: [{key: volcano, operator: NotIn, values: ["off"]}]}`},
	{validatingKind, "knative-config", "config.webhook.serving.knative.example", "knative-serving", "Fail", "UPDATE", "", "configmaps", `objectSelector: {matchLabels: {app: knative}}`},
	{mutatingKind, "aws-lb", "mpod.elbv2.aws.example", "kube-system", "Fail", "CREATE", "", "pods", `namespaceSelector: {matchLabels: {elbv2: enabled}}`},
	{mutatingKind, "aws-identity", "iam.aws.example", "kube-system", "Ignore", "CREATE", "", "pods", ``},
	{mutatingKind, "azure-identity", "mutation.azure-identity.example", "kube-system", "Fail", "CREATE", "", "pods secrets serviceaccounts/token", `objectSelector: {matchLabels: {identity: use}}`},
	{mutatingKind, "datadog", "lib.datadog.example", "default", "Ignore", "CREATE", "", "pods", `objectSelector: {matchLabels: {datadog: enabled}}`},
	{validatingKind, "leases", "leases.example", "kyverno", "Fail", "CREATE UPDATE", "coordination.k8s.io", "leases", ``},
	{validatingKind, "nodes", "nodes.example", "shop", "Fail", "CREATE UPDATE", "", "nodes nodes/status", `namespaceSelector: {matchLabels: {a: b}}`},
}

// spaces are the namespaces of the cluster.
var spaces = []string{"default", "kube-system", "kube-node-lease", "istio-system", "cert-manager", "kyverno", "gatekeeper-system", "linkerd", "kueue-system",
	"volcano-system", "knative-serving", "shop"}

// shaped returns a configuration with a webhook of a shape.
func shaped(t *testing.T, of []string) *unstructured.Unstructured {
	t.Helper()
	w := registration.MutatingWebhook{Name: of[2], FailurePolicy: new(registration.FailurePolicyType(of[4])), SideEffects: new(registration.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(3)),
		ClientConfig: registration.WebhookClientConfig{Service: &registration.ServiceReference{Namespace: of[3], Name: "webhook", Path: new("/" + of[1]), Port: new(int32(443))}}}
	rule := registration.RuleWithOperations{Rule: registration.Rule{APIGroups: []string{of[6]}, APIVersions: []string{"*"}, Resources: strings.Fields(of[7])}}
	for operation := range strings.FieldsSeq(of[5]) {
		rule.Operations = append(rule.Operations, registration.OperationType(operation))
	}
	w.Rules = []registration.RuleWithOperations{rule}
	if err := yaml.Unmarshal([]byte(of[8]), &w); err != nil {
		t.Fatal(err)
	}
	return objectOf(registrationGroup+"/v1", of[0], &registration.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: of[1],
		Annotations: map[string]string{"cert-manager.io/inject-ca-from": of[3] + "/webhook"}}, Webhooks: []registration.MutatingWebhook{w}})
}

// mutated changes what is in a webhook, as people do.
func mutated(random *rand.Rand, w map[string]any) {
	set := func(text string, path ...string) {
		var value any
		_ = yaml.Unmarshal([]byte(text), &value)
		_ = unstructured.SetNestedField(w, value, path...)
	}
	rule := w["rules"].([]any)[0].(map[string]any)
	for range random.IntN(4) {
		switch random.IntN(9) {
		case 0:
			set(pick(random, "Fail", "Ignore"), "failurePolicy")
		case 1:
			set(pick(random, "{}", "{matchLabels: {a: b}}", "{matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, shop]}]}",
				"{matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [kube-system, shop]}]}"), "namespaceSelector")
		case 2:
			set(pick(random, "{}", "{matchLabels: {a: b}}", "{matchExpressions: [{key: a, operator: Exists}]}"), "objectSelector")
		case 3:
			rule["resources"] = []any{pick(random, "*", "*/*", "pods", "pods/*", "leases", "secrets", "nodes", "clusterroles", "deployments")}
		case 4:
			rule["apiGroups"] = []any{pick(random, "", "*", "apps", "coordination.k8s.io", "rbac.authorization.k8s.io")}
		case 5:
			rule["operations"] = []any{pick(random, "*", "CREATE", "UPDATE")}
		case 6:
			rule["scope"] = pick(random, "*", "Cluster", "Namespaced")
		case 7:
			set(pick(random, "Exact", "Equivalent"), "matchPolicy")
		default:
			set(pick(random, `[{name: not-essential, expression: "request.operation != 'DELETE'"}]`, `[{name: x, expression: "request.userInfo.username != 'ann'"}]`,
				`[{name: x, expression: "!(request.namespace in ['kube-system'])"}]`, `[{name: x, expression: "object.metadata.name != 'x'"}]`), "matchConditions")
		}
	}
}

// randomConfigurations returns configurations with webhooks of the shapes, some of them in one configuration, and some twice.
func randomConfigurations(t *testing.T, random *rand.Rand) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, i := range random.Perm(len(shapes))[:1+random.IntN(4)] {
		c := shaped(t, shapes[i])
		hooks := c.Object["webhooks"].([]any)
		mutated(random, hooks[0].(map[string]any))
		for n := range random.IntN(3) {
			more := runtime.DeepCopyJSONValue(hooks[0]).(map[string]any)
			if more["name"] = fmt.Sprintf("w%d.example.com", n); random.IntN(2) == 0 {
				mutated(random, more)
			}
			hooks = append(hooks, more)
		}
		random.Shuffle(len(hooks), func(a, b int) { hooks[a], hooks[b] = hooks[b], hooks[a] })
		c.Object["webhooks"] = hooks
		if !slices.ContainsFunc(all, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == c.GetKind() && o.GetName() == c.GetName()
		}) {
			if all = append(all, c); random.IntN(3) == 0 {
				twin := c.DeepCopy()
				twin.SetName(pick(random, "a-", "z-") + c.GetName())
				for _, w := range twin.Object["webhooks"].([]any) {
					w.(map[string]any)["failurePolicy"] = pick(random, "Fail", "Ignore")
				}
				all = append(all, twin)
			}
		}
	}
	return all
}

// foundIn returns what is found in a cluster with some configurations.
func foundIn(t *testing.T, all []*unstructured.Unstructured) (found []report.Finding) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, object any) {
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range all {
		write(fmt.Sprint(i), c)
	}
	for i, name := range spaces {
		port := []int{443, 8443}[i%2] // only the first is called
		write("space-"+name, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
		write("service-"+name, map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "webhook", "namespace": name},
			"spec": map[string]any{"clusterIP": "10.0.0.1", "selector": map[string]any{"app": "webhook"}, "ports": []any{map[string]any{"port": port}}}})
	}
	source, err := reader.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range Examine(t.Context(), source, nil, Usher{}) {
		found = append(found, r.Findings...)
	}
	return found
}

// sampleRequests are the requests for which it is seen which webhooks are called: each in many namespaces, or in none.
func sampleRequests() (all []engine.Request) {
	for _, s := range []struct {
		kind, more   string
		namespaced   bool
		operations   string
		sub, its     string
		user, labels string
	}{
		{`apiVersion: v1, kind: Pod`, `spec: {containers: [{name: a, image: a}]}`, true, "CREATE UPDATE DELETE", "", "", "ann", "{}"},
		{`apiVersion: v1, kind: Pod`, `spec: {containers: [{name: a, image: a}]}`, true, "CREATE", "", "", "bob", "{a: b, app: webhook, k8s-app: kube-dns, identity: use}"},
		{`apiVersion: v1, kind: Pod`, `spec: {containers: [{name: a, image: a}]}`, true, "UPDATE", "status", "", "system:node:n", "{a: b}"},
		{`apiVersion: apps/v1, kind: Deployment`, `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}`, true,
			"CREATE UPDATE", "", "", "ann", "{a: b}"},
		{`apiVersion: v1, kind: Secret`, `data: {}`, true, "CREATE UPDATE", "", "", "ann", "{}"},
		{`apiVersion: v1, kind: ConfigMap`, `data: {}`, true, "CREATE UPDATE DELETE", "", "", "bob", "{app: knative}"},
		{`apiVersion: coordination.k8s.io/v1, kind: Lease`, `spec: {}`, true, "CREATE UPDATE DELETE", "", "", "bob", "{}"},
		{`apiVersion: v1, kind: Service`, `spec: {ports: [{port: 80}]}`, true, "CREATE UPDATE DELETE", "", "", "ann", "{}"},
		{`apiVersion: v1, kind: ServiceAccount`, `secrets: []`, true, "CREATE UPDATE", "", "", "ann", "{a: b}"},
		{`apiVersion: batch/v1, kind: Job`, `spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}`, true, "CREATE DELETE", "", "", "bob", "{}"},
		{`apiVersion: apps/v1, kind: DaemonSet`, `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}`, true,
			"CREATE DELETE", "", "", "ann", "{}"},
		{`apiVersion: apps/v1, kind: ReplicaSet`, `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}`, true,
			"CREATE UPDATE", "", "", "system:serviceaccount:kube-system:replicaset-controller", "{}"},
		{`apiVersion: apps/v1, kind: Deployment`, `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}`, true,
			"UPDATE", "status", "", "bob", "{}"},
		{`apiVersion: networking.k8s.io/v1, kind: NetworkPolicy`, `spec: {podSelector: {}}`, true, "CREATE", "", "", "bob", "{}"},
		{`apiVersion: rbac.authorization.k8s.io/v1, kind: Role`, `rules: []`, true, "CREATE UPDATE", "", "", "ann", "{}"},
		{`apiVersion: policy/v1, kind: PodDisruptionBudget`, `spec: {selector: {}}`, true, "CREATE", "", "", "ann", "{}"},
		{`apiVersion: discovery.k8s.io/v1, kind: EndpointSlice`, `addressType: IPv4, endpoints: []`, true, "CREATE UPDATE", "", "", "bob", "{}"},
		{`apiVersion: v1, kind: Node`, `spec: {}`, false, "CREATE UPDATE DELETE", "", "", "ann", "{a: b}"},
		{`apiVersion: v1, kind: Node`, `status: {}`, false, "UPDATE", "status", "", "system:node:n", "{}"},
		{`apiVersion: v1, kind: PersistentVolume`, `spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /x}}`, false, "CREATE", "", "", "ann", "{}"},
		{`apiVersion: scheduling.k8s.io/v1, kind: PriorityClass`, `value: 1`, false, "CREATE", "", "", "ann", "{}"},
		{`apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole`, `rules: []`, false, "CREATE UPDATE", "", "", "ann", "{}"},
	} {
		spaces := spaces
		if !s.namespaced {
			spaces = []string{""}
		}
		for _, space := range spaces {
			object := fmt.Appendf(nil, "{%s, metadata: {name: x, namespace: %q, labels: %s}, %s}", s.kind, space, s.labels, s.more)
			var header unstructured.Unstructured
			_ = yaml.Unmarshal(object, &header.Object)
			for operation := range strings.FieldsSeq(s.operations) {
				r := engine.Request{Object: object, Namespace: space, SubResource: s.sub, Operation: admissionv1.Operation(operation), User: s.user, Kind: header.GroupVersionKind(), Name: "x"}
				switch operation {
				case "CREATE":
					r.New = true
				case "DELETE":
					r.Object, r.Old = nil, object
				default:
					r.Old = object
				}
				all = append(all, r)
			}
		}
	}
	return all
}

// callsOf returns the webhooks that the API server's code calls for each of the sample requests, as KIND CONFIGURATION, webhook NAME.
func callsOf(t *testing.T, all []*unstructured.Unstructured) (calls []map[string]bool) {
	t.Helper()
	objects := slices.Clone(all)
	for _, name := range spaces {
		objects = append(objects, objectOf("v1", "Namespace", &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	e, err := engine.New(t.Context(), engine.Cluster{Objects: objects})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, r := range sampleRequests() {
		called := map[string]bool{}
		for _, c := range e.Judge(t.Context(), r).Calls {
			kind := validatingKind
			if c.Mutates {
				kind = mutatingKind
			}
			called[kind+" "+c.Configuration+", webhook "+c.Name] = true
		}
		calls = append(calls, called)
	}
	return calls
}

// words splits a command as a shell does, which has nothing but words and single quotes.
func words(command string) (all []string) {
	word, quoted := "", false
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case c == '\'':
			quoted = !quoted
		case c == '\\' && !quoted:
			i++
			word += string(command[i])
		case c == ' ' && !quoted:
			all, word = append(all, word), ""
		default:
			word += string(c)
		}
	}
	return append(all, word)
}

// commands splits commands between && into words.
func commands(text string) (all [][]string) {
	all = [][]string{nil}
	for _, word := range words(text) {
		if last := len(all) - 1; word != "&&" {
			all[last] = append(all[last], word)
		} else {
			all = append(all, nil)
		}
	}
	return all
}

// pasted runs printed commands on configurations.
func pasted(t *testing.T, command string, all []*unstructured.Unstructured) (after []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range all {
		after = append(after, o.DeepCopy())
	}
	for _, w := range commands(command) {
		one := strings.Join(w, " ")
		i := slices.IndexFunc(after, func(o *unstructured.Unstructured) bool {
			return len(w) > 3 && strings.ToLower(o.GetKind()) == w[2] && o.GetName() == w[3]
		})
		switch {
		case i < 0:
			t.Fatalf("nothing to change: %s", one)
		case w[1] == "annotate":
			key, value, _ := strings.Cut(w[4], "=")
			after[i].SetAnnotations(labels.Merge(after[i].GetAnnotations(), labels.Set{key: value}))
		case w[1] == "delete":
			after = slices.Delete(after, i, i+1)
		case w[1] == "patch":
			patch, err := jsonpatch.DecodePatch([]byte(w[6]))
			if err != nil {
				t.Fatalf("%v: %s", err, one)
			}
			raw, _ := json.Marshal(after[i])
			if raw, err = patch.Apply(raw); err != nil {
				t.Fatalf("%v: %s", err, one)
			}
			after[i] = &unstructured.Unstructured{}
			if err := json.Unmarshal(raw, &after[i].Object); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("not known here: %s", one)
		}
	}
	return after
}

// essential reports whether a request is one that a finding about a webhook, or another one about it whose command it shares, names.
func essential(found []report.Finding, about report.Finding, r engine.Request, own string) bool {
	target := connectivity.Target{Service: types.NamespacedName{Namespace: own, Name: "webhook"}}
	return strings.HasPrefix(about.ID, "fail-") && slices.ContainsFunc(criticalRequests(target, nil), func(q criticalRequest) bool {
		base, sub, _ := strings.Cut(q.resource, "/")
		return q.group == r.Kind.Group && webhookmatch.KindOf(q.group, base) == r.Kind.Kind && sub == r.SubResource && string(q.operation) == string(r.Operation) &&
			q.namespace == r.Namespace && slices.ContainsFunc(found, func(f report.Finding) bool { return f.ID == q.id && f.Object == about.Object })
	})
}

// ownNamespaces returns the namespace of the Service that each webhook calls.
func ownNamespaces(all []*unstructured.Unstructured) map[string]string {
	own := map[string]string{}
	for _, c := range all {
		hooks, _, _ := unstructured.NestedSlice(c.Object, "webhooks")
		for _, w := range hooks {
			object := fmt.Sprintf("%s %s, webhook %s", c.GetKind(), c.GetName(), w.(map[string]any)["name"])
			own[object], _, _ = unstructured.NestedString(w.(map[string]any), "clientConfig", "service", "namespace")
		}
	}
	return own
}

// TestPrintedCommandsDoNoHarm: what a printed command changes of webhook configurations ends its finding and brings no other, calls no webhook for
// more, keeps none from what the finding does not name, and weakens no failurePolicy, for configurations as well-known projects ship them, changed at
// random.
func TestPrintedCommandsDoNoHarm(t *testing.T) {
	random, rounds := seed.Random(t), 4
	draws, err := strconv.Atoi(os.Getenv("USHER_ORACLE_DRAWS"))
	if err == nil {
		rounds = draws / 2
	}
	requests, ran := sampleRequests(), map[string]int{}
	if len(requests) < 400 {
		t.Fatalf("%d requests", len(requests))
	}
	for range rounds {
		all := randomConfigurations(t, random)
		found, own := foundIn(t, all), ownNamespaces(all)
		var before []map[string]bool
		done := map[string]bool{}
		for _, f := range found {
			if f.Fix == "" || done[f.ID] {
				continue
			}
			if before == nil {
				before = callsOf(t, all)
			}
			done[f.ID] = true
			ran[f.ID]++
			after := pasted(t, f.Fix, all)
			harm := func(format string, args ...any) {
				text, _ := json.Marshal(all)
				t.Errorf("%s: %s: %s\n%s", f.ID, f.Fix, fmt.Sprintf(format, args...), text)
			}
			for _, left := range foundIn(t, after) {
				same := func(was report.Finding) bool { return was.ID == left.ID && was.Object == left.Object }
				if same(f) && left.Message == f.Message || !slices.ContainsFunc(found, same) {
					harm("%+v", left)
				}
			}
			was, policies := failurePolicies(all), failurePolicies(after)
			for i, now := range callsOf(t, after) {
				if refuses(was, before[i]) && !refuses(policies, now) && !essential(found, f, requests[i], own[f.Object]) {
					harm("no failure refuses %s %s any more", requests[i].Operation, requests[i].Object)
				}
				for hook := range now {
					if !before[i][hook] {
						harm("%s is called for %s %s", hook, requests[i].Operation, requests[i].Object)
					}
				}
				for hook := range before[i] {
					if !now[hook] && !essential(found, f, requests[i], own[f.Object]) && !(f.ID == "registered-twice" && len(now) > 0 && policies[hook] == "") {
						harm("%s is not called for %s %s", hook, requests[i].Operation, requests[i].Object)
					}
				}
			}
			for hook, policy := range was {
				if now := policies[hook]; now != policy && !(now == "" && f.ID == "registered-twice") {
					harm("the failurePolicy of %s is %q", hook, now)
				}
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Log(ran)
	for _, id := range []string{"registered-twice", "fail-own-namespace", "fail-kube-system", "service-port-missing", "selector-no-effect"} {
		if ran[id] == 0 && rounds >= 100 { // fewer may draw none
			t.Errorf("no command of %s was run: %v", id, ran)
		}
	}
}

// refuses reports whether the failure of a webhook that is called refuses the request.
func refuses(policies map[string]string, called map[string]bool) bool {
	for hook := range called {
		if policies[hook] == "Fail" {
			return true
		}
	}
	return false
}

// failurePolicies returns the failurePolicy of each webhook, as KIND CONFIGURATION, webhook NAME.
func failurePolicies(all []*unstructured.Unstructured) map[string]string {
	policies := map[string]string{}
	for _, c := range all {
		hooks, _, _ := unstructured.NestedSlice(c.Object, "webhooks")
		for _, w := range hooks {
			w := w.(map[string]any)
			policies[fmt.Sprintf("%s %s, webhook %s", c.GetKind(), c.GetName(), w["name"])], _ = w["failurePolicy"].(string)
		}
	}
	return policies
}
