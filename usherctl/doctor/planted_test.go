package doctor_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/colocation"
	ushercommand "usher.dev/usher/command"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/tool"
)

// soundCluster has usher, beside its configurations, and a webhook of somebody else that is sound.
const soundCluster = `
{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: usher}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {policies.example/check: "true"}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: bank, labels: {team: money}}}
---
{apiVersion: v1, kind: Service, metadata: {name: usher, namespace: usher}, spec: {clusterIP: 10.0.0.1, selector: {app: usher}, ports: [{name: https, port: 443, targetPort: https}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: usher-1, namespace: usher, labels: {kubernetes.io/service-name: usher}}, addressType: IPv4,
ports: [{name: https, port: 9443}], endpoints: [{addresses: [10.1.0.1], conditions: {ready: true}}]}
---
{apiVersion: v1, kind: Service, metadata: {name: policies, namespace: policies}, spec: {clusterIP: 10.0.0.2, selector: {app: policies}, ports: [{name: https, port: 443, targetPort: https}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: policies-1, namespace: policies, labels: {kubernetes.io/service-name: policies}}, addressType: IPv4,
ports: [{name: https, port: 9443}], endpoints: [{addresses: [10.1.0.2], conditions: {ready: true}}]}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: usher, namespace: usher}, spec: {replicas: 2, selector: {matchLabels: {app: usher}},
template: {metadata: {labels: {app: usher}}, spec: {containers: [{name: usher, image: usher, args: [serve]}]}}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: policies, annotations: {cert-manager.io/inject-ca-from: policies/policies}}
webhooks:
- {name: check.policies.example, clientConfig: {service: {namespace: policies, name: policies, path: /check}}, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 3,
   rules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}], namespaceSelector: {matchLabels: {policies.example/check: "true"}}}
`

// plantedFault is a change of the sound cluster, and the finding that names it.
type plantedFault struct {
	name    string
	changes map[string]string // of webhooks, by name: merge patches
	more    string            // cli.Manifests
	want    string            // the finding
	about   string            // what the finding is about, and what it says
	says    string
}

// of returns a change of one webhook.
func of(webhook, patch string) map[string]string { return map[string]string{webhook: patch} }

// atPath returns the change of a path.
func atPath(path string) string { return `{"clientConfig": {"service": {"path": "` + path + `"}}}` }

const (
	mutatePod, validatePod, validateProfile = "mutate-pod.usher.dev", "validate-pod.usher.dev", "validate-clustercolocationprofile.usher.dev"
	check                                   = "check.policies.example"
)

// rule returns the change of rules to one.
func rule(group, resource, more string) string {
	return `{"rules": [{"apiGroups": ["` + group + `"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["` + resource + `"]` + more + `}]}`
}

