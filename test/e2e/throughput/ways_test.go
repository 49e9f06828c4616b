package main

import (
	"errors"
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
	all, err := registration(printed, core, 4711, true)
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

func TestRegistrationLeavesOutNodes(t *testing.T) {
	some, err := registration(printed, constantBoth, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 2} { // the mutating ones, and the validating ones
		if webhooks := some[i]["webhooks"].([]kubetest.Object); len(webhooks) != want || strings.Contains(webhooks[0].String("name"), "nodes") {
			t.Errorf("%v", webhooks)
		}
	}
}

// TestSameOutcome: ways are compared only if the API server makes the same pod in them.
func TestSameOutcome(t *testing.T) {
	w := world{outcomes: map[string]string{}}
	pod := func(value string) kubetest.Object {
		return kubetest.Object{"metadata": map[string]any{"name": value, "labels": map[string]any{"a": value}}, "spec": map[string]any{}}
	}
	if err := errors.Join(w.sameOutcome(way{name: none, like: none}, pod("0")), w.sameOutcome(way{name: core, like: core}, pod("1")),
		w.sameOutcome(way{name: constantCore, like: core}, pod("1"))); err != nil {
		t.Error(err)
	}
	if err := w.sameOutcome(way{name: constantCore, like: core}, pod("2")); err == nil {
		t.Error("another pod passes")
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

func TestPatchOf(t *testing.T) {
	if patch, err := patchOf([]byte(`{"response":{"allowed":true,"patch":"W10="}}`)); string(patch) != "[]" || err != nil {
		t.Errorf("%s, %v", patch, err)
	}
	for _, answer := range []string{`{"response":{"allowed":false,"patch":"W10="}}`, `{"response":{"allowed":true}}`, `no JSON`} {
		if _, err := patchOf([]byte(answer)); err == nil {
			t.Errorf("%s passes", answer)
		}
	}
}
