package policies

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// rule is a rule of usher and a ValidatingAdmissionPolicy at once.
type rule struct {
	name, group, resource string
	operations            []string
	conditions, variables []named
	validations           []validation
}

type named struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

type validation struct {
	Expression        string `json:"expression"`
	Message           string `json:"message,omitempty"`
	MessageExpression string `json:"messageExpression,omitempty"`
	Reason            string `json:"reason,omitempty"`
}

func one(expression, message string) []validation {
	return []validation{{Expression: expression, MessageExpression: message}}
}

var both = []string{"CREATE", "UPDATE"}

// rules cover what an expression can see and call. Many of them fail for some objects.
var rules = []rule{
	{name: "quantities", resource: "configmaps", conditions: []named{{"has-cpu", "has(object.data) && 'cpu' in object.data"}},
		validations: one("isQuantity(object.data.cpu) && quantity(object.data.cpu).isLessThan(quantity('2'))", "'cpu ' + object.data.cpu + ' is not below 2'")},
	{name: "numbers", resource: "configmaps", validations: one("int(object.data.replicas) <= 5", "'too many: ' + object.data.replicas")},
	{name: "networks", resource: "configmaps", variables: []named{{"ip", "object.?data.ip.orValue('10.0.0.1')"}},
		validations: one("isIP(variables.ip) && cidr('10.0.0.0/8').containsIP(variables.ip)", "variables.ip + ' is not ours'")},
	{name: "strings", resource: "configmaps", variables: []named{{"tags", "object.?data.tags.orValue('').split(',')"}, {"bad", "variables.tags.filter(t, t != t.lowerAscii().trim())"}},
		validations: one("variables.bad.size() == 0", "'bad tags: ' + variables.bad.join('; ')")},
	{name: "immutable", resource: "configmaps", operations: []string{"UPDATE"}, conditions: []named{{"had-mode", "oldObject.?data.mode.hasValue()"}},
		validations: []validation{{Expression: "object.?data.mode.orValue('') == oldObject.data.mode", Message: "mode is immutable", Reason: "Forbidden"},
			{Expression: "object.data == oldObject.data", Message: "data differs"}}},
	{name: "creations", resource: "configmaps", validations: []validation{{Expression: "oldObject == null || has(object.data)", Message: "gone"},
		{Expression: "object != null && (request.operation == 'CREATE') == (oldObject == null)", Message: "no"}}},
	{name: "namespaces", resource: "configmaps", variables: []named{{"team", "namespaceObject.metadata.labels['team']"}},
		validations: one("object.metadata.?labels.team.orValue('none') == variables.team && namespaceObject.status.phase == 'Active' && "+
			"namespaceObject.metadata.annotations['note'] == 'yes' && namespaceObject.metadata.name == request.namespace", "'the team is ' + variables.team")},
	{name: "requests", resource: "configmaps", validations: []validation{
		{Expression: "request.name == object.metadata.name && request.dryRun && request.resource.resource == 'configmaps' && request.kind.kind == 'ConfigMap'", Message: "no"},
		{Expression: "request.userInfo.groups.exists(g, g == 'system:masters') && request.userInfo.username == 'admin'", Message: "not the admin"},
		{Expression: "!has(request.subResource) && request.requestKind == request.kind && request.requestResource == request.resource", Message: "another request"},
		{Expression: "request.?options.dryRun[?0].orValue('') == 'All' && request.operation == 'UPDATE'", MessageExpression: "'options: ' + string(request.options.kind)"},
	}},
	{name: "messages", resource: "configmaps", validations: []validation{
		{Expression: "object.?data.mode.orValue('x') != 'a'", MessageExpression: "'two\\nlines'", Message: " said instead "},
		{Expression: "object.?data.mode.orValue('x') != 'b'", MessageExpression: "string(object.data.missing)"},
		{Expression: "object.?data.mode.orValue('x') != 'c'", MessageExpression: "'  '", Message: "empty"},
	}},
	{name: "replicas", group: "apps", resource: "deployments", variables: []named{{"n", "object.spec.replicas"}, {"most", "namespaceObject.metadata.labels.team == 'red' ? 3 : 9"}},
		validations: one("variables.n <= variables.most", "string(variables.n) + ' of ' + string(variables.most)")},
	{name: "sums", group: "apps", resource: "deployments", variables: []named{{"containers", "object.spec.template.spec.containers"},
		{"cpu", "variables.containers.map(c, quantity(c.?resources.requests.cpu.orValue('0')).asApproximateFloat()).sum()"}},
		validations: []validation{{Expression: "variables.cpu < 2.5", Message: "too much"}, {Expression: "variables.containers.size() < 3", Message: "too many"}}},
	{name: "images", group: "apps", resource: "deployments", variables: []named{{"bad", "object.spec.template.spec.containers.filter(c, !c.image.matches('^registry[.]example[.]com/[a-z]+:[0-9.]+$'))"}},
		validations: one("variables.bad.size() == 0", "'bad images: ' + variables.bad.map(c, c.name + '=' + c.image).join(', ')")},
	{name: "limits", group: "apps", resource: "deployments",
		validations: one("object.spec.template.spec.containers.all(c, c.resources.limits.memory == c.resources.requests.memory)", "'of ' + object.metadata.name")},
	{name: "labels", group: "apps", resource: "deployments", validations: []validation{
		{Expression: "object.spec.selector.matchLabels.all(k, k in object.spec.template.metadata.labels)", Message: "selector"},
		{Expression: "object.spec.selector.matchLabels.all(k, v, v == object.metadata.labels[k])", Message: "own labels"}}},
	{name: "types", group: "e2e.usher.dev", resource: "widgets", validations: []validation{
		{Expression: "type(object.spec.x) == int || type(object.spec.x) == string", Message: "type"},
		{Expression: "!has(object.spec.x.a) || object.spec.x.a != null", Message: "null"},
		{Expression: "object.spec.?x.?b.orValue(1) == 1", Message: "optional"}}},
	{name: "equality", group: "e2e.usher.dev", resource: "widgets", validations: []validation{
		{Expression: "object.spec.x != object.spec.y", Message: "same"}, {Expression: "{'v': object.spec.x} != {'v': object.spec.?y.orValue(dyn(0))}", Message: "same in a map"},
		{Expression: "!(object.spec.x in object.spec.y)", Message: "in"}, {Expression: "object.spec.x < object.spec.y", Message: "order"}}},
	{name: "lists", group: "e2e.usher.dev", resource: "widgets", conditions: []named{{"list", "type(object.spec.x) == list"}}, validations: []validation{
		{Expression: "object.spec.x.size() < 2", MessageExpression: "'has ' + string(object.spec.x.size())"}, {Expression: "object.spec.x.all(v, v != 'a')", Message: "a"},
		{Expression: "object.spec.x.sum() > 0", Message: "sum"}, {Expression: "object.spec.x.exists(i, v, i == 0 && v == 1)", Message: "first"},
		{Expression: "(object.spec.x + [1]).exists_one(v, v == 1)", Message: "once"}, {Expression: "object.spec.x[0] == object.spec.x[?0].value()", Message: "index"}}},
	{name: "maps", group: "e2e.usher.dev", resource: "widgets", conditions: []named{{"map", "type(object.spec.x) == map"}}, validations: []validation{
		{Expression: "object.spec.x.size() > 0", Message: "empty"}, {Expression: "object.spec.x.all(k, k in ['a', 'b'])", Message: "keys"},
		{Expression: "!('a' in object.spec.x) || object.spec.x['a'] == object.spec.x.a", Message: "key"}, {Expression: "object.spec.x.exists(k, v, v == null)", Message: "no null"}}},
	{name: "numbers-of-widgets", group: "e2e.usher.dev", resource: "widgets", conditions: []named{{"number", "type(object.spec.x) == int || type(object.spec.x) == double"}}, validations: []validation{
		{Expression: "object.spec.x > 1.2 && object.spec.x >= 2", MessageExpression: "'is ' + string(object.spec.x)"}, {Expression: "object.spec.x + 1 < 100", Message: "big"},
		{Expression: "object.spec.x / 2 >= 0", Message: "half"}}},
}

