package e2e

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// usher changes only the fields that its steps are responsible for. The tests check this in three ways: they compare a
// stored object with a twin for which usher was not called; they read every patch from the API server's audit log; and
// a stand-in makes reviews look as if they came from a newer API server, with a field that usher's types do not know in
// every place. The API server itself cannot send such reviews: it drops unknown fields, and usher knows all of its
// fields.

// touched matches the paths of usher's patches.
var touched = regexp.MustCompile(`^(/spec/(initContainers|containers)/\d+/env(/-|/\d+)?|/spec/tolerations(/-)?|` +
	`/status/(allocatable|capacity)/cpu|/metadata/annotations(/usher\.dev~1amplified)?)$`)

// inserted matches the paths of elements, before which an add inserts another one.
var inserted = regexp.MustCompile(`/env/\d+$`)

// patchOf is the patch of a webhook in the audit log.
type patchOf struct {
	Webhook string
	Patch   []operation
}

type operation struct{ Op, Path string }

func checkPatches(t *testing.T, event kubetest.AuditEvent) {
	t.Helper()
	for key, value := range event.Annotations {
		if !strings.HasPrefix(key, "patch.webhook.admission.k8s.io/") {
			continue
		}
		var noted patchOf
		if err := json.Unmarshal([]byte(value), &noted); err != nil || len(noted.Patch) == 0 {
			t.Errorf("the audit log has a patch that is none: %s: %v", value, err)
		}
		for _, o := range noted.Patch {
			if !touched.MatchString(o.Path) {
				t.Errorf("%s patches %s", noted.Webhook, o.Path)
			}
		}
	}
}

// checkTwins compares a pod with the same pod for which usher was not called. It first removes usher's additions.
func checkTwins(t *testing.T, pod, plain kubetest.Object) {
	t.Helper()
	spec := pod.At("spec").(map[string]any)
	takeOff(spec, "tolerations", plain.List("spec", "tolerations"), func(o kubetest.Object) bool {
		return o.String("key") == "acme.com/lifespan-remaining"
	})
	for _, list := range []string{"initContainers", "containers"} {
		for i, container := range pod.List("spec", list) {
			takeOff(container, "env", plain.List("spec", list, i, "env"), func(o kubetest.Object) bool {
				return o.String("name") == "KUBE"
			})
		}
	}
	for _, o := range []kubetest.Object{pod, plain} {
		delete(o, "status") // set by the API server, with the time
		metadata := o.At("metadata").(map[string]any)
		for _, own := range []string{"namespace", "uid", "creationTimestamp", "resourceVersion", "managedFields"} {
			delete(metadata, own)
		}
		if metadata["generateName"] != nil {
			delete(metadata, "name")
		}
	}
	if got, want := kubetest.Encode(pod), kubetest.Encode(plain); got != want { // keys are sorted
		t.Errorf("without usher's additions the pod is\n%s\nits twin is\n%s", got, want)
	}
}

// takeOff removes those elements of a list that usher may have added and that the twin does not have.
func takeOff(from map[string]any, list string, twin []kubetest.Object, ours func(kubetest.Object) bool) {
	has := func(o kubetest.Object) bool {
		return slices.ContainsFunc(twin, func(w kubetest.Object) bool { return kubetest.Encode(w) == kubetest.Encode(o) })
	}
	var rest []any
	for _, o := range kubetest.Object(from).List(list) {
		if !ours(o) || has(o) {
			rest = append(rest, map[string]any(o))
		}
	}
	if from[list] = rest; rest == nil {
		delete(from, list)
	}
}

