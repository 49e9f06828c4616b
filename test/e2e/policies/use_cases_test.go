package policies

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/binaries"
	"usher.dev/usher/e2e/kubetest"
)

// useCase compares a file of samples/admission-policies with the steps that do the same.
type useCase struct {
	name        string // of the file
	policy      string // usher's policy; "" if there is no such step yet: the policies are compared with what is expected only
	labels      kubetest.Object
	annotations kubetest.Object
	cases       []useCaseRequest
}

// useCaseRequest is a request and what is expected of it.
type useCaseRequest struct {
	name   string
	kind   string // the collection: pods, deployments or configmaps
	object string // JSON
	stored string // the object that it updates; "": it creates one
	groups []string
	denied bool
	result string // a JSON part that the object must have: of mutations
}

const (
	podOf         = `{"metadata": {"name": %q}, "spec": {"containers": [{"name": "c", "image": "registry.example.com/a:1"}]}}`
	labelledPod   = `{"metadata": {"name": "p", "labels": %s, "annotations": %s}, "spec": {"containers": [{"name": "c", "image": "registry.example.com/a:1"}]}}`
	deploymentOf  = `{"metadata": {"name": "d"}, "spec": {"replicas": %d, "selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "a"}]%s}}}}`
	templateOf    = `{"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": %s}, "spec": {"containers": [{"name": "c", "image": "a"}]}}}}`
	imageOf       = `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": %q}]}}`
	nodeSelector  = `{"metadata": {"name": "p"}, "spec": {"nodeSelector": %s, "containers": [{"name": "c", "image": "registry.example.com/a:1"}]}}`
	envOf         = `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "a", "env": %s}, {"name": "d", "image": "a"}], "initContainers": [{"name": "i", "image": "a"}]}}`
	initOf        = `{"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "a"}], "initContainers": [%s]}}`
	limitsOf      = `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "a", "resources": {"limits": %s}}]}}`
	spread        = `, "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]`
	configMapWith = `{"metadata": {"name": "m"}, "data": {%s}}`
)

