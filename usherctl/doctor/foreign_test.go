package doctor

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/resources"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/webhookmatch"
)

// mesh and gatekeeper have the shape of configurations that are shipped: a mesh with opt-in labels, revisions and a catch-all that is
// switched off by a label that nothing has, and a policy engine whose short rules name operations that do not occur.
const (
	mesh = `{metadata: {name: mesh-injector}, webhooks: [
{name: rev.namespace.mesh.example, rules: [&pods {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}],
 namespaceSelector: {matchExpressions: [{key: mesh.example/rev, operator: In, values: [default]}, {key: mesh-injection, operator: DoesNotExist}]},
 objectSelector: {matchExpressions: [{key: mesh.example/inject, operator: NotIn, values: ["false"]}]}},
{name: namespace.mesh.example, rules: [*pods], namespaceSelector: {matchExpressions: [{key: mesh-injection, operator: In, values: [enabled]}]}},
{name: object.mesh.example, rules: [*pods],
 namespaceSelector: {matchExpressions: [{key: mesh-injection, operator: DoesNotExist}, {key: mesh.example/rev, operator: DoesNotExist}]},
 objectSelector: {matchExpressions: [{key: mesh.example/inject, operator: In, values: ["true"]}]}},
{name: off.mesh.example, rules: [*pods], namespaceSelector: {matchLabels: {mesh.example/deactivated: never-match}},
 objectSelector: {matchLabels: {mesh.example/deactivated: never-match}}}]}`
	gatekeeper = `{metadata: {name: gate}, webhooks: [
{name: validation.gate.example, matchPolicy: Exact, sideEffects: None,
 namespaceSelector: {matchExpressions: [{key: gate.example/ignore, operator: DoesNotExist}]},
 rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*", pods/ephemeralcontainers, pods/exec, pods/log, pods/eviction,
  pods/portforward, pods/proxy, pods/attach, pods/binding, deployments/scale, replicasets/scale, services/proxy, nodes/proxy, services/status]}]}]}`
)

