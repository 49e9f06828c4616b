package doctor_test

import (
	"bytes"
	"strings"
	"testing"

	"usher.dev/usher/colocation"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
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