func useCases(t *testing.T) []useCase {
	_, labelRules, _ := strings.Cut(read(t, "samples/policies/label.yaml"), "labelRules:")
	runbook := `{"acme.com/runbook": "https://wiki.acme.example/x"}`
	return []useCase{
		{name: "names", policy: `{"names": {"denied": ["offensive", "rude"]}}`, cases: []useCaseRequest{
			{name: "a bad word", kind: "pods", object: fmt.Sprintf(podOf, "offensive-pod"), denied: true},
			{name: "in the middle", kind: "pods", object: fmt.Sprintf(podOf, "very-rude-pod"), denied: true},
			{name: "a good name", kind: "pods", object: fmt.Sprintf(podOf, "polite")},
			{name: "a generated name", kind: "pods", object: `{"metadata": {"generateName": "rude-"}, "spec": {"containers": [{"name": "c", "image": "a"}]}}`, denied: true},
		}},
		{name: "environment", policy: `{"env": [{"name": "KUBE", "value": "true"}]}`, cases: []useCaseRequest{
			{name: "none is set", kind: "pods", object: fmt.Sprintf(envOf, `[]`), result: `{"name": "KUBE", "value": "true"}`},
			{name: "one is set", kind: "pods", object: fmt.Sprintf(envOf, `[{"name": "KUBE", "value": "mine"}]`), result: `{"name": "KUBE", "value": "mine"}`},
			{name: "others are set", kind: "pods", object: fmt.Sprintf(envOf, `[{"name": "A", "value": "b"}]`), result: `{"name": "KUBE", "value": "true"}`},
			{name: "no init containers", kind: "pods", object: fmt.Sprintf(podOf, "p"), result: `{"name": "KUBE", "value": "true"}`},
		}},
		{name: "rules", policy: read(t, "samples/policies/rules.yaml"), labels: kubetest.Object{"tier": "test"}, cases: []useCaseRequest{
			{name: "too many replicas", kind: "deployments", object: fmt.Sprintf(deploymentOf, 5, spread), denied: true},
			{name: "not spread", kind: "deployments", object: fmt.Sprintf(deploymentOf, 2, ""), denied: true},
			{name: "spread", kind: "deployments", object: fmt.Sprintf(deploymentOf, 2, spread)},
			{name: "one replica", kind: "deployments", object: fmt.Sprintf(deploymentOf, 1, "")},
			{name: "a password", kind: "configmaps", object: fmt.Sprintf(configMapWith, `"DB_PASSWORD": "x"`), denied: true},
			{name: "no data", kind: "configmaps", object: `{"metadata": {"name": "m"}}`},
		}},
		{name: "label-rules", policy: "labelRules:" + labelRules, cases: []useCaseRequest{
			{name: "all well", kind: "pods", object: fmt.Sprintf(labelledPod, `{"acme.com/team": "web"}`, `{}`)},
			{name: "a bad team", kind: "pods", object: fmt.Sprintf(labelledPod, `{"acme.com/team": "Web"}`, `{}`), denied: true},
			{name: "no team", kind: "pods", object: fmt.Sprintf(labelledPod, `{}`, `{}`), denied: true},
			{name: "a bad tier", kind: "pods", object: fmt.Sprintf(labelledPod, `{"acme.com/team": "web", "acme.com/tier": "silver"}`, `{}`), denied: true},
			{name: "gold without a runbook", kind: "pods", object: fmt.Sprintf(labelledPod, `{"acme.com/team": "web", "acme.com/tier": "gold"}`, `{}`), denied: true},
			{name: "gold with one", kind: "pods", object: fmt.Sprintf(labelledPod, `{"acme.com/team": "web", "acme.com/tier": "gold"}`, runbook)},
			{name: "a bad template", kind: "deployments", object: fmt.Sprintf(templateOf, `{"app": "d", "acme.com/team": "web", "acme.com/tier": "silver"}`), denied: true},
			{name: "a template without a team", kind: "deployments", object: fmt.Sprintf(templateOf, `{"app": "d"}`), denied: true},
			{name: "a good template", kind: "deployments", object: fmt.Sprintf(templateOf, `{"app": "d", "acme.com/team": "web"}`)},
			{name: "the team changes", kind: "pods", stored: fmt.Sprintf(labelledPod, `{"acme.com/team": "web", "acme.com/tier": "standard"}`, `{}`),
				object: fmt.Sprintf(labelledPod, `{"acme.com/team": "other", "acme.com/tier": "standard"}`, `{}`), denied: true},
			{name: "the team is removed", kind: "pods", stored: fmt.Sprintf(labelledPod, `{"acme.com/team": "web", "acme.com/tier": "standard"}`, `{}`),
				object: fmt.Sprintf(labelledPod, `{"acme.com/tier": "standard"}`, `{}`), denied: true},
			{name: "the tier changes", kind: "pods", stored: fmt.Sprintf(labelledPod, `{"acme.com/team": "web", "acme.com/tier": "standard"}`, `{}`),
				object: fmt.Sprintf(labelledPod, `{"acme.com/team": "web", "acme.com/tier": "gold"}`, runbook)},
		}},
		{name: "label-defaults", policy: `{"labelDefaults": [{"labels": [{"key": "acme.com/team", "fromNamespaceLabel": "team"}, {"key": "acme.com/tier", "value": "standard"}]}]}`,
			labels: kubetest.Object{"team": "red"}, cases: []useCaseRequest{
				{name: "no labels", kind: "pods", object: fmt.Sprintf(podOf, "p"), result: `"labels":{"acme.com/team":"red","acme.com/tier":"standard"}`},
				{name: "a team of its own", kind: "pods", object: fmt.Sprintf(labelledPod, `{"acme.com/team": "web"}`, `{}`), result: `"labels":{"acme.com/team":"web","acme.com/tier":"standard"}`},
				{name: "an empty tier", kind: "pods", object: fmt.Sprintf(labelledPod, `{"acme.com/tier": ""}`, `{}`), result: `"labels":{"acme.com/team":"red","acme.com/tier":""}`},
			}},
		{name: "restrictions", policy: read(t, "samples/policies/restrictions.yaml"), labels: kubetest.Object{"env": "production"}, cases: []useCaseRequest{
			{name: "a developer deploys", kind: "deployments", object: fmt.Sprintf(deploymentOf, 1, ""), groups: []string{"developers"}, denied: true},
			{name: "oncall deploys", kind: "deployments", object: fmt.Sprintf(deploymentOf, 1, ""), groups: []string{"developers", "oncall"}},
			{name: "a developer writes something else", kind: "configmaps", object: fmt.Sprintf(configMapWith, ""), groups: []string{"developers"}},
		}},
		{name: "image-rules", policy: `{"imageRules": [{"name": "ours", "repositories": ["registry.example.com/**"], "refusedTags": ["latest"]}]}`, cases: []useCaseRequest{
			{name: "ours", kind: "pods", object: fmt.Sprintf(imageOf, "registry.example.com/team/a:1.2")},
			{name: "of another registry", kind: "pods", object: fmt.Sprintf(imageOf, "quay.io/team/a:1.2"), denied: true},
			{name: "of the default registry", kind: "pods", object: fmt.Sprintf(imageOf, "nginx:1.2"), denied: true},
			{name: "without a tag", kind: "pods", object: fmt.Sprintf(imageOf, "registry.example.com/a"), denied: true},
			{name: "latest", kind: "pods", object: fmt.Sprintf(imageOf, "registry.example.com/a:latest"), denied: true},
			{name: "a digest", kind: "pods", object: fmt.Sprintf(imageOf, "registry.example.com/a@sha256:"+strings.Repeat("a", 64))},
		}},
		{name: "node-selector", policy: `{"nodeSelector": {}}`, annotations: kubetest.Object{"scheduler.alpha.kubernetes.io/node-selector": "pool=web, zone=a"}, cases: []useCaseRequest{
			{name: "none of its own", kind: "pods", object: fmt.Sprintf(podOf, "p"), result: `"nodeSelector":{"pool":"web","zone":"a"}`},
			{name: "another key", kind: "pods", object: fmt.Sprintf(nodeSelector, `{"disk": "ssd"}`), result: `"nodeSelector":{"disk":"ssd","pool":"web","zone":"a"}`},
			{name: "the same value", kind: "pods", object: fmt.Sprintf(nodeSelector, `{"zone": "a"}`), result: `"nodeSelector":{"pool":"web","zone":"a"}`},
			{name: "a conflict", kind: "pods", object: fmt.Sprintf(nodeSelector, `{"zone": "b"}`), denied: true},
		}},
		{name: "sidecars", policy: `{"sidecars": [{"name": "log-agent", "position": "first", "initContainers": [{"name": "log-agent", "image": "registry.example.com/log-agent:1.4",
			"restartPolicy": "Always", "env": [{"name": "APP", "value": "$(usher.labels['app'])"}]}]}]}`, cases: []useCaseRequest{
			{name: "no init containers", kind: "pods", object: fmt.Sprintf(labelledPod, `{"app": "web"}`, `{}`), result: `"restartPolicy":"Always"`},
			{name: "first of several", kind: "pods", object: fmt.Sprintf(initOf, `{"name": "i", "image": "a"}`), result: `"value":"web"`},
			{name: "there is one", kind: "pods", object: fmt.Sprintf(initOf, `{"name": "log-agent", "image": "registry.example.com/log-agent:1.4", "restartPolicy": "Always", "args": ["own"]}`), result: `"args":["own"]`},
			{name: "there is another", kind: "pods", object: fmt.Sprintf(initOf, `{"name": "log-agent", "image": "own", "restartPolicy": "Always"}`), denied: true},
		}},
		{name: "requests-from-limits", policy: `{"requestsFromLimits": [{"name": "all", "cpuRequestToLimitPercent": 25, "memoryRequestToLimitPercent": 50}]}`, cases: []useCaseRequest{
			{name: "both", kind: "pods", object: fmt.Sprintf(limitsOf, `{"cpu": "2", "memory": "1Gi"}`), result: `"requests":{"cpu":"500m","memory":"536870912"}`},
			{name: "one", kind: "pods", object: fmt.Sprintf(limitsOf, `{"cpu": "100m"}`), result: `"requests":{"cpu":"25m"}`},
			{name: "none", kind: "pods", object: fmt.Sprintf(podOf, "p"), result: `"resources":{}`},
		}},
	}
}

