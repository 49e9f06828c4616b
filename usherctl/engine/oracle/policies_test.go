package oracle

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.dev/usher/usherctl/engine"
)

type object = map[string]any

func list(all ...any) []any { return all }

// policy is a random ValidatingAdmissionPolicy, or a mutating one, with its binding, in a Namespace of its own.
type policy struct {
	drawer
	name   string
	mutate bool
}

func (p policy) kind() string {
	if p.mutate {
		return "MutatingAdmissionPolicy"
	}
	return "ValidatingAdmissionPolicy"
}

// validations are expressions over ConfigMaps, Pods and Deployments: some fail, some are wrong, some have no value.
var validations = []string{
	"true", "false", "object.metadata.name != 'denied'", "has(object.spec)", "object.spec.replicas > 1", "object.data.a == 'x'",
	"variables.known", "params == null || params.data.max == '3'", "params.data.max == '3'", "params.data.absent == ''", "oldObject == null",
	"namespaceObject.metadata.name.startsWith('policy')", "request.operation == 'CREATE'", "request.userInfo.username == 'jane'",
	"authorizer.group('').resource('pods').check('create').allowed()", "object.metadata.?labels['app'].orValue('none') != 'none'",
	"quantity('1Gi').isGreaterThan(quantity('1Mi'))", "object.spec.containers.all(c, c.image.startsWith('example.com/'))", "1 / 0 == 1",
	"has(object.data) && object.data.all(k, k.size() < 4)",
}

var conditions = []string{"true", "true", "true", "object.metadata.name != 'skipped'", "false", "object.spec.nothing == 1",
	"request.resource.resource == 'pods'"}

var mutations = []struct{ of, expression string }{
	{"ApplyConfiguration", "Object{metadata: Object.metadata{labels: {'mutated': 'yes'}}}"},
	{"ApplyConfiguration", "Object{metadata: Object.metadata{annotations: {'was': string(object.metadata.?labels['mutated'].orValue('no'))}}}"},
	{"ApplyConfiguration", "object.kind == 'Pod' ? Object{spec: Object.spec{containers: [Object.spec.containers{name: 'x', image: 'b'}]}} : Object{}"},
	{"ApplyConfiguration", "Object{spec: Object.spec{replicas: 3}}"},
	{"ApplyConfiguration", "Object{data: {'max': params.data.max}}"},
	{"ApplyConfiguration", "Object{metadata: Object.metadata{name: 'other'}}"},
	{"ApplyConfiguration", "Object{metadata: Object.metadata{labels: {'bad': 'not valid!'}}}"},
	{"JSONPatch", "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'patched': 'yes'}}]"},
	{"JSONPatch", "[JSONPatch{op: 'replace', path: '/metadata/labels/absent', value: 'x'}]"},
	{"JSONPatch", "[JSONPatch{op: 'test', path: '/metadata/name', value: 'a'}, JSONPatch{op: 'add', path: '/metadata/labels', value: {'n': 'a'}}]"},
	{"JSONPatch", "[JSONPatch{op: 'add', path: '/spec/containers/-', value: Object.spec.containers{name: 'patched', image: 'c'}}]"},
	{"JSONPatch", "has(object.data) ? [JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b'), value: 'x'}] : []"},
	{"JSONPatch", "[JSONPatch{op: 'remove', path: '/spec/replicas'}]"},
}

