package replay_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/routes"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/test/seed"
	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/replay"
	"usher.dev/usher/usherctl/review"
	"usher.dev/usher/usherctl/tool"
)

type object = map[string]any

// inForce is the policy under which the log is written.
const inForce = `
names: {denied: [offensive]}
lifespan: {label: acme.com/lifespan-requested, taint: acme.com/lifespan-remaining, max: 14}
env: [{name: KUBE, value: "s3cret"}]
imageRules: [{name: sources, repositories: [registry.example.com/**]}]
sidecars: [{name: mesh, podSelector: {matchLabels: {mesh: "on"}}, containers: [{name: mesh, image: registry.example.com/mesh:1}]}]
rules:
- name: few-replicas
  match: {apiGroups: [apps], resources: [deployments], operations: [CREATE, UPDATE]}
  validations: [{expression: "object.spec.replicas <= 5", message: too many}]
- name: small
  match: {apiGroups: [""], resources: [configmaps], operations: [CREATE, UPDATE]}
  validations: [{expression: "request.operation == 'CREATE' || object.data.size() >= oldObject.data.size()", message: shrinks}]
`

const namespaces = `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labels": {"admission-webhook": "enabled"}}}
---
{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "free"}}
`

// server is the engine, in which usher is registered with a policy, and webhooks of others before and after it.
type server struct {
	*engine.Engine
	t       testing.TB
	rng     *rand.Rand
	log     bytes.Buffer
	version int
}

func newServer(t testing.TB, policy string) *server {
	s := &server{t: t, rng: seed.Random(t)}
	parsed, problems := config.Parse([]byte(cmp.Or(policy, "{}")), routes.Suites().Schema())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	in, err := suite.Load(suite.Setup{Suites: routes.Suites(), Names: []string{"core"}, Policy: parsed, Gates: gate.Defaults(routes.Suites().Gates()),
		Cluster: suite.Source{Manifests: map[string][]byte{"n.yaml": []byte(namespaces)}}})
	must(t, err)
	served := in.Routes()
	var objects []*unstructured.Unstructured
	add := func(raw []byte) {
		u := &unstructured.Unstructured{}
		must(t, u.UnmarshalJSON(raw))
		objects = append(objects, u)
	}
	for text := range strings.SplitSeq(namespaces, "---") {
		add([]byte(text))
	}
	add([]byte(`{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "apps"},
		"spec": {"limits": [{"type": "Container", "default": {"cpu": "1000m"}}]}}`))
	at := webhooks.Address{Namespace: "usher", Service: "usher"}
	registered := webhooks.OneAmplifier(served)
	if policy == "" { // usher is not there
		registered = nil
	}
	for _, c := range []any{webhooks.Mutating(registered, at), webhooks.Validating(registered, at)} {
		raw, err := json.Marshal(c)
		must(t, err)
		add(raw)
	}
	for _, name := range []string{"a-first", "z-last"} {
		add([]byte(`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": "` + name + `"},
			"webhooks": [{"name": "` + name + `.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "reinvocationPolicy": "IfNeeded",
			"clientConfig": {"url": "https://example.com/` + name + `"},
			"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]}]}`))
	}
	s.Engine, err = engine.New(t.Context(), engine.Cluster{Objects: objects, Webhook: s.answer(served)})
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

// answer answers for usher, and for the webhooks of others: one labels, one adds a container in front.
func (s *server) answer(served []admit.Route) engine.Webhook {
	return func(ctx context.Context, called engine.Registered, body []byte) (engine.Answer, error) {
		if i := slices.IndexFunc(served, func(r admit.Route) bool { return r.Path == called.Path }); i >= 0 {
			d := handlers.Decide(ctx, served[i], body, nil)
			raw, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: d.Type, Response: d.Response})
			return engine.Answer{Body: raw}, errors.Join(err, d.Err)
		}
		var in admissionv1.AdmissionReview
		must(s.t, json.Unmarshal(body, &in))
		is, response := string(in.Request.Object.Raw), &admissionv1.AdmissionResponse{UID: in.Request.UID, Allowed: true}
		switch {
		case called.Path == "/a-first" && !strings.Contains(is, `"team":`) && strings.Contains(is, `"labels":`):
			response.Patch = []byte(`[{"op": "add", "path": "/metadata/labels/team", "value": "a"}]`)
		case called.Path == "/z-last" && !strings.Contains(is, `"proxy"`) && strings.Contains(is, `"proxied":`):
			response.Patch = []byte(`[{"op": "add", "path": "/spec/containers/0", "value": {"name": "proxy", "image": "registry.example.com/p:1"}}]`)
		}
		if response.Patch != nil {
			response.PatchType = new(admissionv1.PatchTypeJSONPatch)
		}
		raw, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: in.TypeMeta, Response: response})
		return engine.Answer{Body: raw}, err
	}
}