// TestUseCases: for each use case, the policies of samples/admission-policies admit, refuse and make what usher admits,
// refuses and makes.
func TestUseCases(t *testing.T) {
	if binaries.Emulated() != "" {
		t.Skip("version v1 of MutatingAdmissionPolicy came with Kubernetes 1.36")
	}
	all := useCases(t)
	ctx := cluster.Within(t, 5*time.Minute)
	everyUserMayWrite(ctx, t)
	for _, u := range all {
		u.install(ctx, t)
	}
	for _, u := range all {
		t.Run(u.name, func(t *testing.T) {
			if u.policy != "" {
				serve(ctx, t, u.policy)
			}
			u.await(ctx, t)
			for _, c := range u.cases {
				t.Run(c.name, func(t *testing.T) { u.compare(ctx, t, c) })
			}
		})
	}
}

// everyUserMayWrite lets admission decide, and not RBAC.
func everyUserMayWrite(ctx context.Context, t *testing.T) {
	cluster.MustApply(ctx, t, `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "all"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}]}`)
}

// byPolicy and byUsher are the namespaces of a use case in which one of them acts.
func (u useCase) byPolicy() string { return u.name + "-policy" }
func (u useCase) byUsher() string  { return u.name + "-usher" }

func (u useCase) install(ctx context.Context, t *testing.T) {
	t.Helper()
	with := func(key, value string) kubetest.Object {
		labels := kubetest.Object{key: value}
		for k, v := range u.labels {
			labels[k] = v
		}
		return labels
	}
	namespace(ctx, t, u.byPolicy(), with("admission-policies", u.name), u.annotations)
	namespace(ctx, t, u.byUsher(), with("admission-webhook", "enabled"), u.annotations)
	const bound = "{matchLabels: {admission-policies: enabled}}"
	text := read(t, "samples/admission-policies/"+u.name+".yaml")
	if !strings.Contains(text, bound) {
		t.Fatalf("%s has no binding with %s", u.name, bound)
	}
	cluster.MustApply(ctx, t, strings.ReplaceAll(text, bound, "{matchLabels: {admission-policies: "+u.name+"}}"))
}

