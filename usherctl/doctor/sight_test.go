package doctor_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/colocation"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/tool"
)

// conditions returns the change of match conditions.
func conditions(expressions ...string) string {
	var all []string
	for _, e := range expressions {
		all = append(all, `{"name": "c`+string(rune('0'+len(all)))+`", "expression": "`+e+`"}`)
	}
	return `{"matchConditions": [` + strings.Join(all, ", ") + `]}`
}

// fatal returns the change of rules to one, with failurePolicy Fail, in all namespaces but the server's own.
func fatal(group, resource string) string {
	return strings.TrimSuffix(strings.Replace(rule(group, resource, ""), `["CREATE"]`, `["*"]`, 1), "}") + `, "failurePolicy": "Fail", "namespaceSelector": null}`
}

// withParams returns a policy with parameters of a selector, and some parameters.
func withParams(selector string) string {
	return `{apiVersion: v1, kind: ConfigMap, metadata: {name: p, namespace: shop, labels: {limits: small}}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {paramKind: {apiVersion: v1, kind: ConfigMap},
validations: [{expression: "true"}], matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: p}, spec: {policyName: p, validationActions: [Deny],
paramRef: {selector: {matchLabels: {limits: ` + selector + `}}, parameterNotFoundAction: Deny}}}`
}

// validating returns a bound policy for a resource.
func validating(group, resource, expression string) string {
	return `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {validations: [{expression: "` + expression + `"}],
matchConstraints: {resourceRules: [{apiGroups: [` + group + `], apiVersions: [v1], operations: [CREATE], resources: [` + resource + `]}]}}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: p}, spec: {policyName: p, validationActions: [Deny]}}`
}

// slice returns the endpoints of the webhook check.
func slice(second string) string {
	return `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: policies-1, namespace: policies, labels: {kubernetes.io/service-name: policies}}, addressType: IPv4,
ports: [{name: https, port: 9443}], endpoints: [{addresses: [10.1.0.2], conditions: {ready: true}}, {addresses: [10.1.0.3], conditions: ` + second + `}]}`
}

// service returns the Service of the webhook check.
func service(protocol string) string {
	return `{apiVersion: v1, kind: Service, metadata: {name: policies, namespace: policies}, spec: {clusterIP: 10.0.0.2, selector: {app: policies},
ports: [{name: https, port: 443, protocol: ` + protocol + `}]}}`
}

// guard returns a webhook with failurePolicy Fail for pods that calls a Service, with more in its configuration, and manifests of its namespace: the
// Service, and a Deployment with labels of its pods.
func guard(calls, hook, service, labels, spec string) string {
	return `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: guard, annotations: {cert-manager.io/inject-ca-from: guard/guard}},
webhooks: [{name: guard.example, clientConfig: {service: {namespace: ` + calls + `, name: guard, path: /}}, failurePolicy: Fail, sideEffects: None, admissionReviewVersions: [v1],
timeoutSeconds: 3, rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}], ` + hook + `}]}
---
{apiVersion: v1, kind: Service, metadata: {name: guard, namespace: guard}, spec: {clusterIP: 10.0.0.3, ` + service + `}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: guard, namespace: guard}, spec: {` + spec + `selector: {matchLabels: {app: guard}}, template: {metadata: {labels: {` + labels + `}},
spec: {containers: [{name: a, image: a, ports: [{name: https, containerPort: 9443}]}]}}}}`
}

const (
	toGuard    = `selector: {app: guard}, ports: [{port: 443, targetPort: https}]`
	noSystem   = `namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}`
	elsewhere  = `namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, guard]}]}`
	uninjected = noSystem + `, objectSelector: {matchExpressions: [{key: sidecar.istio.io/inject, operator: NotIn, values: ["false"]}]}`
)

// certificate returns a Certificate of cert-manager beside a webhook.
func certificate(name string) string {
	return guard("guard", elsewhere, toGuard, "app: guard", "") + `
---
{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: ` + name + `, namespace: guard}, spec: {secretName: guard}}`
}

// caFrom returns a Secret beside a webhook whose CA is to be taken from one.
func caFrom(name string) string {
	return strings.Replace(guard("guard", elsewhere, toGuard, "app: guard", ""), "inject-ca-from:", "inject-ca-from-secret:", 1) + `
---
{apiVersion: v1, kind: Secret, metadata: {name: ` + name + `, namespace: guard}, data: {}}`
}