var plantedFaults = []plantedFault{
	{"paths of two routes are swapped", map[string]string{validatePod: atPath("/validate-clustercolocationprofile"), validateProfile: atPath("/validate-pod")}, "",
		"usher-path-differs", validatePod, "/validate-clustercolocationprofile"},
	{"a mutating path in the validating configuration", of(validatePod, atPath("/mutate-pod")), "", "usher-path-differs", validatePod, "/mutate-pod"},
	{"a letter too many in a path", of(mutatePod, atPath("/mutate-pods")), "", "usher-path-unknown", mutatePod, "Did you mean /mutate-pod?"},
	{"a path in upper case", of(mutatePod, atPath("/Mutate-Pod")), "", "usher-path-unknown", mutatePod, "Did you mean /mutate-pod?"},
	{"a constant condition", of(validatePod, `{"matchConditions": [{"name": "off", "expression": "1 > 2"}]}`), "", "match-condition-never", validatePod, "off"},
	{"a condition on another resource", of(validatePod, `{"matchConditions": [{"name": "d", "expression": "request.resource.resource == 'deployments'"}]}`), "",
		"match-condition-never", validatePod, "(d)"},
	{"a condition on another kind", of(check, `{"matchConditions": [{"name": "d", "expression": "request.kind.kind == 'Pod' && object.metadata.name != ''"}]}`), "",
		"match-condition-never", check, "(d)"},
	{"a condition on another operation", of(check, `{"matchConditions": [{"name": "d", "expression": "request.operation in ['UPDATE', 'DELETE']"}]}`), "",
		"match-condition-never", check, "(d)"},
	{"a resource in the singular", of(check, rule("", "pod", "")), "", "rule-unknown-resource", check, "did you mean pods?"},
	{"a letter is missing in a resource", of(check, rule("apps", "depoyments", "")), "", "rule-unknown-resource", check, "did you mean deployments?"},
	{"a letter is missing in a group", of(check, rule("app", "deployments", "")), "", "rule-wrong-group", check, "the group apps"},
	{"a letter is missing in the name's label", of(check, `{"namespaceSelector": {"matchLabels": {"policies.example/check": null, "kubernetes.io/metadata.nam": "shop"}}}`), "",
		"selector-no-namespace", check, "kubernetes.io/metadata.name=shop"},
	{"a letter is missing in the label of an exclusion", of(check, `{"namespaceSelector": {"matchLabels": null, "matchExpressions": [
		{"key": "kubernetes.io/metadata.nam", "operator": "NotIn", "values": ["bank", "kube-system"]}]}}`), "", "selector-near-miss", check, "kubernetes.io/metadata.name=bank"},
	{"a letter is missing in an excluded namespace", of(check, `{"namespaceSelector": {"matchLabels": null, "matchExpressions": [
		{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-sytem"]}]}}`), "", "selector-near-miss", check, "kube-system"},
	{"a namespace that is misspelt", of(check, `{"namespaceSelector": {"matchLabels": {"policies.example/check": null, "kubernetes.io/metadata.name": "bnak"}}}`), "",
		"selector-no-namespace", check, "bnak"},
	{"a name twice", nil, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: twice, annotations: {cert-manager.io/inject-ca-from: policies/policies}}, webhooks: [&w
{name: w.policies.example, clientConfig: {service: {namespace: policies, name: policies, path: /w}}, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 3,
rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}, *w]}`, "registered-twice", "the cluster", "w.policies.example twice"},
	{"only some objects", of(mutatePod, `{"objectSelector": {"matchLabels": {"usher": "on"}}}`), "", "usher-leaves-out", mutatePod, "usher in (on)"},
	{"only some namespaces", of(mutatePod, `{"namespaceSelector": {"matchLabels": {"team": "money"}}}`), "", "usher-leaves-out", mutatePod, "team in (money)"},
	{"fewer operations", of(validatePod, rule("", "pods", `, "scope": "Namespaced"`)), "", "usher-registration-differs", validatePod, "needed CREATE"},
	{"another scope", of(mutatePod, rule("", "pods", `, "scope": "Cluster"`)), "", "usher-registration-differs", mutatePod, "Cluster"},
	{"no other versions", of(mutatePod, `{"matchPolicy": "Exact"}`), "", "usher-registration-differs", mutatePod, "matchPolicy: registered Exact, needed Equivalent"},
	{"another reinvocation", of(mutatePod, `{"reinvocationPolicy": "Never"}`), "", "usher-registration-differs", mutatePod, "reinvocationPolicy"},
	{"side effects", of(mutatePod, `{"sideEffects": "Some"}`), "", "side-effects", mutatePod, "Some"},
	{"long timeouts", map[string]string{mutatePod: `{"timeoutSeconds": 30}`, validatePod: `{"timeoutSeconds": 30}`}, "", "pod-timeouts", "the cluster", mutatePod + " 30 s"},
	{"a port that the Service lacks", of(check, `{"clientConfig": {"service": {"port": 9443}}}`), "", "service-port-missing", check, "9443"},
	{"a targetPort that no pod has", nil, `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: policies-1, namespace: policies, labels: {kubernetes.io/service-name: policies}},