// rich has fields that are rarely used, and some that were added in late versions.
const rich = `{"apiVersion": "v1", "kind": "Pod",
	"metadata": {"name": "rich", "labels": {"acme.com/lifespan-requested": "13"}, "annotations": {"a.b/c-d": "ü \"q\" \\ <&>"}},
	"spec": {
		"initContainers": [{"name": "sidecar", "image": "example.com/a:1", "restartPolicy": "Always",
			"startupProbe": {"grpc": {"port": 1, "service": "s"}}, "ports": [{"containerPort": 80, "name": "http"}]}],
		"containers": [{"name": "a", "image": "example.com/a:1",
			"env": [{"name": "FROM", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}}],
			"envFrom": [{"prefix": "P_", "configMapRef": {"name": "c", "optional": true}}],
			"resources": {"limits": {"cpu": "1500m", "memory": "1.5Gi", "example.com/widget": "2"}, "requests": {"cpu": "0.5"},
				"claims": [{"name": "gpu", "request": "r"}]},
			"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
			"lifecycle": {"preStop": {"sleep": {"seconds": 3}}, "stopSignal": "SIGUSR1"},
			"livenessProbe": {"httpGet": {"path": "/", "port": "http", "httpHeaders": [{"name": "H", "value": "v"}]},
				"terminationGracePeriodSeconds": 4},
			"securityContext": {"procMount": "Default", "appArmorProfile": {"type": "RuntimeDefault"},
				"capabilities": {"add": ["NET_ADMIN"]}},
			"volumeMounts": [{"name": "v", "mountPath": "/v", "recursiveReadOnly": "IfPossible", "readOnly": true,
				"subPathExpr": "$(FROM)"}],
			"volumeDevices": [{"name": "block", "devicePath": "/dev/b"}], "terminationMessagePolicy": "FallbackToLogsOnError"}],
		"volumes": [{"name": "v", "projected": {"sources": [
				{"clusterTrustBundle": {"path": "p", "signerName": "example.com/s", "labelSelector": {}}},
				{"serviceAccountToken": {"path": "t", "audience": "a", "expirationSeconds": 700}}]}},
			{"name": "block", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOncePod"], "volumeMode": "Block",
				"resources": {"requests": {"storage": "1Gi"}}}}}},
			{"name": "image", "image": {"reference": "example.com/i:1", "pullPolicy": "IfNotPresent"}}],
		"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
		"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 7}],
		"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm":
			{"topologyKey": "z", "matchLabelKeys": ["app"],
				"labelSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}}]}},
		"topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3,
			"labelSelector": {}, "nodeTaintsPolicy": "Honor"}],
		"schedulingGates": [{"name": "example.com/g"}], "readinessGates": [{"conditionType": "example.com/r"}],
		"resources": {"requests": {"memory": "2Gi"}}, "os": {"name": "linux"}, "serviceAccountName": "builder",
		"setHostnameAsFQDN": true,
		"securityContext": {"fsGroupChangePolicy": "OnRootMismatch", "supplementalGroupsPolicy": "Strict",
			"sysctls": [{"name": "a.b", "value": "1"}]},
		"dnsConfig": {"options": [{"name": "ndots", "value": "2"}]}, "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["h"]}]}}`

func TestRichPodKeepsAllItsFields(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	plain, err := cluster.Admin().Create(ctx, podPath("default", "")+"?dryRun=All&fieldValidation=Strict", rich)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Admin().Create(ctx, podPath("apps", ""), rich); err != nil {
		t.Fatal(err)
	}
	path := podPath("apps", "rich")
	cluster.DeleteAfter(t, path)
	pod := stored(ctx, t, path)
	if got := days(pod); got != "14 13" {
		t.Errorf("tolerated days %q", got)
	}
	checkTwins(t, pod, plain)
}

// A status as real kubelets write it. usher must not change its other fields.
const richStatus = `{"status": {"capacity": {"cpu": "16", "memory": "64Gi", "hugepages-2Mi": "0"},
	"allocatable": {"cpu": "15900m", "memory": "62Gi", "hugepages-2Mi": "0"},
	"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ü <&>",
		"lastHeartbeatTime": "2026-11-20T09:00:00Z", "lastTransitionTime": "2026-11-20T09:00:00Z"}],
	"addresses": [{"type": "Hostname", "address": "n"}], "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
	"nodeInfo": {"machineID": "m", "systemUUID": "u", "bootID": "b", "kernelVersion": "6.1", "osImage": "o",
		"containerRuntimeVersion": "c",
		"kubeletVersion": "v1.2.3", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
		"swap": {"capacity": 7}},
	"images": [{"names": ["example.com/a:1"], "sizeBytes": 12345678901234}], "volumesInUse": ["v"],
	"runtimeHandlers": [{"name": "r", "features": {"recursiveReadOnlyMounts": true, "userNamespaces": true}}],
	"features": {"supplementalGroupsPolicy": true}}}`

func TestNodeStatusKeepsAllItsFields(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	newNode(ctx, t, "rich")
	cluster.DeleteAfter(t, nodePath("rich-twin"))
	if _, err := cluster.Admin().Create(ctx, "/api/v1/nodes", `{"metadata": {"name": "rich-twin"}}`); err != nil {
		t.Fatal(err)
	}
	var statuses []string
	for _, name := range []string{"rich", "rich-twin"} {
		if _, err := cluster.Node(name).Patch(ctx, nodePath(name)+"/status", kubetest.StrategicPatch, richStatus); err != nil {
			t.Fatal(err)
		}
		node := stored(ctx, t, nodePath(name))
		if cpu := node.String("status", "allocatable", "cpu"); cpu != map[string]string{"rich": "31800m", "rich-twin": "15900m"}[name] {
			t.Errorf("allocatable cpu of %s is %s", name, cpu)
		}
		delete(node.At("status", "allocatable").(map[string]any), "cpu")
		statuses = append(statuses, kubetest.Encode(node.At("status")))
	}
	if statuses[0] != statuses[1] {
		t.Errorf("but for cpu the status is\n%s\nits twin's is\n%s", statuses[0], statuses[1])
	}
}