// sameURL returns two webhooks of one URL, of which the second has more rules, and more in its configuration.
func sameURL(more string) string {
	const one = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: NAME}, webhooks: [{name: w.example, clientConfig: {url: "https://w.example/x"},
failurePolicy: Ignore, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 3, rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}], `
	second := strings.NewReplacer("NAME", "second", "[CREATE]", "[CREATE, UPDATE]", "[pods]", "[configmaps, pods]").Replace(one) + more + "}]}"
	return strings.Replace(one, "NAME", "first", 1) + "}]}\n---\n" + second
}

// twins are faults that were not seen, each with a healthy twin: changes of the webhook check, or manifests.
var twins = []struct{ name, faulty, healthy, want, says string }{
	{"one of two endpoints", slice("{ready: false}"), slice("{ready: true}"), "some-endpoints-down", "1 of the 2"},
	{"a port for UDP", service("UDP"), service("TCP"), "service-port-missing", "only port 443 for UDP"},
	{"a selector of parameters", withParams("large"), withParams("small"), "policy-param-missing", "limits=large"},
	{"IPAddresses", fatal("networking.k8s.io", "ipaddresses"), fatal("networking.k8s.io", "ingresses"), "fail-control-plane", "ClusterIP"},
	{"VolumeAttachments", fatal("storage.k8s.io", "volumeattachments"), fatal("storage.k8s.io", "storageclasses"), "fail-control-plane", "volume"},
	{"ServiceAccounts", fatal("", "serviceaccounts"), fatal("", "persistentvolumeclaims"), "fail-control-plane", "service accounts"},
	{"definitions", fatal("apiextensions.k8s.io", "customresourcedefinitions"), fatal("farm.example", "oxen"), "fail-control-plane", "CustomResourceDefinitions"},
	{"ResourceSlices", fatal("resource.k8s.io", "resourceslices"), fatal("resource.k8s.io", "resourceclaims"), "fail-nodes", "devices"},
	{"evictions", fatal("", "pods/eviction"), fatal("", "pods/exec"), "fail-control-plane", "drained"},
	{"a selector on a scale", `{"rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments", "deployments/scale"]}],
		"objectSelector": {"matchLabels": {"a": "b"}}}`, `{"rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments", "deployments/scale"]}],
		"objectSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}`, "object-selector-never", "called for deployments alone"},
	{"conditions that contradict", conditions("request.userInfo.username == 'a'", "request.userInfo.username != 'a'"),
		conditions("request.userInfo.username == 'a'", "request.userInfo.username != 'b'"), "match-condition-never", "request.userInfo.username"},
	{"a subresource of everything", rule("apps", "*/deployment", ""), rule("apps", "*/scale", ""), "rule-unknown-resource", "did you mean deployments?"},
	{"the namespace of a StorageClass", validating("storage.k8s.io", "storageclasses", "request.namespace == ''"),
		validating("storage.k8s.io", "storageclasses", "!has(request.namespace)"), "match-condition-fails", "spec.validations[0]"},
	{"a creation without oldObject", validating("apps", "deployments", "oldObject.metadata.name == ''"),
		validating("apps", "deployments", "namespaceObject.metadata.name == ''"), "match-condition-fails", "oldObject"},
	{"a label that only the template has", guard("guard", uninjected, toGuard, "app: guard", ""), guard("guard", uninjected, toGuard, `app: guard, sidecar.istio.io/inject: "false"`, ""),
		"fail-own-namespace", "pods in its own namespace"},
	{"labels that no template has", guard("guard", uninjected, toGuard, "app: other", ""), guard("guard", elsewhere, toGuard, "app: guard", ""), "fail-own-namespace", "not known"},
	{"no own namespace", guard("guard", noSystem, toGuard, "app: guard", ""), guard("gaurd", noSystem, toGuard, "app: guard", ""), "fail-own-namespace", "its own namespace, guard"},
	{"a namespace that is misspelt", guard("gaurd", elsewhere, toGuard, "app: guard", ""), guard("guard", elsewhere, toGuard, "app: guard", ""), "service-missing", "did you mean guard/guard?"},
	{"a Service that is misspelt", `{"clientConfig": {"service": {"name": "polices"}}}`, `{"timeoutSeconds": 2}`, "service-missing", "did you mean policies/policies?"},
	{"a named port that no container has", guard("guard", elsewhere, "selector: {app: guard}, ports: [{port: 443, targetPort: htps}]", "app: guard", ""),
		guard("guard", elsewhere, toGuard, "app: guard", ""), "no-endpoints", "htps"},
	{"a selector that no template has", guard("guard", elsewhere, "selector: {app: gaurd}, ports: [{port: 443, targetPort: https}]", "app: guard", ""),
		guard("guard", elsewhere, "selector: {app: gaurd}, ports: [{port: 443, targetPort: https}]", "app: gaurd", ""), "no-endpoints", "app=gaurd"},
	{"no replicas", guard("guard", elsewhere, toGuard, "app: guard", "replicas: 0, "), guard("guard", elsewhere, toGuard, "app: guard", "replicas: 1, "), "no-endpoints", "Deployment guard has no replicas"},
	{"an annotation for a Certificate that is not there", certificate("gaurd"), certificate("guard"), "ca-source-missing", "guard/guard"},
	{"an annotation for a Secret that is not there", caFrom("gaurd"), caFrom("guard"), "ca-source-missing", "Secret guard/guard"},
	{"one URL for overlapping rules", sameURL(""), sameURL("objectSelector: {matchLabels: {a: c}}"), "registered-twice", "CREATE of pods"},
	{"TokenReviews, of which newer API servers tell no webhook", fatal("authentication.k8s.io", "tokenreviews"), fatal("apps", "deployments"), "rule-never-sent", "1.37"},
}