func (p policy) objects() []*unstructured.Unstructured {
	spec := object{"matchConstraints": p.constraints(), "failurePolicy": one(p.drawer, "Fail", "Ignore")}
	if p.chance(50) {
		spec["matchConditions"] = list(object{"name": "first", "expression": one(p.drawer, conditions...)},
			object{"name": "second", "expression": one(p.drawer, conditions...)})
	}
	known := one(p.drawer, "object.metadata.name == 'a'", "params.data.max == '3'", "1 / 0 == 1")
	spec["variables"] = list(object{"name": "known", "expression": known})
	binding := object{"policyName": p.name, "matchResources": in(p.name)}
	if p.chance(60) {
		spec["paramKind"] = object{"apiVersion": "v1", "kind": "ConfigMap"}
		binding["paramRef"] = p.params()
	}
	if p.mutate {
		p.addMutations(spec)
	} else {
		p.addValidations(spec)
		binding["validationActions"] = one(p.drawer, list("Deny"), list("Warn"), list("Audit"), list("Warn", "Audit"), list("Deny", "Audit"))
	}
	return []*unstructured.Unstructured{
		made("v1", "Namespace", p.name, "", object{}),
		made("v1", "ServiceAccount", "default", p.name, object{}),
		made("v1", "ConfigMap", "params", p.name, object{"data": object{"max": "3"}, "metadata": object{"labels": object{"params": "yes"}}}),
		made("v1", "ConfigMap", "more", p.name, object{"data": object{"max": "4"}, "metadata": object{"labels": object{"params": "yes"}}}),
		made("admissionregistration.k8s.io/v1", p.kind(), p.name, "", object{"spec": spec}),
		made("admissionregistration.k8s.io/v1", p.kind()+"Binding", p.name, "", object{"spec": binding}),
	}
}

func (p policy) constraints() object {
	rule := ruleOf("configmaps", "pods", "deployments")
	if p.chance(20) {
		rule["resources"], rule["apiGroups"], rule["apiVersions"], rule["scope"] = list("*"), list("*"), list("*"), "Namespaced"
	}
	if p.chance(10) {
		rule["resourceNames"] = list("a")
	}
	c := object{"resourceRules": list(rule)}
	if p.chance(20) {
		c["excludeResourceRules"] = list(ruleOf("configmaps"))
	}
	if p.chance(20) {
		c["objectSelector"] = object{"matchExpressions": list(object{"key": "app", "operator": one(p.drawer, "Exists", "DoesNotExist")})}
	}
	if p.chance(20) {
		c["matchPolicy"] = one(p.drawer, "Exact", "Equivalent")
	}
	return c
}

func (p policy) params() object {
	ref := object{"parameterNotFoundAction": one(p.drawer, "Deny", "Allow")}
	if p.chance(30) {
		ref["selector"] = object{"matchLabels": object{"params": one(p.drawer, "yes", "no")}}
	} else {
		ref["name"] = one(p.drawer, "params", "params", "absent")
	}
	if p.chance(50) {
		ref["namespace"] = p.name
	}
	return ref
}

func (p policy) addValidations(spec object) {
	var all []any
	for range 1 + p.IntN(2) {
		v := object{"expression": one(p.drawer, validations...)}
		if p.chance(40) {
			v["message"] = "it is not so"
		}
		if p.chance(40) {
			v["messageExpression"] = one(p.drawer, "'of ' + object.metadata.name", "string(object.spec.replicas)", "''", "'two\\nlines'")
		}
		if p.chance(30) {
			v["reason"] = one(p.drawer, "Forbidden", "Unauthorized", "RequestEntityTooLarge", "Invalid")
		}
		all = append(all, v)
	}
	spec["validations"] = all
	spec["auditAnnotations"] = list(object{"key": "seen", "valueExpression": one(p.drawer, "'x'", "object.data.a", "null")})
}

func (p policy) addMutations(spec object) {
	var all []any
	for range 1 + p.IntN(2) {
		m := one(p.drawer, mutations...)
		field := strings.ToLower(m.of[:1]) + m.of[1:]
		if m.of == "JSONPatch" {
			field = "jsonPatch"
		}
		all = append(all, object{"patchType": m.of, field: object{"expression": m.expression}})
	}
	spec["mutations"], spec["reinvocationPolicy"] = all, one(p.drawer, "Never", "IfNeeded")
}

// requestsIn are those that a policy or a webhook may match.
func requestsIn(d drawer, namespace, what string) (all []drawn) {
	template := func() object {
		return object{"containers": list(object{"name": "a", "image": one(d, "example.com/a", "other/a")})}
	}
	for _, u := range []*unstructured.Unstructured{
		made("v1", "ConfigMap", one(d, "a", "denied", "skipped"), namespace, object{"data": object{"a": one(d, "x", "y")}}),
		made("v1", "Pod", "a", namespace, object{"metadata": object{"labels": object{"app": "web"}}, "spec": template()}),
		made("apps/v1", "Deployment", "a", namespace, object{"spec": object{"replicas": int64(d.IntN(3)),
			"selector": object{"matchLabels": object{"a": "b"}}, "template": object{"metadata": object{"labels": object{"a": "b"}}, "spec": template()}}}),
	} {
		all = append(all, request(u, what+" of "+namespace))
	}
	return all
}

