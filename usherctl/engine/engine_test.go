package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/usherctl/engine"
)

// cluster has an object for each part of the API server that decides about a request.
const cluster = `
{apiVersion: v1, kind: LimitRange, metadata: {name: limits, namespace: limited}, spec: {limits: [{type: Container, defaultRequest: {cpu: 1}, default: {cpu: 2}}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: limited}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: full}}
---
{apiVersion: v1, kind: ResourceQuota, metadata: {name: pods, namespace: full}, spec: {hard: {pods: 1}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: stored, namespace: full}, spec: {containers: [{name: a, image: b}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: stored, namespace: default}, spec: {nodeName: node, containers: [{name: a, image: b}]}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, singular: widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer, minimum: 3, default: 5}}}}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mutating}
webhooks:
- name: label.example.com
  clientConfig: {service: {name: label, namespace: default, path: /label}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  matchConditions: [{name: labelled, expression: "'app' in object.metadata.labels"}]
  sideEffects: None
  admissionReviewVersions: [v1]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: values}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}
  validations: [{expression: "object.data.value == params.data.value"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: values}
spec: {policyName: values, paramRef: {name: values, namespace: default, parameterNotFoundAction: Deny}, validationActions: [Deny]}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: values, namespace: default}, data: {value: one}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: label}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"by": "policy"}}}'}}]
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding, metadata: {name: label}, spec: {policyName: label}}
`

func objects(t *testing.T, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
	return all
}