// match returns the requests of a rule as both write them.
func (r rule) match() kubetest.Object {
	operations := r.operations
	if operations == nil {
		operations = both
	}
	return kubetest.Object{"apiGroups": []string{r.group}, "apiVersions": []string{"v1"}, "resources": []string{r.resource}, "operations": operations}
}

// ofUsher returns the rule as usher's policy has it. It refuses what it cannot evaluate, as the policies with their
// failurePolicy, and does not ratchet.
func (r rule) ofUsher() kubetest.Object {
	return kubetest.Object{"name": r.name, "match": r.match(), "matchConditions": r.conditions, "variables": r.variables, "validations": r.validations,
		"ratchet": false, "onError": "deny"}
}

// ofAPIServer returns the rule as a policy that warns of each violation in the namespace of the test.
func (r rule) ofAPIServer() string {
	policy := kubetest.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": kubetest.Object{"name": r.name},
		"spec": kubetest.Object{"matchConstraints": kubetest.Object{"resourceRules": []any{r.match()}}, "failurePolicy": "Fail",
			"matchConditions": r.conditions, "variables": r.variables, "validations": r.validations}}
	binding := kubetest.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": kubetest.Object{"name": r.name},
		"spec": kubetest.Object{"policyName": r.name, "validationActions": []string{"Warn"},
			"matchResources": kubetest.Object{"namespaceSelector": kubetest.Object{"matchLabels": kubetest.Object{"compare": "rules"}}}}}
	return kubetest.Encode(policy) + "\n---\n" + kubetest.Encode(binding)
}