// send sends a request, and logs it as an API server does. It returns what was stored; nil if it was refused.
func (s *server) send(operation admissionv1.Operation, resource string, sent object, old json.RawMessage) (stored json.RawMessage) {
	raw := text(sent)
	v := s.Judge(s.t.Context(), engine.Request{Object: raw, Operation: operation, Old: old, New: old == nil, User: "ann",
		Groups: []string{"system:authenticated"}})
	version, _ := sent["apiVersion"].(string)
	gv, err := schema.ParseGroupVersion(version)
	must(s.t, err)
	typed, err := legacyscheme.Scheme.New(gv.WithKind(sent["kind"].(string)))
	must(s.t, err)
	must(s.t, json.Unmarshal(raw, typed))
	legacyscheme.Scheme.Default(typed) // the API server logs what it has decoded
	metadata := sent["metadata"].(object)
	ref := object{"resource": resource, "apiGroup": gv.Group, "apiVersion": gv.Version, "namespace": metadata["namespace"], "name": metadata["name"]}
	event := object{"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse", "stage": "ResponseComplete",
		"auditID": uuid.NewUUID(),
		"verb":    map[admissionv1.Operation]string{admissionv1.Create: "create", admissionv1.Update: "update"}[operation], "objectRef": ref,
		"requestURI": "/", "user": object{"username": "ann", "groups": []string{"system:authenticated"}}, "requestObject": typed,
		"requestReceivedTimestamp": time.Date(2026, 11, 28, 0, 0, s.version, 0, time.UTC).Format(time.RFC3339Nano), "annotations": s.annotations(v)}
	s.version++
	status := object{"code": v.Code}
	if v.Refusal != nil {
		status = object{"code": v.Code, "message": v.Refusal.Message, "reason": v.Refusal.Reason, "status": "Failure"}
		event["responseObject"] = v.Refusal
	} else {
		var is object
		must(s.t, json.Unmarshal(v.Object, &is))
		is["metadata"].(object)["resourceVersion"] = fmt.Sprint(1000 + s.version)
		stored = text(is)
		event["responseObject"] = is
	}
	event["responseStatus"] = status
	s.log.Write(append(text(event), '\n'))
	return stored
}

// annotations returns those of the calls of mutating webhooks.
func (s *server) annotations(v engine.Verdict) object {
	all := object{}
	for i, c := range v.Calls {
		if !c.Mutates {
			continue
		}
		var answer admissionv1.AdmissionReview
		must(s.t, errors.Join(c.Err, json.Unmarshal(c.Response, &answer)))
		at := fmt.Sprintf("webhook.admission.k8s.io/round_%d_index_%d", c.Round, i)
		mutated := len(answer.Response.Patch) > 0
		all["mutation."+at] = string(text(object{"configuration": c.Configuration, "webhook": c.Name, "mutated": mutated}))
		if mutated {
			all["patch."+at] = string(text(object{"configuration": c.Configuration, "webhook": c.Name, "patch": json.RawMessage(answer.Response.Patch),
				"patchType": "JSONPatch"}))
		}
	}
	return all
}

