package doctor

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"

	"usher.dev/usher/e2e/kubetest"
)

type object = kubetest.Object

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// configurations returns random configurations, two of each kind, and the one with the first webhook.
func (r *recorder) configurations(random *rand.Rand) (all []object) {
	all = append(all, configuration("Mutating", "a-first", r.hook(first, object{"rules": []any{object{
		"apiGroups": []any{"*"}, "apiVersions": []any{"*"}, "operations": []any{"*"}, "resources": []any{"*/*"}}}})))
	for _, kind := range []string{"Mutating", "Validating"} {
		for _, name := range []string{"c", "b"} {
			var hooks []any
			for i := range 5 {
				w := randomHook(random)
				if kind == "Mutating" && name == "b" && i == 0 {
					w = refusing()
				}
				hooks = append(hooks, r.hook(fmt.Sprintf("%c%s%d.doctor.test", kind[0]|0x20, name, i), w))
			}
			all = append(all, configuration(kind, name, hooks...))
		}
	}
	return all
}

func configuration(kind, name string, hooks ...any) object {
	return plain(object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind + "WebhookConfiguration", "metadata": object{"name": name}, "webhooks": append([]any{}, hooks...)})
}

// plain returns an object as it is after it was read from JSON.
func plain(o object) (read object) {
	raw, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(raw, &read)
	}
	if err != nil {
		panic(err)
	}
	return read
}

// refusing returns a webhook because of which the API server refuses each new object whose name it generates.
func refusing() object {
	return object{"failurePolicy": "Fail",
		"rules":           []any{object{"apiGroups": []any{"*"}, "apiVersions": []any{"*"}, "operations": []any{"CREATE"}, "resources": []any{"*"}}},
		"matchConditions": []any{object{"name": "named", "expression": `!(request.userInfo.username in ["ann", "bob"]) || object.metadata.name != ""`}}}
}

func randomHook(random *rand.Rand) object {
	w := object{"failurePolicy": "Ignore", "matchPolicy": pick(random, "Exact", "Equivalent")}
	var rules []any
	for range 1 + random.IntN(2) {
		rules = append(rules, randomRule(random))
	}
	w["rules"] = rules
	if random.IntN(3) == 0 {
		w["namespaceSelector"] = randomSelector(random, "team", "red", "blue")
	}
	if random.IntN(3) == 0 {
		w["objectSelector"] = randomSelector(random, "app", "web", "api")
	}
	if random.IntN(2) == 0 {
		w["matchConditions"] = randomConditions(random)
	}
	if random.IntN(3) == 0 {
		w["failurePolicy"] = "Fail"
		for _, c := range list(w["matchConditions"]) { // the test's own requests, and usherctl doctor's, must not be refused
			c := c.(object)
			c["expression"] = fmt.Sprintf(`!(request.userInfo.username in ["ann", "bob"]) || (%s)`, c["expression"])
		}
	}
	return w
}

func list(of any) []any {
	all, _ := of.([]any)
	return all
}

// targets lists what rules are for: group, versions, resource.
var targets = [][3]string{{"", "v1", "pods"}, {"", "v1", "pods/*"}, {"", "v1", "pods/ephemeralcontainers"}, {"", "v1", "pods/binding"}, {"", "v1", "configmaps"},
	{"", "v1", "nodes"}, {"", "v1", "nodes/status"}, {"", "v1", "namespaces"}, {"apps", "v1", "deployments"}, {"apps", "v1", "deployments/scale"},
	{"doctor.test", "v1", "gadgets"}, {"doctor.test", "v2", "gadgets"}, {"doctor.test", "v2", "gadgets"}, {"doctor.test", "v2", "gadgets/status"}, {"doctor.test", "*", "*"},
	{"autoscaling", "v1", "horizontalpodautoscalers"}, {"autoscaling", "v2", "horizontalpodautoscalers"}, {"", "v1", "events"}, {"events.k8s.io", "v1", "events"},
	{"*", "*", "*"}, {"*", "*", "*"}, {"*", "*", "*/*"}, {"*", "*", "*/*"}, {"*", "*", "*/status"}, {"*", "*", "*/scale"}, {"*", "v1", "*"},
	{"authorization.k8s.io", "v1", "*"}, {"admissionregistration.k8s.io", "v1", "*"}}

func randomRule(random *rand.Rand) object {
	target := pick(random, targets...)
	rule := object{"apiGroups": []any{target[0]}, "apiVersions": []any{target[1]}, "resources": []any{target[2]},
		"operations": pick(random, []any{"*"}, []any{"*"}, []any{"CREATE"}, []any{"CREATE", "UPDATE"}, []any{"UPDATE", "DELETE"}, []any{"CREATE", "CONNECT"})}
	if scope := pick(random, "", "", "*", "Namespaced", "Cluster"); scope != "" {
		rule["scope"] = scope
	}
	return rule
}