// await waits until the policies act on the first case that they refuse or change.
func (u useCase) await(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, c := range u.cases {
		if !c.denied && c.result == "" {
			continue
		}
		if err := kubetest.Eventually(ctx, func(ctx context.Context) error {
			denied, object, err := u.send(ctx, u.byPolicy(), c)
			if err == nil && (denied != c.denied || !strings.Contains(object, compact(c.result))) {
				err = fmt.Errorf("%s, %s: denied %v, %s", u.name, c.name, denied, object)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return
	}
}

func (u useCase) compare(ctx context.Context, t *testing.T, c useCaseRequest) {
	namespaces := []string{u.byPolicy()}
	if u.policy != "" {
		namespaces = append(namespaces, u.byUsher())
	}
	var objects []string
	for _, namespace := range namespaces {
		denied, object, err := u.send(ctx, namespace, c)
		switch {
		case err != nil:
			t.Fatal(err)
		case denied != c.denied:
			t.Errorf("in %s it is denied: %v, want %v: %s", namespace, denied, c.denied, object)
		case !denied && !strings.Contains(object, compact(c.result)):
			t.Errorf("in %s it is %s\nwithout %s", namespace, object, c.result)
		}
		if !denied {
			objects = append(objects, object)
		}
	}
	if len(objects) == 2 && objects[0] != objects[1] {
		t.Errorf("the policy makes\n%s\nusher makes\n%s", objects[0], objects[1])
	}
}

// compact returns JSON as it is encoded.
func compact(text string) string { return strings.NewReplacer(`": `, `":`, `, `, `,`).Replace(text) }

// send sends a request as a dry run. The object is returned without what differs from one namespace to the next.
func (u useCase) send(ctx context.Context, namespace string, c useCaseRequest) (denied bool, object string, err error) {
	path := map[string]string{"pods": "/api/v1", "configmaps": "/api/v1", "deployments": "/apis/apps/v1"}[c.kind] + "/namespaces/" + namespace + "/" + c.kind
	method, body := http.MethodPost, c.object
	admin := cluster.Admin()
	if c.stored != "" {
		stored, err := admin.Create(ctx, path, c.stored)
		if err != nil {
			return false, "", err
		}
		method, path, body = http.MethodPatch, path+"/"+stored.String("metadata", "name"), replacingLabels(c.object)
		defer func() { _, _ = admin.Delete(ctx, path) }()
	}
	client := admin
	if c.groups != nil {
		client = admin.Impersonate("somebody", append(c.groups, "system:authenticated")...)
	}
	contentType := "application/json"
	if method == http.MethodPatch {
		contentType = kubetest.JSONPatch
	}
	response, err := client.Do(ctx, method, path+"?dryRun=All", contentType, body)
	if err != nil {
		return false, "", err
	}
	if refusal := response.Err(); refusal != nil {
		if !strings.Contains(refusal.Error(), "denied") {
			return false, "", refusal
		}
		return true, refusal.Error(), nil
	}
	got, err := response.Object()
	if err != nil {
		return false, "", err
	}
	metadata := got["metadata"].(map[string]any)
	for _, own := range []string{"namespace", "uid", "creationTimestamp", "managedFields", "resourceVersion", "name"} {
		delete(metadata, own)
	}
	return false, strings.ReplaceAll(kubetest.Encode(got), `"512Mi"`, `"536870912"`), nil // the same amount
}

// replacingLabels returns the patch that gives an object the labels and annotations of another.
func replacingLabels(object string) string {
	metadata := kubetest.Object{}
	for _, of := range []string{"labels", "annotations"} {
		if value := kubetest.Decode(object).At("metadata", of); value != nil {
			metadata[of] = value
		}
	}
	return kubetest.Encode([]kubetest.Object{{"op": "add", "path": "/metadata/labels", "value": metadata["labels"]},
		{"op": "add", "path": "/metadata/annotations", "value": metadata["annotations"]}})
}
