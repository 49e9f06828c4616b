package webhookmatch

import (
	"testing"

	registration "k8s.io/api/admissionregistration/v1"
)

// TestNever: what is false whatever the request is, and nothing else, is never true.
func TestNever(t *testing.T) {
	for expression, want := range map[string]bool{
		"false": true, "!true": true, "1 > 2": true, "object.x == 1 && false": true, "false && object.x == 1": true,
		"'a' in ['b']": true, "(object.x || true) && !(1 < 2)": true, "has(object.x) ? false : false": false, // no constant folding of branches
		"[1, 2].all(x, x > 1) && request.operation == 'CREATE'": true, "quantity('1Gi').isLessThan(quantity('1Mi'))": true,
		"namespaceObject != null && namespaceObject.metadata.name == 'a'": true, "namespaceObject.metadata.name == 'a'": false, // it has no result
		"true": false, "object.x == 1": false, "object.x == 1 || false": false, "!('system:nodes' in request.userInfo.groups)": false,
		"has(object.metadata.labels) && object.metadata.labels.exists(k, k == 'a')": false, "oldObject == null": false,
		"authorizer.group('').resource('pods').namespace('a').check('get').allowed()": false,
		"object.metadata.?labels['a'].orValue('') != 'b'":                             false, "1 +": false, "1": false,
		`!(has(request.userInfo.groups) && "system:nodes" in request.userInfo.groups && has(request.subResource))`: false,
	} {
		if is := Never(registration.MatchCondition{Expression: expression}, nil); is != want {
			t.Errorf("%s: %v", expression, is)
		}
	}
}

// TestNeverOfRules: what is false for each resource and operation of the rules is never true, and what a rule leaves open may be.
func TestNeverOfRules(t *testing.T) {
	rule := func(group, resource string, operations ...registration.OperationType) registration.RuleWithOperations {
		return registration.RuleWithOperations{Operations: operations,
			Rule: registration.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}}}
	}
	pods, scale := rule("", "pods", registration.Create, registration.Update), rule("apps", "deployments/scale", registration.Update)
	any, things := rule("*", "*/*", registration.OperationAll), rule("example.com", "things", registration.Create)
	for _, c := range []struct {
		expression string
		rules      []registration.RuleWithOperations
		want       bool
	}{
		{"request.resource.resource == 'deployments'", []registration.RuleWithOperations{pods}, true},
		{"request.resource.resource == 'deployments'", []registration.RuleWithOperations{pods, scale}, false},
		{"request.resource.resource == 'deployments'", []registration.RuleWithOperations{any}, false},
		{"request.resource.group == 'apps' && object.spec.replicas > 1", []registration.RuleWithOperations{pods}, true},
		{"request.resource.version == 'v2'", []registration.RuleWithOperations{pods}, false},
		{"request.operation == 'DELETE'", []registration.RuleWithOperations{pods}, true},
		{"request.operation == 'UPDATE'", []registration.RuleWithOperations{pods}, false},
		{"request.operation == 'DELETE'", []registration.RuleWithOperations{any}, false},
		{"request.kind.kind == 'Deployment'", []registration.RuleWithOperations{pods}, true},
		{"request.kind.kind == 'Pod'", []registration.RuleWithOperations{pods}, false},
		{"request.kind.kind == 'Scale'", []registration.RuleWithOperations{scale}, false},
		{"request.kind.kind == 'Thing'", []registration.RuleWithOperations{things}, false},
		{"request.subResource == 'status'", []registration.RuleWithOperations{scale}, true},
		{"has(request.subResource) && request.subResource == 'scale'", []registration.RuleWithOperations{pods}, true},
		{"has(request.subResource) && request.subResource == 'scale'", []registration.RuleWithOperations{scale}, false},
		{"!has(request.subResource) || request.subResource == ''", []registration.RuleWithOperations{pods}, false},
		{"has(request.name) && request.name == 'a'", []registration.RuleWithOperations{pods}, false},
		{"has(request.dryRun) && request.dryRun", []registration.RuleWithOperations{pods}, false},
		{"request.namespace == 'a' || request.userInfo.username == 'b'", []registration.RuleWithOperations{pods}, false},
		{"has(request.userInfo.groups) && 'a' in request.userInfo.groups", []registration.RuleWithOperations{pods}, false},
		{"request.?name.orValue('') == 'a'", []registration.RuleWithOperations{pods}, false},
		{"request.requestKind.kind == 'Pod'", []registration.RuleWithOperations{pods}, false},
		{"has(request.userInfo) && has(request.userInfo.groups)", []registration.RuleWithOperations{pods}, false},
		{"has(request.namespace)", []registration.RuleWithOperations{pods}, false},
		{"has(request.options)", []registration.RuleWithOperations{pods}, false},
		{"request.nothing == 'a'", []registration.RuleWithOperations{pods}, false}, // no result
	} {
		if is := Never(registration.MatchCondition{Expression: c.expression}, c.rules); is != c.want {
			t.Errorf("%s for %v: %v", c.expression, c.rules, is)
		}
	}
}