func randomSelector(random *rand.Rand, key string, values ...any) object {
	value := pick(random, values...)
	switch random.IntN(6) {
	case 0:
		return object{"matchLabels": object{key: value}}
	case 1:
		return object{"matchExpressions": []any{object{"key": key, "operator": "In", "values": values}}}
	case 2:
		return object{"matchExpressions": []any{object{"key": key, "operator": "NotIn", "values": []any{value}}}}
	case 3:
		return object{"matchExpressions": []any{object{"key": key, "operator": pick(random, "Exists", "DoesNotExist")}}}
	case 4:
		return object{"matchExpressions": []any{object{"key": "kubernetes.io/metadata.name", "operator": pick(random, "In", "NotIn"), "values": []any{"red", "bare"}}}}
	}
	return object{"matchLabels": object{"tier": "a"}, "matchExpressions": []any{object{"key": key, "operator": "Exists"}}}
}

// expressions are for match conditions. Some have no result for some objects.
var expressions = []string{
	"true", "!(request.userInfo.username == 'ann')", `!("ops" in request.userInfo.groups)`, `request.operation != "DELETE"`,
	`object == null || has(object.metadata.labels)`, `has(object.metadata.labels) && object.metadata.labels.app == "web"`, `oldObject != null`,
	`request.namespace != "blue"`, `request.subResource == "status"`, `request.dryRun`, `!has(request.subResource)`,
	`authorizer.group("doctor.test").resource("gadgets").check("use").allowed()`, `authorizer.requestResource.check("delete").allowed()`,
	`object.metadata.name.startsWith("x")`, `request.kind.version == "v2"`, `object.metadata.annotations["a"] == "b"`, `request.name != ""`,
	`request.resource.resource != "gadgets" || object.spec.size > 1`, `request.requestKind == request.kind`, `namespaceObject == null`,
	`oldObject == null || object == null || object.metadata.?labels.app != oldObject.metadata.?labels.app`,
}

func randomConditions(random *rand.Rand) (conditions []any) {
	for i := range 1 + random.IntN(2) {
		conditions = append(conditions, object{"name": fmt.Sprintf("c%d", i), "expression": pick(random, expressions...)})
	}
	return conditions
}

// request is a request of a test, with the flags of usherctl doctor that describe it.
type request struct {
	user, method, path string
	body               object // nil for none
	operation, sub     string
	manifest, old      object // manifest is nil for what only an AdmissionReview can say
}

func labels(random *rand.Rand) object {
	of := object{}
	if random.IntN(3) > 0 {
		of["app"] = pick(random, "web", "api")
	}
	if random.IntN(3) > 0 {
		of["tier"] = pick(random, "a", "b")
	}
	return of
}

// thing is a kind of objects that are created, updated and deleted.
type thing struct {
	apiVersion, kind, path string
	cluster                bool
	fields                 object
}

