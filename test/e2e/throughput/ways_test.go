package main

import (
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/e2e/kubetest"
)

const printed = `kind: MutatingWebhookConfiguration
metadata: {name: usher, labels: {app.kubernetes.io/name: usher}}
webhooks:
- name: mutate-pods.usher.dev
  clientConfig: {service: {name: usher, namespace: usher, path: /mutate-pods}}
  namespaceSelector: {matchLabels: {admission-webhook: enabled}}
  rules: [{operations: [CREATE], resources: [pods]}]
- name: mutate-nodes.usher.dev
  clientConfig: {service: {name: usher, namespace: usher, path: /mutate-nodes}}
  rules: [{operations: [UPDATE], resources: [nodes/status]}]
---
kind: ValidatingWebhookConfiguration
metadata: {name: usher}
webhooks:
- name: validate-pod.usher.dev
  clientConfig: {service: {name: usher, namespace: usher, path: /validate-pod}}
  rules: [{operations: [CREATE, UPDATE], resources: [pods, pods/resize]}]
- name: validate-pod-status.usher.dev
  clientConfig: {service: {name: usher, namespace: usher, path: /validate-pod-status}}
  rules: [{operations: [UPDATE], resources: [pods/status]}]
`

func TestRegistrationIsForOneWay(t *testing.T) {
	all, err := registration(printed, core, 4711, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if names := calledForPods(all); !slices.Equal(names, []string{"core.mutate-pods.usher.dev", "core.validate-pod.usher.dev"}) {
		t.Errorf("called for a new pod: %v", names)
	}
	for _, c := range all {
		if c.String("metadata", "name") != "throughput-core" {
			t.Errorf("%v", c["metadata"])
		}
		for _, webhook := range c["webhooks"].([]kubetest.Object) {
			if webhook.At("clientConfig", "service", "port") != 4711 {
				t.Errorf("%v", webhook)
			}
			ofNodes := webhook.String("name") == "core.mutate-nodes.usher.dev"
			if selected := webhook.String("namespaceSelector", "matchLabels", wayLabel); (selected == core) == ofNodes {
				t.Errorf("%s is for the namespaces of %q", webhook.String("name"), selected)
			}
		}
	}
	if kept := all[0]["webhooks"].([]kubetest.Object)[0].String("namespaceSelector", "matchLabels", "admission-webhook"); kept != "enabled" {
		t.Error("usher's own selector is gone")
	}
}

func TestRegistrationKeepsSome(t *testing.T) {
	some, err := registration(printed, constant, 1, func(resources string) bool { return resources == "pods" })
	if err != nil {
		t.Fatal(err)
	}
	if names := calledForPods(some); !slices.Equal(names, []string{"constant.mutate-pods.usher.dev"}) {
		t.Errorf("%v", names)
	}
}

func TestNewCalls(t *testing.T) {
	const before = "apiserver_admission_webhook_request_total{code=\"200\",name=\"a\",type=\"admit\"} 1\n" +
		"apiserver_admission_webhook_request_total{code=\"200\",name=\"b\",type=\"admit\"} 1\n"
	after := strings.Replace(before, "\"admit\"} 1", "\"admit\"} 2", 1) + "apiserver_admission_webhook_request_total{code=\"200\",name=\"c\",type=\"validating\"} 1\n"
	if names := newCalls(before, after); !slices.Equal(names, []string{"a", "c"}) {
		t.Errorf("%v", names)
	}
}

func TestConstantAnswers(t *testing.T) {
	review := []byte(`{"kind":"AdmissionReview","request":{"uid":"5fad","object":{"metadata":{"uid":"another"}}}}`)
	if uid := string(uidOf(review)); uid != "5fad" {
		t.Errorf("uid %q", uid)
	}
	if patch, err := patchOf([]byte(`{"response":{"allowed":true,"patch":"W10="}}`)); string(patch) != "[]" || err != nil {
		t.Errorf("%s, %v", patch, err)
	}
	for _, answer := range []string{`{"response":{"allowed":false,"patch":"W10="}}`, `{"response":{"allowed":true}}`, `no JSON`} {
		if _, err := patchOf([]byte(answer)); err == nil {
			t.Errorf("%s passes", answer)
		}
	}
}