// TestTwins: each fault is found once, and its healthy twin is not.
func TestTwins(t *testing.T) {
	var out bytes.Buffer
	env := tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{Out: &out, Err: &out}}
	found := func(change, want string) (of []report.Finding) {
		f := plantedFault{more: change}
		if strings.HasPrefix(change, `{"`) {
			f = plantedFault{changes: map[string]string{check: change}}
		}
		all, _ := examineWith(t, env, soundCluster, f)
		for _, one := range all {
			if one.ID == want {
				of = append(of, one)
			}
		}
		return of
	}
	for _, c := range twins {
		t.Run(c.name, func(t *testing.T) {
			if of := found(c.healthy, c.want); len(of) > 0 {
				t.Errorf("the healthy twin: %+v", of)
			}
			of := found(c.faulty, c.want)
			if (len(of) == 1) != (c.want != "") || len(of) > 0 && !strings.Contains(of[0].Message, c.says) {
				t.Errorf("no %s that says %q: %+v", c.want, c.says, of)
			}
		})
	}
}

// TestOneCause: what one cause does to several webhooks is one finding, which each of them has, with the list of all.
func TestOneCause(t *testing.T) {
	var out bytes.Buffer
	env := tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{Out: &out, Err: &out}}
	one := guard("gaurd", elsewhere, toGuard, "app: guard", "")
	second := one[strings.Index(one, "{name: guard.example"):strings.Index(one, "]}\n---")]
	second = strings.NewReplacer("guard.example", "second.example", "failurePolicy: Fail", "failurePolicy: Ignore", "path: /", "path: /second").Replace(second)
	found, _ := examineWith(t, env, soundCluster, plantedFault{more: strings.Replace(one, "]}\n---", ", "+second+"]}\n---", 1)})
	if len(found) != 2 || found[0].Message != found[1].Message || len(found[0].Webhooks) != 2 || found[0].ID != "service-missing" ||
		!strings.Contains(found[0].Message, "are refused") || !strings.Contains(found[0].Message, "pass as if") {
		t.Errorf("%+v", found)
	}
}

// TestMisspeltSubresource: a subresource that there is not is an error, and not a request that no webhook is called for.
func TestMisspeltSubresource(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "pod.yaml")
	if err := os.WriteFile(file, []byte("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}, spec: {containers: [{name: a, image: a}]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for sub, says := range map[string]string{"exek": "did you mean exec?", "exec": "CONNECT"} {
		var out bytes.Buffer
		env := tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{Out: &out, Err: &out}}
		code := command.Run(t.Context(), env, []string{"doctor", "--cluster-dir", dir, "-f", file, "--operation", "CONNECT", "--subresource", sub})
		if (code == 2) != (sub == "exek") || !strings.Contains(out.String(), says) {
			t.Errorf("%s: exit code %d: %s", sub, code, out.String())
		}
	}
}