var (
	podSpec     = object{"serviceAccountName": "default", "containers": []any{object{"name": "a", "image": "a"}}}
	deployments = thing{"apps/v1", "Deployment", "/apis/apps/v1/*/deployments", false, object{"spec": object{
		"selector": object{"matchLabels": object{"x": "y"}}, "template": object{"metadata": object{"labels": object{"x": "y"}}, "spec": podSpec}}}}
	pods   = thing{"v1", "Pod", "/api/v1/*/pods", false, object{"spec": podSpec}}
	nodes  = thing{"v1", "Node", "/api/v1/nodes", true, object{}}
	scaled = object{"maxReplicas": 3, "scaleTargetRef": object{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}
	things = []thing{pods, pods, deployments, nodes,
		{"v1", "ConfigMap", "/api/v1/*/configmaps", false, object{}},
		{"v1", "Namespace", "/api/v1/namespaces", true, object{}},
		{"doctor.test/v1", "Gadget", "/apis/doctor.test/v1/*/gadgets", false, object{"spec": object{"size": 1}}},
		{"doctor.test/v2", "Gadget", "/apis/doctor.test/v2/*/gadgets", false, object{"spec": object{"size": 2}}},
		{"autoscaling/v1", "HorizontalPodAutoscaler", "/apis/autoscaling/v1/*/horizontalpodautoscalers", false, object{"spec": scaled}},
		{"autoscaling/v2", "HorizontalPodAutoscaler", "/apis/autoscaling/v2/*/horizontalpodautoscalers", false, object{"spec": scaled}},
	}
)

// in returns the path of a collection in a namespace.
func (th thing) in(namespace string) string {
	for i, c := range th.path {
		if c == '*' {
			return th.path[:i] + "namespaces/" + namespace + th.path[i+1:]
		}
	}
	return th.path
}

func (th thing) object(namespace, name string, labels object) object {
	meta := object{"name": name, "labels": labels}
	if !th.cluster {
		meta["namespace"] = namespace
	}
	made := object{"apiVersion": th.apiVersion, "kind": th.kind, "metadata": meta}
	maps.Copy(made, th.fields)
	return made
}

const dry = "?dryRun=All"

// randomRequest returns a request. get returns a stored object.
func randomRequest(random *rand.Rand, get func(th thing, namespace string) object) request {
	r := request{user: pick(random, "ann", "bob")}
	namespace, th := pick(random, namespaces...), pick(random, things...)
	switch random.IntN(16) {
	case 0, 1, 2, 3, 4:
		r.create(random, th, namespace)
	case 5, 6, 7:
		r.update(random, th, namespace, "", get)
	case 8, 9:
		stored := get(th, namespace)
		r.method, r.path, r.operation, r.manifest = "DELETE", th.in(namespace)+"/"+stored.String("metadata", "name")+dry, "DELETE", stored
	case 10:
		r.update(random, pick(random, pods, nodes, nodes, things[6], deployments), namespace, "status", get)
	case 11:
		r.update(random, pods, namespace, "ephemeralcontainers", get)
	case 12:
		r.scale(random, namespace, get)
	case 13:
		r.podSubresource(random, namespace, get)
	case 14:
		name := get(pods, namespace).String("metadata", "name")
		r.method, r.operation, r.sub, r.manifest = "GET", "CONNECT", "proxy", pods.object(namespace, name, object{})
		r.path = pods.in(namespace) + "/" + name + "/proxy"
	case 15:
		r.special(random, namespace)
	}
	return r
}

func (r *request) create(random *rand.Rand, th thing, namespace string) {
	r.method, r.operation, r.path = "POST", "CREATE", th.in(namespace)+dry
	r.body = th.object(namespace, pick(random, "x1", "y1"), labels(random))
	if random.IntN(4) == 0 && th.kind != "Namespace" {
		delete(r.body["metadata"].(object), "name")
		r.body["metadata"].(object)["generateName"] = "x"
	}
	r.manifest = r.body
}

func (r *request) update(random *rand.Rand, th thing, namespace, sub string, get func(thing, string) object) {
	stored := get(th, namespace)
	r.method, r.operation, r.sub, r.old = "PUT", "UPDATE", sub, stored
	r.path = th.in(namespace) + "/" + stored.String("metadata", "name")
	changed := maps.Clone(stored)
	meta := maps.Clone(stored["metadata"].(map[string]any))
	meta["labels"] = labels(random)
	changed["metadata"] = meta
	if sub == "ephemeralcontainers" {
		spec := maps.Clone(stored["spec"].(map[string]any))
		spec["ephemeralContainers"] = []any{object{"name": "e", "image": "e", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}}
		changed["spec"] = spec
	}
	if sub != "" {
		r.path += "/" + sub
	}
	r.path += dry
	r.body, r.manifest = changed, changed
}

func (r *request) scale(random *rand.Rand, namespace string, get func(thing, string) object) {
	stored := get(deployments, namespace)
	name := stored.String("metadata", "name")
	r.method, r.operation, r.sub, r.path = "PUT", "UPDATE", "scale", deployments.in(namespace)+"/"+name+"/scale"+dry
	r.body = object{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": object{"name": name, "namespace": namespace}, "spec": object{"replicas": 1 + random.IntN(3)}}
	r.manifest = stored
}

func (r *request) podSubresource(random *rand.Rand, namespace string, get func(thing, string) object) {
	name := get(pods, namespace).String("metadata", "name")
	meta := object{"name": name, "namespace": namespace, "labels": labels(random)}
	r.method, r.operation, r.sub = "POST", "CREATE", pick(random, "binding", "eviction")
	r.body = object{"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": object{"kind": "Node", "name": "n0"}}
	if r.sub == "eviction" {
		r.body = object{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
	}
	r.path, r.manifest = pods.in(namespace)+"/"+name+"/"+r.sub+dry, r.body
}

// special are kinds with rules of their own: events, which two groups share, reviews, and webhook configurations.
func (r *request) special(random *rand.Rand, namespace string) {
	r.method, r.operation = "POST", "CREATE"
	meta := object{"name": "x1", "namespace": namespace, "labels": labels(random)}
	about := object{"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": namespace}
	switch random.IntN(4) {
	case 0:
		r.path = "/api/v1/namespaces/" + namespace + "/events" + dry
		r.body = object{"apiVersion": "v1", "kind": "Event", "metadata": meta, "involvedObject": about}
	case 1:
		r.path = "/apis/events.k8s.io/v1/namespaces/" + namespace + "/events" + dry
		r.body = object{"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": meta, "regarding": about, "eventTime": "2026-11-01T00:00:00.000000Z",
			"action": "a", "reason": "r", "type": "Normal", "reportingController": "doctor.test/x", "reportingInstance": "x"}
	case 2:
		r.path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
		r.body = object{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": object{},
			"spec": object{"user": "ann", "nonResourceAttributes": object{"path": "/x", "verb": "get"}}}
	case 3:
		r.path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations" + dry
		r.body = configuration("Validating", "x1")
	}
	r.manifest = r.body
}