func request(u *unstructured.Unstructured, what string) drawn {
	text, _ := u.MarshalJSON()
	return drawn{Request: byJane(engine.Request{Object: text, Operation: admissionv1.Create}), what: what}
}

func made(version, kind, name, namespace string, content object) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	u.SetAPIVersion(version)
	u.SetKind(kind)
	u.SetName(name)
	u.SetNamespace(namespace)
	return u
}

func TestPolicies(t *testing.T) {
	s := theServer(t)
	t.Logf("USHER_ORACLE_SEED=%d", seed)
	e, err := engine.New(t.Context(), engine.Cluster{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var requests, refusals []drawn
	for i := range draws / 8 {
		for _, mutate := range []bool{false, true} {
			p := policy{newDrawer(seed, 3_000_000+i), fmt.Sprintf("policy%t%d", mutate, i), mutate}
			for _, o := range p.objects() {
				if s.store(o) != nil {
					refusals = append(refusals, request(o, "the policy itself"))
				} else if strings.Contains(o.GetKind(), "AdmissionPolicy") {
					defer s.remove(t, o)
				}
			}
			requests = append(requests, requestsIn(p.drawer, p.name, p.kind())...)
		}
	}
	s.settle(t)
	cluster, err := s.list()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, s, engine.Cluster{Objects: cluster}, append(refusals, requests...))
}

// settle returns when the policies that the API server stores decide: when the last ones do.
func (s *server) settle(t *testing.T) {
	t.Helper()
	const name = "last-policy"
	rules := object{"resourceRules": list(ruleOf("configmaps"))}
	validates := object{"matchConstraints": rules, "validations": list(object{"expression": "object.metadata.name != 'last'"})}
	mutates := object{"matchConstraints": rules, "reinvocationPolicy": "Never", "mutations": list(object{"patchType": "JSONPatch",
		"jsonPatch": object{"expression": "[JSONPatch{op: 'add', path: '/data', value: {'a': 'b'}}]"}})}
	const version = "admissionregistration.k8s.io/v1"
	for _, o := range []*unstructured.Unstructured{
		made("v1", "Namespace", name, "", object{}),
		made(version, "ValidatingAdmissionPolicy", name, "", object{"spec": validates}),
		made(version, "ValidatingAdmissionPolicyBinding", name, "",
			object{"spec": object{"policyName": name, "matchResources": in(name), "validationActions": list("Deny")}}),
		made(version, "MutatingAdmissionPolicy", name, "", object{"spec": mutates}),
		made(version, "MutatingAdmissionPolicyBinding", name, "", object{"spec": object{"policyName": name, "matchResources": in(name)}}),
	} {
		if err := s.store(o); err != nil {
			t.Fatal(err)
		}
		if o.GetKind() != "Namespace" {
			t.Cleanup(func() { s.remove(t, o) })
		}
	}
	if err := eventually(func() error { return s.decides(name) }); err != nil {
		t.Fatal(err)
	}
}

// ruleOf matches the creation of resources.
func ruleOf(resources ...any) object {
	return object{"apiGroups": list("", "apps"), "apiVersions": list("v1"), "operations": list("CREATE"), "resources": resources}
}

// in selects a Namespace.
func in(namespace string) object {
	return object{"namespaceSelector": object{"matchLabels": object{"kubernetes.io/metadata.name": namespace}}}
}

// decides reports an error until both policies of that name decide.
func (s *server) decides(name string) error {
	refused, err := s.judge(request(made("v1", "ConfigMap", "last", name, object{}), "").Request)
	if err != nil {
		return err
	}
	mutated, err := s.judge(request(made("v1", "ConfigMap", "first", name, object{}), "").Request)
	if err == nil && (refused.Code < 300 || !strings.Contains(mutated.raw, `"a":"b"`)) {
		err = fmt.Errorf("%s, %s", refused, mutated.raw)
	}
	return err
}