// opened returns an engine of a cluster that the test closes.
func opened(t *testing.T, c engine.Cluster) *engine.Engine {
	t.Helper()
	e, err := engine.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

const (
	pod    = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"b"}]}}`
	widget = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{%s}}`
	value  = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {value: %s}}`
	exec   = "{apiVersion: v1, kind: PodExecOptions, command: [ls]}"
)

var podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

// TestJudge: each part of the API server has its say.
func TestJudge(t *testing.T) {
	e := opened(t, engine.Cluster{Objects: objects(t, cluster)})
	for name, c := range map[string]struct {
		engine.Request
		code     int
		by, says string // says is in the refusal, the warnings, or the object
	}{
		"defaults":     {engine.Request{Object: []byte(pod)}, 201, "", `"terminationMessagePath":"/dev/termination-log"`},
		"validation":   {engine.Request{Object: []byte(strings.Replace(pod, `"a"`, `"A"`, 1))}, 422, "", "metadata.name: Invalid value"},
		"wrong type":   {engine.Request{Object: []byte(strings.Replace(pod, `"b"`, `1`, 1))}, 400, "", "cannot unmarshal number into Go struct field"},
		"unknown":      {engine.Request{Object: []byte(strings.Replace(pod, `"image"`, `"imag":"c","image"`, 1))}, 201, "", `unknown field "spec.containers[0].imag"`},
		"strict":       {engine.Request{Strict: true, Object: []byte(strings.Replace(pod, `"image"`, `"imag":"c","image"`, 1))}, 400, "", `unknown field "spec.containers[0].imag"`},
		"plug-in":      {engine.Request{Namespace: "limited", Object: []byte(pod)}, 201, "", `"requests":{"cpu":"1"}`},
		"quota":        {engine.Request{Namespace: "full", Object: []byte(pod)}, 403, "ResourceQuota", "exceeded quota: pods, requested: pods=1, used: pods=1, limited: pods=1"},
		"no namespace": {engine.Request{Namespace: "absent", Object: []byte(pod)}, 404, "NamespaceLifecycle", `namespaces "absent" not found`},
		"exists":       {engine.Request{Object: []byte(strings.Replace(pod, `"a"`, `"stored"`, 1))}, 409, "", `pods "stored" already exists`},
		"generated":    {engine.Request{Object: []byte(strings.Replace(pod, `"name":"a"`, `"generateName":"a-"`, 1))}, 201, "", `"name":"a-x7k2p"`},
		"new":          {engine.Request{New: true, Object: []byte(strings.Replace(pod, `"a"`, `"stored"`, 1))}, 201, "", `"name":"stored"`},
		"mutating":     {engine.Request{Object: []byte(pod)}, 201, "", `"labels":{"by":"policy"}`},
		"validating":   {engine.Request{Object: fmt.Appendf(nil, value, "two")}, 422, "ValidatingAdmissionPolicy", "failed expression: object.data.value == params.data.value"},
		"parameter":    {engine.Request{Object: fmt.Appendf(nil, value, "one")}, 201, "", `"value":"one"`},
		"custom":       {engine.Request{Object: fmt.Appendf(nil, widget, "")}, 201, "", `"size":5`},
		"pruned":       {engine.Request{Object: fmt.Appendf(nil, widget, `"color":"red"`)}, 201, "", `unknown field "spec.color"`},
		"schema":       {engine.Request{Object: fmt.Appendf(nil, widget, `"size":1`)}, 422, "", "spec.size in body should be greater than or equal to 3"},
		"definition":   {engine.Request{Object: []byte("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}}")}, 422, "", "spec.group: Required value"},
		"no kind":      {engine.Request{Object: []byte("{apiVersion: v2, kind: Pod}")}, 404, "", `no matches for kind "Pod" in version "v2"`},
		"update":       {engine.Request{Operation: admissionv1.Update, Old: []byte(pod), Object: []byte(strings.Replace(pod, `"b"`, `"c"`, 1))}, 200, "", `"image":"c"`},
		"immutable": {engine.Request{Operation: admissionv1.Update, Old: []byte(pod), Object: []byte(strings.Replace(pod, `"spec":{`, `"spec":{"nodeName":"x",`, 1))}, 422, "",
			"pod updates may not change fields other than"},
		"update of nothing": {engine.Request{Operation: admissionv1.Update, Object: []byte(pod)}, 404, "", `pods "a" not found`},
		"delete":            {engine.Request{Operation: admissionv1.Delete, Kind: podKind, Name: "stored"}, 200, "", `"deletionGracePeriodSeconds":30`},
		"delete another":    {engine.Request{Operation: admissionv1.Delete, Kind: podKind, Name: "stored", Object: []byte("preconditions: {uid: other}")}, 409, "", "the UID in the precondition (other) does not match"},
		"delete of nothing": {engine.Request{Operation: admissionv1.Delete, Kind: podKind, Name: "absent"}, 404, "", `pods "absent" not found`},
		"connect":           {engine.Request{Operation: admissionv1.Connect, Kind: podKind, Name: "a", SubResource: "exec", Object: []byte(exec), Old: []byte(pod)}, 400, "", "does not have a host assigned"},
		"status":            {engine.Request{Operation: admissionv1.Update, Kind: podKind, Name: "stored", SubResource: "status", Object: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"stored"},"status":{"reason":"Test"}}`)}, 200, "", `"reason":"Test"`},
		"binding":           {engine.Request{Kind: podKind, Name: "a", Old: []byte(pod), SubResource: "binding", Object: []byte("{apiVersion: v1, kind: Binding, metadata: {name: a}, target: {kind: Node, name: node}}")}, 201, "", "Success"},
		"address":           {engine.Request{Object: []byte("{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80}]}}")}, 201, "", `"clusterIP":"`},
		"given address":     {engine.Request{Object: []byte("{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: 172.20.3.4, ports: [{port: 80, nodePort: 30001}], type: NodePort}}")}, 201, "", "whether 172.20.3.4 is in the range of the cluster's Services, and free, is not known"},
		"question":          {engine.Request{Object: []byte("{apiVersion: authentication.k8s.io/v1, kind: TokenReview, spec: {token: a}}")}, 201, "", "its answer is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.Operation == "" {
				c.Operation = admissionv1.Create
			}
			v := e.Judge(t.Context(), c.Request)
			text := string(v.Object) + strings.Join(append(v.Warnings, v.Unjudged...), "\n")
			if v.Refusal != nil {
				text += v.Refusal.Message
			}
			if v.Code != c.code || v.By != c.by || !strings.Contains(text, c.says) {
				t.Errorf("%d by %q: %s\nwant %d by %q: %s", v.Code, v.By, text, c.code, c.by, c.says)
			}
		})
	}
}