// TestForeignConfigurations: what others ship so is at most worth a remark, and no command sets a label.
func TestForeignConfigurations(t *testing.T) {
	namespaces := []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, {ObjectMeta: metav1.ObjectMeta{Name: "apps", Labels: map[string]string{"mesh-injection": "enabled"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "old", Labels: map[string]string{"mesh.example/rev": "1-20-1"}}}, {ObjectMeta: metav1.ObjectMeta{Name: "off", Labels: map[string]string{"mesh-injection": "disabled"}}}}
	seen := 0
	for _, text := range []string{mesh, gatekeeper} {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all, err := readWebhooks(mutatingKind, json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range all {
			found := slices.Concat(namespaceProblems(w, namespaces, resources.BuiltIn()), objectSelectorProblems(w), exactProblem(w, resources.BuiltIn()),
				ruleProblems(w, resources.BuiltIn()), settingsProblems(w), conditionProblems(w, &webhookmatch.Matcher{}))
			for _, f := range append(found, twiceProblems(all, sound)...) {
				if seen++; f.Severity != report.Info || strings.Contains(f.Fix, "kubectl label") {
					t.Errorf("%s: %+v", w.Name, f)
				}
			}
		}
	}
	if seen != 3 { // two selectors that match nothing yet, and one rule
		t.Errorf("%d findings", seen)
	}
}

// shipped are configurations with the shapes in which others ship theirs: certificates with a label that opts out, a policy engine with
// rules for everything that has a label, and for its own lease, a mesh with labels that opt out, a provisioner of nodes that checks ConfigMaps of its own,
// an operator whose webhooks never fail a request, rules that the server fills in itself, and a server on each machine of the control plane.
const shipped = `
{kind: ValidatingWebhookConfiguration, metadata: {name: certificates, annotations: {cert-manager.io/inject-ca-from-secret: certificates/webhook-ca}}, webhooks: [
{name: webhook.certificates.example, timeoutSeconds: 30, failurePolicy: Fail, matchPolicy: Equivalent,
 namespaceSelector: {matchExpressions: [{key: certificates.example/disable-validation, operator: NotIn, values: ["true"]}]},
 rules: [{apiGroups: [certificates.example, acme.certificates.example], apiVersions: [v1], operations: [CREATE, UPDATE], resources: ["*/*"]}]}]}
---
{kind: MutatingWebhookConfiguration, metadata: {name: engine}, webhooks: [
{name: mutate.engine.example-fail, failurePolicy: Fail, reinvocationPolicy: IfNeeded, objectSelector: {}, timeoutSeconds: 10,
 namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [project]}, {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]},
 rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods, pods/ephemeralcontainers, replicationcontrollers], scope: Namespaced}]},
{name: monitor.engine.example, failurePolicy: Ignore, objectSelector: {matchLabels: {app.kubernetes.io/name: engine}}, rules: [
 {apiGroups: [coordination.k8s.io], apiVersions: [v1], operations: [UPDATE], resources: [leases]}]}]}
---
{kind: ValidatingWebhookConfiguration, metadata: {name: engine-ttl}, webhooks: [
{name: ttl.engine.example, failurePolicy: Ignore, objectSelector: {matchExpressions: [{key: engine.example/ttl, operator: Exists}]},
 rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*"], scope: "*"}]}]}
---
{kind: MutatingWebhookConfiguration, metadata: {name: proxy-injector}, webhooks: [
{name: proxy-injector.link.example, failurePolicy: Ignore, timeoutSeconds: 10,
 namespaceSelector: {matchExpressions: [{key: link.example/admission-webhooks, operator: NotIn, values: [disabled]}, {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, certificates]}]},
 rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods, services], scope: Namespaced}]}]}
---
{kind: ValidatingWebhookConfiguration, metadata: {name: nodes}, webhooks: [
{name: config.nodes.example, failurePolicy: Fail, objectSelector: {matchLabels: {app.kubernetes.io/part-of: nodes}},
 rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]},
{name: validation.nodes.example, failurePolicy: Fail, rules: [{apiGroups: [nodes.example], apiVersions: [v1, v1beta1], operations: [CREATE, UPDATE], resources: [pools, pools/status]}]}]}
---
{kind: MutatingWebhookConfiguration, metadata: {name: operator}, webhooks: [
{name: rules.operator.example, failurePolicy: Ignore, timeoutSeconds: 10, rules: [{apiGroups: [operator.example], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [rules]}]}]}
---
{kind: ValidatingWebhookConfiguration, metadata: {name: functions}, webhooks: [{name: validation.functions.example, failurePolicy: Fail, timeoutSeconds: 10,
 namespaceSelector: {matchExpressions: [{key: functions.example/release, operator: Exists}]}}]}
---
{kind: MutatingWebhookConfiguration, metadata: {name: identity}, webhooks: [{name: identity.cloud.example, failurePolicy: Ignore, clientConfig: {url: "https://127.0.0.1:23443/mutate"},
 objectSelector: {matchExpressions: [{key: cloud.example/skip, operator: DoesNotExist}]}, rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}]}
---
{kind: ValidatingWebhookConfiguration, metadata: {name: mesh-validator}, webhooks: [{name: validation.mesh.example, failurePolicy: Ignore, objectSelector: {matchExpressions: [{key: mesh.example/rev, operator: DoesNotExist}]},
 rules: [{apiGroups: [security.mesh.example, networking.mesh.example], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*"]}]}]}
---
{kind: ValidatingWebhookConfiguration, metadata: {name: kinds}, webhooks: [{name: kinds.example.com, matchConditions: [{name: not-system, expression: "!request.userInfo.username.startsWith('system:')"},
 {name: some, expression: "request.resource.resource != 'events' && (request.kind.kind == 'Deployment' || request.operation == 'DELETE')"}],
 rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, DELETE], resources: ["*"], scope: Namespaced}],
 namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kube-public, gate-system, project]}]}}]}
`

// TestShippedConfigurations: in a whole cluster, too, what others ship so is at most worth a remark.
func TestShippedConfigurations(t *testing.T) {
	const around = `
- {apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}
- {apiVersion: v1, kind: Namespace, metadata: {name: project}}
- {apiVersion: v1, kind: Namespace, metadata: {name: apps, labels: {mesh-injection: enabled, link.example/inject: enabled}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: old, labels: {mesh.example/rev: 1-20-1}}}
`
	for _, text := range append(strings.Split(shipped, "\n---\n"), "{kind: MutatingWebhookConfiguration, "+mesh[1:], "{kind: ValidatingWebhookConfiguration, "+gatekeeper[1:]) {
		var configuration map[string]any
		if err := yaml.Unmarshal([]byte(text), &configuration); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		metadata := configuration["metadata"].(map[string]any)
		configuration["apiVersion"] = "admissionregistration.k8s.io/v1"
		if metadata["annotations"] == nil { // whoever fills in the caBundle
			metadata["annotations"] = map[string]any{"cert-manager.io/inject-apiserver-ca": "true"}
		}
		for _, w := range configuration["webhooks"].([]any) {
			for field, value := range map[string]any{"sideEffects": "None", "admissionReviewVersions": []string{"v1"}, "timeoutSeconds": 5, "failurePolicy": "Ignore",
				"clientConfig": map[string]any{"service": map[string]any{"namespace": "project", "name": "webhook"}}} {
				if w := w.(map[string]any); w[field] == nil {
					w[field] = value
				}
			}
		}
		t.Run(metadata["name"].(string), func(t *testing.T) {
			dir := t.TempDir()
			raw, err := json.Marshal(configuration)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/a.yaml", []byte("apiVersion: v1\nkind: List\nitems:"+around+"- "+string(raw)), 0o600); err != nil {
				t.Fatal(err)
			}
			source, err := reader.Files(dir)
			if err != nil {
				t.Fatal(err)
			}
			reports := Examine(t.Context(), source, nil, Usher{})
			if len(reports) < 2 || report.ExitOf(reports) != report.Fine {
				t.Errorf("%d reports, exit code %d", len(reports), report.ExitOf(reports))
			}
			for _, r := range reports {
				for _, f := range r.Findings {
					if f.Severity != report.Info || strings.Contains(f.Fix, "kubectl label") {
						t.Errorf("%+v", f)
					}
				}
			}
		})
	}
}