const widgets = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.e2e.usher.dev"},
	"spec": {"group": "e2e.usher.dev", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
	"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
		{"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}}`

// TestRulesAgreeWithPolicies: on 1,000 objects, and more until each rule is violated by one, each rule has the verdict and
// the message of the policy with the same expressions. Both judge the same request: the policies warn, and usher, which is
// asked afterwards, refuses.
func TestRulesAgreeWithPolicies(t *testing.T) {
	ctx := cluster.Within(t, 5*time.Minute)
	cluster.MustApply(ctx, t, widgets)
	var ofUsher []kubetest.Object
	var ofAPIServer []string
	for _, r := range rules {
		ofUsher, ofAPIServer = append(ofUsher, r.ofUsher()), append(ofAPIServer, r.ofAPIServer())
	}
	cluster.MustApply(ctx, t, strings.Join(ofAPIServer, "\n---\n"))
	namespace(ctx, t, "compare", kubetest.Object{"team": "red", "compare": "rules"}, kubetest.Object{"note": "yes"})
	random := kubetest.Random(t)
	stored := storeConfigMaps(ctx, t, random)
	serve(ctx, t, kubetest.Encode(kubetest.Object{"rules": ofUsher}))
	namespace(ctx, t, "compare", kubetest.Object{"team": "red", "compare": "rules", "admission-webhook": "enabled"}, kubetest.Object{"note": "yes"})
	await(ctx, t)

	seen := map[string]int{}
	for i := 0; i < 1000 || len(unseen(seen)) > 0 && i < 5000; i++ {
		method, path, object := change(random, i, stored)
		policies, ours := judge(ctx, t, method, path, object)
		if !slices.Equal(policies, ours) {
			t.Errorf("%s %s %s\nthe API server: %q\nusher:          %q", method, path, kubetest.Encode(object), policies, ours)
		}
		for _, verdict := range policies {
			name, what, _ := strings.Cut(verdict, ": ")
			seen[name]++
			if what == failure {
				seen[failure]++
			}
		}
		if len(policies) == 0 {
			seen["allowed"]++
		}
	}
	t.Log(seen)
	if missing := unseen(seen); len(missing) > 0 {
		t.Errorf("none of 5,000 objects has the verdicts %q", missing)
	}
}

// unseen returns which verdicts were not seen yet: each rule is violated, an expression fails, and an object is allowed.
func unseen(seen map[string]int) (all []string) {
	for _, r := range rules {
		all = append(all, r.name)
	}
	all = append(all, failure, "allowed")
	return slices.DeleteFunc(all, func(what string) bool { return seen[what] > 0 })
}

// await waits until the API server applies all policies and calls usher.
func await(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := kubetest.Eventually(ctx, func(ctx context.Context) error {
		policies, ours, err := verdicts(ctx, "POST", "/api/v1/namespaces/compare/configmaps", kubetest.Object{"metadata": kubetest.Object{"name": "probe"}})
		if err == nil && (len(ours) == 0 || !slices.Equal(policies, ours)) {
			err = fmt.Errorf("the policies say %q, usher says %q", policies, ours)
		}
		if err == nil {
			policies, ours, err = verdicts(ctx, "POST", "/apis/e2e.usher.dev/v1/namespaces/compare/widgets", kubetest.Object{
				"apiVersion": "e2e.usher.dev/v1", "kind": "Widget", "metadata": kubetest.Object{"name": "probe"}, "spec": kubetest.Object{}})
			if err == nil && (len(ours) == 0 || !slices.Equal(policies, ours)) {
				err = fmt.Errorf("the policies say %q, usher says %q", policies, ours)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func judge(ctx context.Context, t *testing.T, method, path string, object kubetest.Object) (policies, ours []string) {
	t.Helper()
	policies, ours, err := verdicts(ctx, method, path, object)
	if err != nil {
		t.Fatalf("%s %s: %v", path, kubetest.Encode(object), err)
	}
	return policies, ours
}

// failure is the comparable part of an expression's failure: the texts of the errors differ.
const failure = "no result"

var (
	warned = regexp.MustCompile(`^Validation failed for ValidatingAdmissionPolicy '([^']*)' with binding '[^']*': (.*)$`)
	denied = regexp.MustCompile(`^(?:Invalid value|Forbidden): (.*) \(rule ([a-z-]+)\) \(usher, step rules, refusal [0-9a-f]{8}\)$`)
	failed = regexp.MustCompile(`^Forbidden: rule ([a-z-]+) could not be evaluated`)
)

// verdicts sends a dry run, and returns what the policies warn of and what usher refuses, as sorted "rule: message".
func verdicts(ctx context.Context, method, path string, object kubetest.Object) (policies, ours []string, err error) {
	response, err := cluster.Admin().Do(ctx, method, path+"?dryRun=All", "application/json", object)
	if err != nil {
		return nil, nil, err
	}
	for _, warning := range response.Warnings {
		if m := warned.FindStringSubmatch(warning); m != nil {
			if strings.HasPrefix(m[2], "expression '") || strings.Contains(m[2], "resulted in error") {
				m[2] = failure
			}
			policies = append(policies, m[1]+": "+m[2])
		}
	}
	if refused, ok := errors.AsType[*kubetest.StatusError](response.Err()); ok {
		if !strings.Contains(refused.Message, "rules: ") {
			return nil, nil, refused
		}
		for _, cause := range refused.Object.List("details", "causes") {
			ours = append(ours, verdictOf(cause.String("message")))
		}
	}
	slices.Sort(policies)
	slices.Sort(ours)
	return slices.Compact(policies), slices.Compact(ours), nil // the API server warns once of the same
}

func verdictOf(message string) string {
	if m := failed.FindStringSubmatch(message); m != nil {
		return m[1] + ": " + failure
	}
	if m := denied.FindStringSubmatch(message); m != nil {
		return m[2] + ": " + m[1]
	}
	return message
}

const configMaps, deployments = "/api/v1/namespaces/compare/configmaps", "/apis/apps/v1/namespaces/compare/deployments"

// storeConfigMaps stores objects for updates, before usher is called for them. They are removed when the test has ended.
func storeConfigMaps(ctx context.Context, t *testing.T, random *rand.Rand) (all []kubetest.Object) {
	t.Helper()
	for i := range 20 {
		made := configMap(random, fmt.Sprintf("stored-%d", i))
		if err := kubetest.Eventually(ctx, func(ctx context.Context) error { // -count=2: usher is still called for some time
			stored, err := cluster.Admin().Create(ctx, configMaps, made)
			if err == nil {
				all = append(all, stored)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		cluster.DeleteAfter(t, fmt.Sprintf("%s/stored-%d", configMaps, i))
	}
	return all
}

// change returns a random request.
func change(random *rand.Rand, i int, stored []kubetest.Object) (method, path string, object kubetest.Object) {
	name := fmt.Sprintf("new-%d", i)
	switch i % 4 {
	case 0:
		return http.MethodPost, configMaps, configMap(random, name)
	case 1:
		old := stored[random.IntN(len(stored))]
		object := configMap(random, old.String("metadata", "name"))
		if random.IntN(4) == 0 {
			object["data"] = old["data"]
		}
		return http.MethodPut, configMaps + "/" + old.String("metadata", "name"), object
	case 2:
		return http.MethodPost, deployments, deployment(random, name)
	}
	return http.MethodPost, "/apis/e2e.usher.dev/v1/namespaces/compare/widgets", kubetest.Object{"apiVersion": "e2e.usher.dev/v1", "kind": "Widget",
		"metadata": kubetest.Object{"name": name}, "spec": kubetest.Object{"x": value(random, 2), "y": value(random, 2)}}
}

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

func configMap(random *rand.Rand, name string) kubetest.Object {
	values := map[string][]string{
		"cpu": {"1", "500m", "3", "x", "1e3"}, "replicas": {"1", "9", "many", "5"}, "ip": {"10.1.2.3", "192.168.0.1", "::1", "none"}, "mode": {"a", "b", "c"},
		"tags": {"a,b", "A,b", "a, c", ""},
	}
	data := kubetest.Object{}
	for _, key := range []string{"cpu", "replicas", "ip", "mode", "tags"} {
		if random.IntN(3) > 0 {
			data[key] = pick(random, values[key]...)
		}
	}
	if random.IntN(8) == 0 { // which the fields above hardly ever make
		clear(data)
	}
	object := kubetest.Object{"metadata": kubetest.Object{"name": name}, "data": data}
	if random.IntN(4) > 0 {
		object["metadata"].(kubetest.Object)["labels"] = kubetest.Object{"team": pick(random, "red", "red", "blue")}
	}
	return object
}

func deployment(random *rand.Rand, name string) kubetest.Object {
	labels := kubetest.Object{"app": pick(random, "a", "b")}
	var containers []kubetest.Object
	for i := range 1 + random.IntN(3) {
		container := kubetest.Object{"name": fmt.Sprintf("c%d", i), "image": pick(random, "nginx", "registry.example.com/a:1.2", "registry.example.com/a:1.2", "registry.example.com/a")}
		if random.IntN(3) > 0 {
			container["resources"] = kubetest.Object{"requests": kubetest.Object{"cpu": pick(random, "1", "500m", "2"), "memory": "1Gi"},
				"limits": kubetest.Object{"memory": pick(random, "1Gi", "1024Mi", "2Gi")}}
		}
		containers = append(containers, container)
	}
	object := kubetest.Object{"metadata": kubetest.Object{"name": name, "labels": kubetest.Object{"app": pick(random, "a", "b")}},
		"spec": kubetest.Object{"selector": kubetest.Object{"matchLabels": labels},
			"template": kubetest.Object{"metadata": kubetest.Object{"labels": labels}, "spec": kubetest.Object{"containers": containers}}}}
	if random.IntN(2) > 0 {
		object["spec"].(kubetest.Object)["replicas"] = random.IntN(7)
	}
	return object
}

// value returns a random value of JSON. It has no whole number with a fraction, such as 1.0: the API server sends it to
// a webhook as 1.
func value(random *rand.Rand, depth int) any {
	scalars := []any{0, 1, 2, -1, 500, 1.5, 2.25, 1e300, "", "a", "b", "1", true, false, nil}
	kind := random.IntN(3)
	if depth == 0 || kind == 0 {
		return pick(random, scalars...)
	}
	if kind == 1 {
		list := []any{}
		for range random.IntN(4) {
			list = append(list, value(random, depth-1))
		}
		return list
	}
	object := kubetest.Object{}
	for _, key := range []string{"a", "b", "c"} {
		if random.IntN(2) > 0 {
			object[key] = value(random, depth-1)
		}
	}
	return object
}