// A newer API server sends fields that usher's types do not know. The stand-in adds such a field to every object in the
// review, forwards it to usher, and checks the patch; the API server, which has the pod without them, applies the same
// patch.
func TestFieldsFromTheFutureSurvive(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	var mu sync.Mutex
	var problems []string
	seen := map[string]int{}
	s := newStandIn(ctx, t, "future", func(s *standIn) answer {
		return func(w http.ResponseWriter, r *http.Request, text []byte) {
			review := kubetest.Decode(string(text))
			added := addFuture(review.At("request", "object")) + addFuture(review.At("request", "oldObject"))
			status, body := s.ask(r, []byte(kubetest.Encode(review)))
			harm := harmfulOperations(body, review.At("request", "object"))
			mu.Lock()
			seen[r.URL.Path] += added
			problems = append(problems, harm...)
			mu.Unlock()
			w.WriteHeader(status)
			_, _ = w.Write(body)
		}
	})
	cluster.DeleteAfter(t, podPath("future", "rich"))
	pod := kubetest.Decode(rich)
	plain, err := cluster.Admin().Create(ctx, podPath("default", "")+"?dryRun=All", pod)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Admin().Create(ctx, podPath("future", ""), pod); err != nil {
		t.Fatal(err)
	}
	got := stored(ctx, t, podPath("future", "rich"))
	if d := days(got); d != "14 13" {
		t.Errorf("tolerated days %q", d)
	}
	checkTwins(t, got, plain)
	s.node(ctx, "future")
	for range 2 { // without usher's record, and with it
		if _, err := cluster.Node("future").Patch(ctx, nodePath("future")+"/status", kubetest.StrategicPatch, richStatus); err != nil {
			t.Fatal(err)
		}
		checkSize(t, stored(ctx, t, nodePath("future")), size{"31800m", "16", "15900m"})
	}
	mu.Lock()
	defer mu.Unlock()
	for _, problem := range problems {
		t.Error(problem)
	}
	for _, route := range []string{"/mutate-pods", "/validate-pods", "/mutate-nodes"} {
		if seen[route] < 20 {
			t.Errorf("%s saw %d unknown fields only", route, seen[route])
		}
	}
}

// plainMaps are maps from strings to strings or quantities: their keys are data, not fields.
var plainMaps = []string{"labels", "annotations", "limits", "requests", "capacity", "allocatable", "matchLabels", "fieldsV1"}

// addFuture adds an unknown field to every object below, and returns the number of objects.
func addFuture(at any) (added int) {
	switch at := at.(type) {
	case []any:
		for _, item := range at {
			added += addFuture(item)
		}
	case map[string]any:
		for key, value := range at {
			if !slices.Contains(plainMaps, key) {
				added += addFuture(value)
			}
		}
		at["fromTheFuture"] = map[string]any{"a": []any{1.5, nil, "<&>"}}
		added++
	}
	return added
}

// harmfulOperations returns the operations that could remove an unknown field: all except those that insert into a list,
// add a missing value, or change one of the strings that usher may change.
func harmfulOperations(answer []byte, object any) (problems []string) {
	var review struct{ Response struct{ Patch []byte } }
	if err := json.Unmarshal(answer, &review); err != nil {
		return []string{"usher's answer is no review: " + string(answer)}
	}
	if review.Response.Patch == nil {
		return nil
	}
	var patch []operation
	if err := json.Unmarshal(review.Response.Patch, &patch); err != nil {
		return []string{"usher's patch is none: " + string(review.Response.Patch)}
	}
	for _, o := range patch {
		target := at(object, o.Path)
		_, text := target.(string)
		inserts := o.Op == "add" && inserted.MatchString(o.Path)
		if !touched.MatchString(o.Path) || o.Op == "remove" || target != nil && !text && !inserts {
			problems = append(problems, o.Op+" "+o.Path+" could harm "+kubetest.Encode(target))
		}
	}
	return problems
}

// at returns the value at a JSON pointer; the position after the end of a list is nil.
func at(object any, pointer string) any {
	var path []any
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if index, err := strconv.Atoi(step); err == nil {
			path = append(path, index)
			continue
		}
		if step == "-" {
			return nil
		}
		path = append(path, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	root, _ := object.(map[string]any)
	return kubetest.Object(root).At(path...)
}