addressType: IPv4, ports: [], endpoints: [{addresses: [10.1.0.2], conditions: {ready: true}}]}`, "no-endpoints", check, "targetPort, https"},
	{"one configuration calls another installation", of(validatePod, `{"clientConfig": {"service": {"namespace": "policies", "name": "policies"}}}`), "",
		"usher-servers-differ", "the cluster", "policies/policies"},
	{"two installations", nil, `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: usher-canary, annotations: {cert-manager.io/inject-ca-from: policies/policies}}, webhooks: [
{name: mutate-pod.usher.dev, clientConfig: {service: {namespace: policies, name: policies, path: /mutate-pod}}, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 2, failurePolicy: Ignore,
rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}]}`, "registered-twice", "the cluster", "MutatingWebhookConfiguration usher-canary"},
	{"a binding to a policy that is gone", nil, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: replicas}, spec: {policyName: replica-limit, validationActions: [Deny]}}`,
		"policy-missing", "ValidatingAdmissionPolicyBinding replicas", "replica-limit"},
	{"a binding to a policy whose name is misspelt", nil, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: replicas}, spec: {policyName: replica-limt, validationActions: [Deny]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: replica-limit}, spec: {validations: [{expression: "true"}]}}`,
		"policy-missing", "ValidatingAdmissionPolicyBinding replicas", "Did you mean replica-limit"},
	{"a policy for a singular", nil, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: replica-limit}, spec: {validations: [{expression: "true"}],
matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployment]}]}}}`, "rule-unknown-resource", "ValidatingAdmissionPolicy replica-limit", "deployments"},
	{"parameters of a kind that is misspelt", nil, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: replica-limit}, spec: {validations: [{expression: "true"}],
paramKind: {apiVersion: v1, kind: ConfigMaps}}}`, "policy-param-kind", "ValidatingAdmissionPolicy replica-limit", "v1 ConfigMaps"},
	{"a binding for no namespace", nil, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: replicas}, spec: {policyName: replica-limit,
matchResources: {namespaceSelector: {matchLabels: {team: mony}}}}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: replica-limit}, spec: {validations: [{expression: "true"}],
matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}}}`, "selector-no-namespace", "ValidatingAdmissionPolicyBinding replicas", "team=money"},
	{"a condition on a field that is misspelt", of(check, `{"matchConditions": [{"name": "d", "expression": "object.spec.replica > 1"}]}`), "", "match-condition-fails", check, "spec.replica"},
	{"a policy without a binding", nil, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: replica-limit}, spec: {validations: [{expression: "true"}]}}`,
		"policy-not-bound", "ValidatingAdmissionPolicy replica-limit", "no ValidatingAdmissionPolicyBinding"},
}

// TestPlantedFaults: what is wrong in a way that no check is named after is found, and the finding names what it is about, and why.
func TestPlantedFaults(t *testing.T) {
	var out bytes.Buffer
	env := tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{Out: &out, Err: &out}}
	usher := ushercommand.Program{Suites: env.Suites, Out: &out, Err: &out}
	if code := usher.Run(t.Context(), []string{"webhooks", "--suite", "colocation", "--exclude-namespace", "bank"}); code != 0 {
		t.Fatal(out.String())
	}
	cluster := soundCluster + "\n---\n" + out.String()
	found, said := examineWith(t, env, cluster, plantedFault{})
	if len(found) > 0 || !strings.Contains(said, "is in the namespaces bank, which") {
		t.Fatalf("the sound cluster, without bank: %+v, %s", found, said)
	}
	for _, f := range plantedFaults {
		t.Run(f.name, func(t *testing.T) {
			found, _ := examineWith(t, env, cluster, f)
			for _, one := range found {
				if one.ID == f.want && strings.Contains(one.Object, f.about) && strings.Contains(one.Message, f.says) {
					return
				}
			}
			t.Errorf("no %s about %s that says %q: %+v", f.want, f.about, f.says, found)
		})
	}
}

// examineWith returns what is found in a cluster with a fault, and what is said besides.
func examineWith(t *testing.T, env tool.Env, cluster string, f plantedFault) (found []report.Finding, said string) {
	t.Helper()
	dir := t.TempDir()
	done := 0
	for i, text := range strings.Split(f.more+"\n---\n"+cluster, "\n---\n") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		hooks, _ := object["webhooks"].([]any)
		for j, hook := range hooks {
			patch, is := f.changes[hook.(map[string]any)["name"].(string)]
			if !is {
				continue
			}
			before, _ := json.Marshal(hook)
			after, err := jsonpatch.MergePatch(before, []byte(patch))
			if err != nil {
				t.Fatal(err)
			}
			hooks[j] = json.RawMessage(after)
			done++
		}
		raw, _ := json.Marshal(object)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.json", i)), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if done != len(f.changes) {
		t.Fatalf("%d of %d webhooks were changed", done, len(f.changes))
	}
	var out, errs bytes.Buffer
	env.Out, env.Err = &out, &errs
	command.Run(t.Context(), env, []string{"doctor", "--cluster-dir", dir, "-o", "json"})
	var reports []struct {
		Findings []report.Finding
		Hint     string
	}
	if err := json.Unmarshal(out.Bytes(), &reports); err != nil {
		t.Fatalf("%v: %s%s", err, out.String(), errs.String())
	}
	for _, r := range reports {
		found, said = append(found, r.Findings...), said+r.Hint
	}
	return found, said
}