// sound is the state of webhooks that can be called.
func sound(entry) bool { return false }

// TestTwice: the same registered in two configurations is reported, and what differs in anything that decides about calls is not. The one
// that works is never removed.
func TestTwice(t *testing.T) {
	first, second := hook(nil), hook(func(w *entry) { w.configuration.Name = "d" })
	expectOne(t, twiceProblems([]entry{first, second}, sound), "registered-twice", "ValidatingWebhookConfiguration d, webhook w.example.com", "\nkubectl delete validatingwebhookconfiguration d")
	expectOne(t, twiceProblems([]entry{first, first}, sound), "registered-twice", "refuses such a configuration")
	ignored := hook(func(w *entry) { w.configuration.Name, w.FailurePolicy = "a", new(registration.Ignore) })
	for _, all := range [][]entry{{ignored, first}, {first, ignored}} {
		expectOne(t, twiceProblems(all, sound), "registered-twice", "\nkubectl delete validatingwebhookconfiguration a")
	}
	expectOne(t, twiceProblems([]entry{first, second, ignored, hook(func(w *entry) { w.configuration.Name = "f" })}, sound), "registered-twice", "4 times")
	for name, differ := range map[string]func(w *entry){
		"matchPolicy": func(w *entry) { w.MatchPolicy = new(registration.Exact) },
		"caBundle":    func(w *entry) { w.ClientConfig.CABundle = []byte("another") },
		"injector": func(w *entry) {
			w.configuration.Annotations = map[string]string{"cert-manager.io/inject-ca-from": "ns/c"}
		},
		"versions": func(w *entry) { w.AdmissionReviewVersions = []string{"v1beta1"} },
	} {
		other := hook(func(w *entry) { w.configuration.Name = "d"; differ(w) })
		if found := twiceProblems([]entry{first, other}, sound); len(found) != 1 || found[0].Fix != "" || strings.Contains(found[0].Message, "verifies") != (name == "caBundle") {
			t.Errorf("another %s: %+v", name, found)
		}
	}
	expectOne(t, twiceProblems([]entry{first, second}, func(w entry) bool { return w.configuration.Name == "c" }), "registered-twice", "kubectl get")
	for name, differ := range map[string]func(w *entry){
		"kind":    func(w *entry) { w.kind = mutatingKind },
		"Service": func(w *entry) { w.ClientConfig.Service.Name += "2" },
		"path":    func(w *entry) { w.ClientConfig.Service.Path = new("/other") },
		"rules": func(w *entry) {
			w.Rules = slices.Clone(w.Rules)
			w.Rules[0].Operations = []registration.OperationType{registration.Delete}
		},
		"namespaceSelector": func(w *entry) { w.NamespaceSelector = labelled("a", "b") },
		"objectSelector":    func(w *entry) { w.ObjectSelector = labelled("a", "b") },
		"matchConditions":   func(w *entry) { w.MatchConditions = []registration.MatchCondition{{Name: "a", Expression: "true"}} },
	} {
		other := hook(func(w *entry) { w.configuration.Name = "e"; differ(w) })
		if found := twiceProblems([]entry{first, other}, sound); len(found) > 0 {
			t.Errorf("another %s: %+v", name, found)
		}
		expectOne(t, twiceProblems([]entry{first, other, second}, sound), "registered-twice", "configuration d")
	}
}

// TestTwiceManaged: of two that are the same, the one stays that something would make again.
func TestTwiceManaged(t *testing.T) {
	byHand := hook(func(w *entry) { w.configuration.Name = "a" })
	for name, set := range map[string]func(*metav1.ObjectMeta){
		"Helm":     func(o *metav1.ObjectMeta) { o.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"} },
		"an owner": func(o *metav1.ObjectMeta) { o.OwnerReferences = []metav1.OwnerReference{{Kind: "X", Name: "x"}} },
		"Argo CD":  func(o *metav1.ObjectMeta) { o.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "x"} },
		"Flux":     func(o *metav1.ObjectMeta) { o.Labels = map[string]string{"kustomize.toolkit.fluxcd.io/name": "x"} },
	} {
		t.Run(name, func(t *testing.T) {
			managed := hook(func(w *entry) { w.configuration.Name = "z"; set(&w.configuration) })
			expectOne(t, twiceProblems([]entry{byHand, managed}, sound), "registered-twice", "\nkubectl delete validatingwebhookconfiguration a", "a, webhook w.example.com calls what")
			other := managed
			other.configuration.Name = "y"
			if found := twiceProblems([]entry{other, managed}, sound); len(found) != 1 || found[0].Fix != "" {
				t.Errorf("what comes back is removed: %+v", found)
			}
		})
	}
}
