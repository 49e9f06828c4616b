package explain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/engine/whole"
	"usher.dev/usher/usherctl/explain"
)

// produced is a request and the objects of a cluster of which the API server's own code makes a refusal.
type produced struct {
	name    string
	objects string // of the cluster
	request engine.Request
	answer  func(*admissionv1.AdmissionResponse) // of the webhook
	code    int                                  // of its HTTP response
	body    string                               // of it, instead of a review
	err     error                                // of the call
	by, of  string                               // whose refusal it is
	says    string                               // what is said of it
}

const (
	aPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"b"%s}]}}`
	// The webhook is mutating or validating; its sideEffects and matchConditions follow.
	aWebhook = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"%sWebhookConfiguration","metadata":{"name":"c"},"webhooks":[{"name":"w.example.com",
		"clientConfig":{"service":{"name":"s","namespace":"ns"}},"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["pods"]}],
		"admissionReviewVersions":["v1"],"sideEffects":"%s","matchConditions":[%s]}]}`
	aPolicy = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"%[1]sAdmissionPolicy","metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":[
		{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]},%[2]s}}
---
{"apiVersion":"admissionregistration.k8s.io/v1","kind":"%[1]sAdmissionPolicyBinding","metadata":{"name":"b"},"spec":{"policyName":"p"%[3]s}}`
	aLimitRange = `{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: default}, spec: {limits: [{type: %s}]}}`
	aQuota      = `{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: default}, spec: {hard: {%[1]s}}, status: {hard: {%[1]s}, used: {%[2]s}}}`
	aWidget     = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"plural":"widgets","kind":"Widget","singular":"widget","listKind":"WidgetList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},
		{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}],"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/"}}}}}`
)

func creating(manifest string) engine.Request {
	return engine.Request{Object: []byte(manifest), Operation: admissionv1.Create, New: true, User: "jane"}
}

// with returns a creation of a pod whose container has more fields.
func with(more string) engine.Request { return creating(fmt.Sprintf(aPod, more)) }

// patched returns what the API server makes of a pod with the patch of a mutating webhook.
func patched(name, patch string) produced {
	return produced{name: "a patch: " + name, objects: fmt.Sprintf(aWebhook, "Mutating", "None", ""), request: with(""), answer: patching(patch), by: explain.ByPatch,
		says: "could not apply the patch of a mutating webhook"}
}

func patching(patch string) func(*admissionv1.AdmissionResponse) {
	return func(r *admissionv1.AdmissionResponse) {
		r.Patch, r.PatchType = []byte(patch), new(admissionv1.PatchTypeJSONPatch)
	}
}

// called returns what the API server makes of the answer of a validating webhook.
func called(name, says string, of produced) produced {
	of.name, of.says, of.by, of.of = "a call: "+name, says, explain.ByCall, "w.example.com"
	of.objects, of.request = fmt.Sprintf(aWebhook, "Validating", "None", ""), with("")
	return of
}