// fill sends random requests, and counts the pods in the namespace of usher that were stored, by a word of their names.
func (s *server) fill(n int) map[string]int {
	counts := map[string]int{}
	for i := range n {
		namespace := pick(s.rng, "apps", "apps", "apps", "free")
		switch s.rng.IntN(5) {
		case 0:
			s.change("configmaps", object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": fmt.Sprint("c", i), "namespace": namespace},
				"data": object{"a": "1", "b": "2"}}, func(is object) { is["data"] = pick(s.rng, object{"a": "1"}, object{"a": "2", "b": "3", "c": "4"}) })
		case 1:
			s.change("deployments", deployment(s.rng, i, namespace), func(is object) { is["spec"].(object)["replicas"] = s.rng.IntN(9) })
		default:
			word := pick(s.rng, "web", "rude", "offensive")
			if s.send(admissionv1.Create, "pods", pod(s.rng, fmt.Sprint(word, "-", i), namespace), nil) != nil && namespace == "apps" {
				counts[word]++
			}
		}
	}
	return counts
}

func (s *server) change(resource string, sent object, change func(object)) {
	stored := s.send(admissionv1.Create, resource, sent, nil)
	if stored == nil {
		return
	}
	var next object
	must(s.t, json.Unmarshal(stored, &next))
	change(next)
	s.send(admissionv1.Update, resource, next, stored)
}

func pod(rng *rand.Rand, name, namespace string) object {
	metadata, spec := object{"name": name, "namespace": namespace}, podSpec(rng)
	if rng.IntN(4) == 0 {
		delete(metadata, "name")
		metadata["generateName"] = name + "-"
	}
	if rng.IntN(5) > 0 {
		labels := object{"id": "x"}
		for key, values := range map[string][]string{"mesh": {"on", ""}, "proxied": {"yes", ""}, "acme.com/lifespan-requested": {"7", "12", "99", "", ""}} {
			if value := pick(rng, values...); value != "" {
				labels[key] = value
			}
		}
		metadata["labels"] = labels
	}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
}

func podSpec(rng *rand.Rand) object {
	var containers []any
	for i := range 1 + rng.IntN(3) {
		image := pick(rng, "registry.example.com/a:1", "registry.example.com/b:2", "registry.example.com/c:3", "evil/x:1")
		c := object{"name": fmt.Sprint("c", i), "image": image}
		if rng.IntN(3) == 0 {
			c["env"] = []any{object{"name": pick(rng, "KUBE", "OTHER"), "value": "s3cret"}}
		}
		if rng.IntN(3) == 0 {
			c["resources"] = object{"limits": object{"cpu": pick(rng, "0.5", "2000m")}}
		}
		containers = append(containers, c)
	}
	spec := object{"containers": containers}
	if rng.IntN(3) == 0 {
		spec["tolerations"] = []any{object{"key": pick(rng, "node.kubernetes.io/not-ready", ""), "operator": "Exists", "effect": pick(rng, "NoExecute", "")}}
	}
	return spec
}

func deployment(rng *rand.Rand, i int, namespace string) object {
	labels := object{"app": "a"}
	return object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": fmt.Sprint("d", i), "namespace": namespace},
		"spec": object{"replicas": rng.IntN(9), "selector": object{"matchLabels": labels},
			"template": object{"metadata": object{"labels": labels}, "spec": podSpec(rng)}}}
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