// TestWebhooks: a webhook is called if its rules and conditions match, and its answer, its failure, or the lack of one is in the verdict.
func TestWebhooks(t *testing.T) {
	labelled := []byte(strings.Replace(pod, `"name":"a"`, `"name":"a","labels":{"app":"a"}`, 1))
	for name, c := range map[string]struct {
		sent     []byte
		response string // in the AdmissionReview
		err      error
		code     int
		says     string
		calls    int
		unjudged bool
	}{
		"not matched": {[]byte(pod), "", nil, 201, `"name":"a"`, 0, false},
		"allows":      {labelled, `"allowed":true`, nil, 201, `"app":"a"`, 1, false},
		"denies":      {labelled, `"allowed":false,"status":{"message":"no"}`, nil, 400, `admission webhook "label.example.com" denied the request: no`, 1, false},
		"patches": {labelled, `"allowed":true,"patchType":"JSONPatch","patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscy94IiwidmFsdWUiOiJ5In1d"`, nil, 201,
			`"x":"y"`, 1, false},
		"fails": {labelled, "", errors.New("connection refused"), 500,
			`failed calling webhook "label.example.com": failed to call webhook: Post "https://label.default.svc:443/label?timeout=10s": connection refused`, 1, false},
		"has no answer": {labelled, "", engine.ErrNoAnswer, 201, `"app":"a"`, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := opened(t, engine.Cluster{Objects: objects(t, cluster), Webhook: func(ctx context.Context, w engine.Registered, review []byte) (engine.Answer, error) {
				if at, has := ctx.Deadline(); has && time.Until(at) < 15*time.Second {
					t.Errorf("a busy machine does not call it after %s", at)
				}
				if w != (engine.Registered{Configuration: "mutating", Name: "label.example.com", Path: "/label", Mutates: true}) {
					t.Errorf("called: %+v", w)
				}
				var asked admissionv1.AdmissionReview
				if err := json.Unmarshal(review, &asked); err != nil || *asked.Request.DryRun {
					t.Errorf("%v, dry run %v", err, *asked.Request.DryRun)
				}
				return engine.Answer{Body: fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,%s}}`, asked.Request.UID, c.response)}, c.err
			}})
			v := e.Judge(t.Context(), engine.Request{Operation: admissionv1.Create, Object: c.sent})
			text := string(v.Object)
			if v.Refusal != nil {
				text = v.Refusal.Message
			}
			if v.Code != c.code || !strings.Contains(text, c.says) || len(v.Calls) != c.calls || len(v.Unjudged) > 0 != c.unjudged {
				t.Errorf("%d, %d calls, not judged %q: %s", v.Code, len(v.Calls), v.Unjudged, text)
			}
		})
	}
}

// TestPlugins: the record names the plug-ins that changed an object.
func TestPlugins(t *testing.T) {
	e := opened(t, engine.Cluster{Objects: objects(t, cluster)})
	v := e.Judge(t.Context(), engine.Request{Operation: admissionv1.Create, Namespace: "limited", Object: []byte(pod), Record: true})
	var names []string
	for _, change := range v.Plugins {
		names = append(names, change.Plugin)
	}
	if want := []string{"LimitRanger", "ServiceAccount", "Priority", "DefaultTolerationSeconds", "MutatingAdmissionPolicy"}; !slices.Equal(names, want) {
		t.Errorf("changed by %q, want %q", names, want)
	}
	if strings.Contains(string(v.Plugins[0].Before()), `"cpu"`) || !strings.Contains(string(v.Plugins[0].After()), `"cpu":"2"`) {
		t.Errorf("LimitRanger changed %s to %s", v.Plugins[0].Before(), v.Plugins[0].After())
	}
}

// TestEquivalent: a webhook for another version of the same objects is called, with the object in that version, and none with Exact.
func TestEquivalent(t *testing.T) {
	const scaler = `{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: a},
		spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}}}`
	const hook = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}, webhooks: [{name: a.example.com,
		sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://a.example"}, matchPolicy: %s,
		rules: [{operations: [CREATE], apiGroups: [autoscaling], apiVersions: [v2], resources: [horizontalpodautoscalers]}]}]}`
	for policy, want := range map[string]int{"Equivalent": 1, "Exact": 0} {
		e := opened(t, engine.Cluster{Objects: objects(t, fmt.Sprintf(hook, policy))})
		v := e.Judge(t.Context(), engine.Request{Operation: admissionv1.Create, Object: []byte(scaler)})
		if len(v.Calls) != want || want > 0 && !strings.Contains(string(v.Calls[0].Review), `"object":{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v2"`) {
			t.Errorf("%s: %+v, refused: %+v", policy, v.Calls, v.Refusal)
		}
	}
}
