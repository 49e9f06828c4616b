package webhookmatch_test

import (
	"fmt"
	"strings"
	"testing"

	"usher.dev/usher/usherctl/webhookmatch"
)

// TestFailing: a condition without a result is found, and none that has one for some object with all that it needs.
func TestFailing(t *testing.T) {
	for _, c := range []struct{ rule, expression, want string }{
		{"CREATE /pods", "object.spec.nope == 'x'", "every CREATE of pods: no Pod has the field spec.nope"},
		{"CREATE /pods", "object.spec.securityContext.nope", "every CREATE of pods: no Pod has the field spec.securityContext.nope"},
		{"CREATE,UPDATE /pods", "object['spec']['nope'] == 1", "every CREATE of pods, UPDATE of pods: no Pod has the field spec.nope"},
		{"CREATE /pods", "has(object.spec.nope) && object.spec.nope == 'x'", ""},
		{"CREATE /pods", "!has(object.spec.nope)", ""},
		{"CREATE /pods", "object.spec.?nope.orValue('') == 'x'", ""},
		{"CREATE /pods", "object.spec.nope == 'x' || object.spec.hostNetwork", "CREATE of pods: no such key: nope"},
		{"CREATE /pods", "request.userInfo.username == 'x' || object.spec.nope == 'x'", ""},
		{"CREATE /pods", "object.metadata.annotations['x'] == 'y'", "CREATE of pods: no such key: annotations"},
		{"CREATE /pods", "object.metadata.labels.app == 'y'", "CREATE of pods: no such key: labels"},
		{"CREATE apps/statefulsets", "object.metadata.labels.app == 'y'", "CREATE of statefulsets: no such key: labels"},
		{"CREATE apps/statefulsets", "object.spec.replicas > 1", ""},
		{"CREATE apps/statefulsets", "object.spec.replica > 1", "every CREATE of statefulsets: no StatefulSet has the field spec.replica"},
		{"CREATE apps/deployments", "object.spec.replicas > 1 && object.spec.template.spec.containers.all(c, c.image != 'x')", ""},
		{"CREATE /pods", "object.spec.containers.all(c, c.nope != 'x')", "CREATE of pods: no such key: nope"},
		{"CREATE /pods", "object.spec.containers.all(c, has(c.nope) && c.nope != 'x')", ""},
		{"CREATE /pods", "object.spec.restartPolicy == 'Always' && object.spec.priority == 0", ""},
		{"CREATE /pods", "object.spec.nodeName == 'x'", "CREATE of pods: no such key: nodeName"},
		{"CREATE /pods", "oldObject.metadata.name == 'x'", "every CREATE of pods: the request of a creation has no oldObject"},
		{"CREATE,DELETE /pods", "object.metadata.name != 'x'", "every DELETE of pods: the request of a deletion has no object"},
		{"* /pods", "request.operation == 'DELETE' || object.metadata.name != 'x'", ""},
		{"UPDATE /pods/status", "object.status.phase != oldObject.status.phase", ""},
		{"CREATE /pods/binding", "object.target.nope == 'x'", ""},
		{"CONNECT /pods/exec", "object.nope == 'x'", ""},
		{"CREATE farm.example/oxen", "object.spec.size == 2 && object.legs == 4", ""},
		{"CREATE farm.example/oxen", "object.metadata.labels.app == 'y'", "CREATE of oxen: no such key: labels"},
		{"CREATE */*", "object.metadata.annotations['x'] == 'y'", "CREATE of *: no such key: annotations"},
		{"CREATE /pods", "object.spec.", ""},
		{"CREATE /pods", "namespaceObject.metadata.labels.env == 'prod'",
			"every CREATE of pods: namespaceObject is null in match conditions, also for objects in namespaces"},
		{"CREATE,UPDATE farm.example/oxen", "has(namespaceObject.metadata.labels)", "every CREATE of oxen, UPDATE of oxen: namespaceObject is null"},
		{"CREATE /pods", "namespaceObject == null || namespaceObject.metadata.labels.env == 'prod'", ""},
		{"CREATE /pods", "request.namespace != 'a' || namespaceObject.metadata.labels.env == 'prod'", ""},
		{"CREATE /pods", "authorizer.group('').resource('pods').check('get').allowed()", ""},
		{"CREATE /namespaces", "object.metadata.labels['kubernetes.io/metadata.name'] != 'x'", ""},
		{"CREATE rbac.authorization.k8s.io/clusterroles", "object.metadata.namespace != 'x'", "CREATE of clusterroles: no such key: namespace"},
		{"CREATE rbac.authorization.k8s.io/roles", "object.metadata.namespace != 'x'", ""},
		{"CREATE /nodes", "object.spec.unschedulable", ""},
		{"CREATE storage.k8s.io/storageclasses", "request.namespace == ''", "every CREATE of storageclasses: the request for an object that is in no namespace"},
		{"CREATE storage.k8s.io/storageclasses", "!has(request.namespace) || request.namespace == 'a'", ""},
		{"CREATE /namespaces", "request.namespace != 'a'", ""},
		{"CREATE /configmaps", "request.namespace != 'a'", ""},
		{"CREATE */*", "request.namespace != 'a'", "every CREATE of nodes: the request for an object that is in no namespace"},
		{"CREATE */*/*", "request.resource.resource == 'nodes' || request.namespace != 'a'", "every CREATE of persistentvolumes: the request for an object"},
		{"CREATE storage.k8s.io/*", "request.namespace != 'a'", "every CREATE of csidrivers: the request for an object that is in no namespace"},
		{"CREATE */clusterroles", "request.namespace != 'a'", "every CREATE of clusterroles: the request for an object that is in no namespace"},
		{"CREATE apps/*", "request.namespace != 'a'", ""},
		{"CREATE farm.example/*", "request.namespace != 'a'", ""},
		{"CREATE */*/*", "!has(request.namespace) || request.namespace != 'a'", ""},
		{"CREATE,UPDATE */*/*", "object.metadata.labels['x'] == 'y'", "CREATE of *, UPDATE of *: no such key: labels"},
		{"CREATE */*", "request.kind.kind == 'Deployment' && object.spec.replicas > 1", ""},
		{"CREATE */*", "object.spec.replicas > 1", "every CREATE of configmaps: no ConfigMap has the field spec"},
		{"CREATE /configmaps", "request.subResource != 'status'", "every CREATE of configmaps: the request for an object itself has no subResource"},
		{"UPDATE /pods/status", "request.subResource != 'status'", ""},
		{"CREATE mutates/pods", "object.metadata.name != 'a'", "CREATE of pods: no such key: name"},
		{"CREATE mutates/pods", "request.name != 'a'", "CREATE of pods: no such key: name"},
		{"CREATE mutates/pods", "object.metadata.generateName != 'a'", ""},
		{"UPDATE mutates/pods", "object.metadata.name != 'a'", ""},
		{"CREATE /pods", "object.metadata.name != 'a'", ""},
	} {
		operations, name, _ := strings.Cut(c.rule, " ")
		group, resource, _ := strings.Cut(name, "/")
		mutates := group == "mutates"
		group = strings.TrimPrefix(group, "mutates")
		h := hook(t, fmt.Sprintf("rules: [{apiGroups: ['%s'], apiVersions: ['*'], operations: ['%s'], resources: ['%s']}]\nmatchConditions: [{name: a, "+
			"expression: %q}]",
			group, strings.ReplaceAll(operations, ",", "','"), resource, c.expression))
		got := ""
		for _, f := range webhookmatch.Failing(h.MatchConditions, h.Rules, mutates) {
			if got = strings.Join(f.Requests, ", ") + ": " + f.Why; f.Every {
				got = "every " + got
			}
		}
		if !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s, %s: %q, want %q", c.rule, c.expression, got, c.want)
		}
	}
	both := hook(t, onPods+"matchConditions: [{name: a, expression: 'object.spec.nope'}, {name: b, expression: \"request.operation == 'UPDATE'\"}]")
	if found := webhookmatch.Failing(both.MatchConditions, both.Rules, false); len(found) > 0 {
		t.Errorf("another condition leaves it out: %+v", found)
	}
}