func text(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return raw
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// review reviews a log under a policy.
func reviewed(t testing.TB, log []byte, policy, was string) (result replay.Result, printed string, err error) {
	dir := t.TempDir()
	files := map[string]string{"log": string(log), "new.yaml": policy, "was.yaml": was, "cluster/n.yaml": namespaces}
	must(t, os.Mkdir(filepath.Join(dir, "cluster"), 0o700))
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	var out bytes.Buffer
	env := tool.Env{Suites: routes.Suites(), Streams: cli.Streams{Out: &out, Err: &out}}
	args := []string{"--audit-log", filepath.Join(dir, "log"), "--config", filepath.Join(dir, "new.yaml"), "--suite=core", "-o=json", "--cluster-dir",
		filepath.Join(dir, "cluster")}
	if was != "" {
		args = append(args, "--was", filepath.Join(dir, "was.yaml"))
	}
	c := review.Command(env, replay.Run)
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	err = c.ExecuteContext(t.Context())
	if wrong := json.Unmarshal(out.Bytes(), &result); wrong != nil {
		t.Fatalf("%v %v\n%s", err, wrong, out.Bytes())
	}
	return result, out.String(), err
}

// TestInForce: under the policy that was in force nothing differs, and little is not judged. A change makes the differences that it must.
func TestInForce(t *testing.T) {
	s := newServer(t, inForce)
	n := 300
	if testing.Short() {
		n = 100
	}
	counts := s.fill(n)
	for _, was := range []string{"", inForce} {
		result, printed, _ := reviewed(t, s.log.Bytes(), inForce, was)
		if len(result.Groups) > 0 || result.Judged*10 < result.Requests*9 || result.Otherwise > 0 || result.Requests < n {
			t.Errorf("was %q: %s", was, printed)
		}
	}
	for _, was := range []string{"", inForce} {
		result, printed, err := reviewed(t, s.log.Bytes(), strings.Replace(inForce, "[offensive]", "[offensive, rude]", 1), was)
		got := countsOf(result)
		want, refused := counts["rude"], got["newly refused denied-names"]
		delete(got, "refused for another reason denied-names") // of pods that another rule refuses, too
		if len(got) != 1 || !errors.Is(err, cli.ErrDenied) || refused == 0 || refused > want || refused+unjudged(result) < want {
			t.Errorf("%v, want %d\n%s", got, want, printed)
		}
		if strings.Contains(printed, "s3cret") {
			t.Errorf("a hidden value: %s", printed)
		}
		result, printed, _ = reviewed(t, s.log.Bytes(), strings.Replace(inForce, `"s3cret"}`, `"s3cret"}, {name: ANOTHER, value: s3cret}`, 1), was)
		got = countsOf(result)
		stored := counts["rude"] + counts["web"]
		if changed := got["patched differently environment"]; len(got) != 1 || changed > stored || changed+unjudged(result) < stored || changed == 0 {
			t.Errorf("%v, want %d\n%s", got, stored, printed)
		}
		if strings.Contains(printed, "s3cret") {
			t.Errorf("a hidden value: %s", printed)
		}
		result, printed, _ = reviewed(t, s.log.Bytes(), strings.Replace(inForce, "max: 14", "max: 100", 1), was)
		for _, g := range result.Groups {
			if g.Rule != "lifespan" && g.Difference != "refused for another reason" { // by what was not reached
				t.Errorf("%v\n%s", g, printed)
			}
		}
		result, printed, _ = reviewed(t, s.log.Bytes(), strings.Replace(inForce, "replicas <= 5", "replicas <= 50", 1), was)
		if got = countsOf(result); got["newly allowed rules, rule few-replicas"] == 0 || len(got) != 1 {
			t.Errorf("%v\n%s", got, printed)
		}
	}
}

// TestNotJudged: what the log does not have is not judged, for a reason.
func TestNotJudged(t *testing.T) {
	s := newServer(t, inForce)
	labels := object{"id": "x"}
	s.send(admissionv1.Create, "pods", object{"apiVersion": "v1", "kind": "Pod",
		"metadata": object{"name": "web", "namespace": "apps", "labels": labels},
		"spec":     object{"containers": []any{object{"name": "c", "image": "registry.example.com/a:1"}}}}, nil)
	stored := s.send(admissionv1.Create, "configmaps", object{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": object{"name": "c", "namespace": "apps"}, "data": object{"a": "1"}}, nil)
	lines := strings.Split(s.log.String(), "\n")
	var updated object
	must(t, json.Unmarshal(stored, &updated))
	s.log.Reset()
	s.send(admissionv1.Update, "configmaps", updated, stored)
	for name, c := range map[string]struct {
		line   string
		change func(e, annotations object)
		want   string
	}{
		"judged":     {lines[0], func(_, _ object) {}, ""},
		"dry run":    {lines[0], func(e, _ object) { e["requestURI"] = "/?dryRun=All" }, ""},
		"metadata":   {lines[0], func(e, _ object) { e["level"] = "Metadata" }, "level Metadata"},
		"not stored": {lines[0], func(e, _ object) { delete(e, "responseObject") }, "level RequestResponse"},
		"not sent":   {lines[0], func(e, _ object) { delete(e, "requestObject") }, "the object that was sent"},
		"truncated":  {lines[0], func(_, a object) { a["audit.k8s.io/truncated"] = "true" }, "truncated"},
		"panic":      {lines[0], func(e, _ object) { e["stage"] = "Panic" }, "panicked"},
		"patch":      {lines[1], func(e, _ object) { e["verb"], e["responseStatus"] = "patch", object{"code": 200} }, "PATCH"},
		"failed open": {lines[0], func(_, a object) {
			a["failed-open.mutation.webhook.admission.k8s.io/round_0_index_9"] = "mutate-pods.usher.dev"
		},
			"did not answer"},
		"conflict": {lines[0], func(e, _ object) { e["responseStatus"] = object{"code": 409, "message": "it exists"} }, "another reason: HTTP 409"},
		"other suite": {lines[0], func(e, _ object) {
			e["responseStatus"] = object{"code": 403, "message": `admission webhook "validate-others.usher.dev" denied the request: ` +
				`denied-names: metadata.name: Forbidden: no (refusal 01234567)`}
		}, "none of the suites"},
		"no patch": {lines[0], func(_, a object) { deletePatches(a) }, "does not have the patches"},
		"wrong": {lines[0], func(e, _ object) {
			delete(e["responseObject"].(object)["spec"].(object)["containers"].([]any)[0].(object), "env")
		}, "do not lead"},
		"no former": {s.log.String(), func(_, _ object) {}, "as it was before"},
		"namespace": {strings.ReplaceAll(lines[1], `"apps"`, `"unknown"`), func(_, _ object) {}, ""},
		"doubt": {strings.ReplaceAll(strings.Replace(lines[1], `"a":"1"`, `"a":"bad"`, 2), `"apps"`, `"unknown"`), func(_, _ object) {},
			"whether validate-rules.usher.dev is called"},
	} {
		var e object
		must(t, json.Unmarshal([]byte(c.line), &e))
		annotations, _ := e["annotations"].(object)
		c.change(e, annotations)
		policy := inForce + "- name: bad\n  match: {apiGroups: [''], resources: [configmaps], operations: [CREATE, UPDATE]}\n" +
			"  validations: [{expression: \"object.data.a != 'bad'\", message: bad}]\n"
		result, printed, err := reviewed(t, append(text(e), '\n'), policy, "")
		if c.want == "" && (err != nil || result.Same+result.Allowed != 1) || c.want != "" && (err == nil || len(result.NotJudged) != 1 ||
			!strings.Contains(result.NotJudged[0].Reason, c.want)) || (result.DryRuns == 1) != (name == "dry run") {
			t.Errorf("%s: %v\n%s", name, err, printed)
		}
	}
}

// TestOdd: an object that was made anew, deletions that were refused, events without metadata, other versions, and a log that ends too early.
func TestOdd(t *testing.T) {
	s := newServer(t, inForce)
	configmap := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "c", "namespace": "apps"}, "data": object{"a": "1"}}
	stored := s.send(admissionv1.Create, "configmaps", configmap, nil)
	created := s.log.String()
	s.log.Reset()
	must(t, json.Unmarshal(stored, &configmap))
	s.send(admissionv1.Update, "configmaps", configmap, stored)
	policy := inForce + "- name: anew\n  match: {apiGroups: [''], resources: [configmaps], operations: [CREATE, DELETE]}\n" +
		"  validations: [{expression: \"request.operation == 'DELETE' || !has(object.metadata.resourceVersion)\", message: old}]\n"
	for name, c := range map[string]struct {
		line   string
		change func(e object)
		tail   string
		want   string
	}{
		"anew":     {created, func(object) {}, "", ""},
		"updated":  {s.log.String(), func(object) {}, "", ""},
		"metadata": {s.log.String(), func(e object) { delete(e["responseObject"].(object), "metadata") }, "", ""},
		"version":  {s.log.String(), func(e object) { e["objectRef"].(object)["apiVersion"] = "v0" }, "", "UPDATE: "},
		"deleted": {created, func(e object) {
			e["verb"] = "delete"
			e["responseStatus"] = object{"code": 403, "message": `admission webhook "validate-rules.usher.dev" denied the request: (refusal 01234567)`}
			delete(e, "responseObject")
		}, "", "DELETE: "},
		"torn": {created, func(object) {}, created[:100], "incomplete"},
	} {
		var e object
		must(t, json.Unmarshal([]byte(c.line), &e))
		c.change(e)
		e["auditID"] = "again"
		result, printed, err := reviewed(t, []byte(created+string(text(e))+"\n"+c.tail), policy, "")
		if result.Requests != 2 || len(result.Groups) > 0 || (c.want == "") != (err == nil) || !strings.Contains(printed, c.want) {
			t.Errorf("%s: %v\n%s", name, err, printed)
		}
	}
}

// interrupted is a log whose reading is interrupted.
type interrupted struct {
	*strings.Reader
	interrupt context.CancelFunc
}

func (i interrupted) Read(to []byte) (int, error) {
	i.interrupt()
	return i.Reader.Read(to)
}

// TestInterrupted: nothing is said of a log that was not read to its end.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	c := review.Command(tool.Env{Suites: routes.Suites(), Streams: cli.Streams{In: interrupted{strings.NewReader("{}"), cancel}, Out: &out, Err: &out}},
		replay.Run)
	c.SetArgs([]string{"--audit-log=-", "--config=../../samples/policies/image-rules.yaml", "--suite=core"})
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.ExecuteContext(ctx); !errors.Is(err, context.Canceled) || out.Len() > 0 {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func deletePatches(annotations object) {
	for key := range annotations {
		if strings.HasPrefix(key, "patch.") {
			delete(annotations, key)
		}
	}
}

// TestSample: the audit log on the shelf under a policy on the shelf, as docs/review.md shows it.
func TestSample(t *testing.T) {
	var out bytes.Buffer
	c := review.Command(tool.Env{Suites: routes.Suites(), Streams: cli.Streams{Out: &out, Err: &out}}, replay.Run)
	c.SetArgs([]string{"--audit-log=../../samples/audit/audit.log", "--config=../../samples/policies/image-rules.yaml", "--suite=core",
		"--cluster-dir=../../samples/cluster"})
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(t.Context())
	page, wrong := os.ReadFile("../../docs/review.md")
	must(t, wrong)
	for line := range strings.Lines(out.String()) {
		if line = strings.ReplaceAll(strings.TrimSpace(line), "../../", ""); !strings.Contains(string(page), line) {
			t.Errorf("docs/review.md does not have: %s", line)
		}
	}
	if err == nil || strings.Contains(out.String(), "s3cret") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func countsOf(result replay.Result) map[string]int {
	all := map[string]int{}
	for _, g := range result.Groups {
		all[g.Difference+" "+g.Rule] += g.Count
	}
	return all
}

func unjudged(result replay.Result) int { return result.Requests - result.Judged }

func BenchmarkReplay(b *testing.B) {
	s := newServer(b, inForce)
	s.fill(300)
	log := bytes.Repeat(bytes.ReplaceAll(s.log.Bytes(), []byte(`"auditID"`), []byte(`"once"`)), 40)
	requests := 0
	for b.Loop() {
		result, _, _ := reviewed(b, log, strings.Replace(inForce, "[offensive]", "[offensive, rude]", 1), "")
		requests += result.Requests
	}
	b.ReportMetric(float64(requests)/b.Elapsed().Minutes(), "requests/min")
}