func refusals() []produced {
	const reached = "was reached, and its answer is an error, or no review"
	stored := engine.Request{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Name: "a", Namespace: "default", Operation: admissionv1.Delete,
		Old: []byte(strings.Replace(fmt.Sprintf(aPod, ""), `"spec":`, `"status":{"phase":"Running"},"spec":`, 1))}
	eviction := stored
	eviction.Operation, eviction.SubResource = admissionv1.Create, "eviction"
	eviction.Object = []byte(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a","namespace":"default"}}`)
	dry := with("")
	dry.DryRun = true
	deny := func(r *admissionv1.AdmissionResponse) { r.Allowed, r.Result = false, &metav1.Status{Message: "no"} }
	all := []produced{
		{name: "validation", request: with(`,"command":[""],"imagePullPolicy":"Sometimes"`), by: explain.ByAPIServer, says: "the API server refused this"},
		{name: "a plug-in", request: creating(strings.Replace(fmt.Sprintf(aPod, ""), `"spec":{`, `"spec":{"priorityClassName":"none",`, 1)),
			by: explain.ByAPIServer, says: "the API server refused this"},
		{name: "a webhook", objects: fmt.Sprintf(aWebhook, "Validating", "None", ""), request: with(""), answer: deny, by: explain.ByWebhook, of: "w.example.com",
			says: "not-usher: w.example.com"},
		{name: "a dry run", objects: fmt.Sprintf(aWebhook, "Mutating", "Some", ""), request: dry, by: explain.ByDryRun, of: "w.example.com",
			says: "only dry runs are refused"},
		{name: "a match condition", objects: fmt.Sprintf(aWebhook, "Mutating", "None", `{"name":"m","expression":"object.spec.nodeName == 'x'"}`),
			request: with(""), by: explain.ByCondition, says: "match-condition-failed"},
		{name: "a patch of a deletion", objects: fmt.Sprintf(aWebhook, "Mutating", "None", ""), request: stored, answer: patching(`[{"op":"remove","path":"/kind"}]`), by: explain.ByPatch,
			of: "w.example.com", says: "no object to patch"},
		{name: "a ValidatingAdmissionPolicy", objects: fmt.Sprintf(aPolicy, "Validating", `"validations":[{"expression":"false"}]`, `,"validationActions":["Deny"]`),
			request: with(""), by: explain.ByPolicy, of: "p", says: "a ValidatingAdmissionPolicy refused this"},
		{name: "a policy without its kind of parameters", objects: fmt.Sprintf(aPolicy, "Validating",
			`"paramKind":{"apiVersion":"example.com/v1","kind":"Limit"},"validations":[{"expression":"false"}]`, `,"validationActions":["Deny"],"paramRef":{"name":"x","parameterNotFoundAction":"Deny"}`),
			request: with(""), by: explain.ByPolicy, of: "p", says: "the ValidatingAdmissionPolicy p cannot be used"},
		{name: "a policy without its parameters", objects: fmt.Sprintf(aPolicy, "Validating",
			`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"false"}]`, `,"validationActions":["Deny"],"paramRef":{"name":"x","parameterNotFoundAction":"Deny"}`),
			request: with(""), by: explain.ByPolicy, of: "p", says: "kubectl get validatingadmissionpolicybinding b"},
		{name: "a MutatingAdmissionPolicy", objects: fmt.Sprintf(aPolicy, "Mutating", `"failurePolicy":"Fail","reinvocationPolicy":"Never","mutations":[{"patchType":"JSONPatch",
			"jsonPatch":{"expression":"[JSONPatch{op: 'remove', path: '/spec/nodeName/x'}]"}}]`, ""), request: with(""), by: explain.ByMutation, of: "p",
			says: "not-usher: MutatingAdmissionPolicy p"},
		{name: "a MutatingAdmissionPolicy that is not bound", objects: fmt.Sprintf(aPolicy, "Mutating", `"failurePolicy":"Fail","reinvocationPolicy":"Never",
			"paramKind":{"apiVersion":"example.com/v1","kind":"Limit"},"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[]"}}]`,
			`,"paramRef":{"name":"x","parameterNotFoundAction":"Deny"}`), request: with(""), by: explain.ByMutation, of: "p", says: "not-usher: MutatingAdmissionPolicy p"},
		{name: "a full quota", objects: fmt.Sprintf(aQuota, "pods: 1", "pods: 1"), request: with(""), by: explain.ByQuota, of: "q", says: "not-usher: ResourceQuota q"},
		{name: "a quota of requests", objects: fmt.Sprintf(aQuota, "requests.cpu: 1", "requests.cpu: 0"), request: with(""), by: explain.ByQuota, of: "q",
			says: "not-usher: ResourceQuota q"},
		{name: "Pod Security", objects: `{apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {pod-security.kubernetes.io/enforce: baseline}}}`,
			request: with(`,"securityContext":{"privileged":true}`), by: explain.ByPodSecurity, of: "baseline:latest", says: "Pod Security admission refused this"},
		{name: "a PodDisruptionBudget", objects: `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: d, namespace: default, generation: 1},
			spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}, status: {observedGeneration: 1, disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 1, expectedPods: 1}}`,
			request: eviction, by: explain.ByDisruption, says: "a PodDisruptionBudget refused this"},
		{name: "conversion", objects: aWidget, request: creating(`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"}}`), by: explain.ByConversion,
			of: "example.com/v2, Kind=Widget", says: "custom kind Widget"},
		called("no conversion", "another version of AdmissionReview", produced{body: `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{}}`}),
		called("no answer in time", "has not answered within timeoutSeconds", produced{err: context.DeadlineExceeded}),
		called("no connection in time", "could not call the webhook", produced{err: errors.New("dial tcp 192.0.2.1:443: i/o timeout")}),
		called("no handshake in time", "could not call the webhook", produced{err: errors.New("net/http: TLS handshake timeout")}),
		called("no JSON", reached, produced{body: "hello"}), called("another kind", reached, produced{body: `{"apiVersion":"v1","kind":"Pod"}`}),
		called("no response", reached, produced{body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`}),
		called("another uid", reached, produced{answer: func(r *admissionv1.AdmissionResponse) { r.UID = "x" }}),
		called("a patch", reached, produced{answer: patching(`[]`)}),
		patched("an absent parent", `[{"op":"add","path":"/x/y","value":1}]`), patched("no field", `[{"op":"remove","path":"/spec/x"}]`),
		patched("no element", `[{"op":"add","path":"/spec/containers/7","value":{}}]`), patched("a test", `[{"op":"test","path":"/kind","value":"x"}]`),
		patched("no operation", `[{"op":"nope","path":"/x"}]`), patched("no object", `[{"op":"replace","path":"","value":"x"}]`),
		patched("a type", `[{"op":"replace","path":"/spec/containers","value":"x"}]`), patched("a time", `[{"op":"add","path":"/metadata/creationTimestamp","value":"x"}]`),
		patched("a quantity", `[{"op":"add","path":"/spec/containers/0/resources","value":{"limits":{"cpu":"x"}}}]`), patched("a kind", `[{"op":"replace","path":"/kind","value":"X"}]`),
	}
	for _, code := range []int{400, 401, 403, 404, 405, 406, 409, 413, 415, 418, 422, 429, 500, 503, 504} {
		all = append(all, called(fmt.Sprint(code), reached, produced{code: code, body: "no"}))
	}
	for limit, more := range map[string]string{"Container, max: {cpu: 1}": `,"resources":{"limits":{"cpu":"2"}}`, "Pod, min: {cpu: 1}": `,"resources":{"requests":{"cpu":"100m"}}`,
		"Container, maxLimitRequestRatio: {cpu: 2}": `,"resources":{"limits":{"cpu":"4"},"requests":{"cpu":"1"}}`} {
		all = append(all, produced{name: "a LimitRange: " + limit, objects: fmt.Sprintf(aLimitRange, limit), request: with(more), by: explain.ByLimitRange,
			says: "a LimitRange refused this"})
	}
	return all
}

// refused returns the text with which the API server's code refuses.
func (p produced) refused(t *testing.T) string {
	t.Helper()
	var objects []*unstructured.Unstructured
	for text := range strings.SplitSeq(p.objects, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			objects = append(objects, object)
		}
	}
	api, err := engine.New(t.Context(), engine.Cluster{Objects: objects, Webhook: p.webhook})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	v := api.Judge(t.Context(), p.request)
	if v.Refusal == nil {
		t.Fatalf("is allowed: %+v", v.Unjudged)
	}
	return fmt.Sprintf("Error from server (%s): error when creating \"p.yaml\": %s", v.Refusal.Reason, v.Refusal.Message)
}

func (p produced) webhook(_ context.Context, _ engine.Registered, sent []byte) (engine.Answer, error) {
	if p.body != "" || p.err != nil {
		return engine.Answer{Code: p.code, Body: []byte(p.body)}, p.err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(sent, &review); err != nil {
		return engine.Answer{}, err
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	p.answer(review.Response)
	body, err := json.Marshal(review)
	return engine.Answer{Body: body}, err
}

// TestProducedRefusals: what the API server's own code refuses is recognized as it writes it, with any policy and in an event, and no pattern
// is without a refusal that it is for.
func TestProducedRefusals(t *testing.T) {
	texts := []string{unauthorized(t)}
	for _, p := range append(refusals(), produced{name: "RBAC", by: explain.ByRBAC, says: "RBAC refused this"}) {
		t.Run(p.name, func(t *testing.T) {
			text := texts[0]
			if p.by != explain.ByRBAC {
				text = p.refused(t)
				texts = append(texts, text)
			}
			_, message, _ := strings.Cut(text, `p.yaml": `)
			for _, as := range []string{text, "Error creating: " + message} {
				if r, is := explain.ParseRefusal(as); !is || r.By != p.by || r.Name != p.of {
					t.Errorf("%s\nis said to be of %s %q, and is of %s %q", as, r.By, r.Name, p.by, p.of)
				}
			}
			for _, out := range explained(t, text) {
				if !strings.Contains(out, p.says) {
					t.Errorf("%s\nhas no %q:\n%s", text, p.says, out)
				}
			}
		})
	}
	for _, pattern := range explain.Patterns() {
		if !slices.ContainsFunc(texts, pattern.MatchString) {
			t.Errorf("no refusal is recognized by %s", pattern)
		}
	}
}

// unauthorized returns the text with which an API server refuses what a user has no right to.
func unauthorized(t *testing.T) string {
	t.Helper()
	server, err := whole.Start(t.Context(), whole.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	kubeconfig, err := server.Kubeconfig("jane")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
	return fmt.Sprintf("Error from server (Forbidden): error when creating \"p.yaml\": %v", err)
}
