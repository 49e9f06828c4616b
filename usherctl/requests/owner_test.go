package requests

import (
	"strings"
	"testing"
)

const ownedBy = `metadata: {name: a, namespace: shop, uid: u, labels: {pod-template-hash: 5d4f}, ownerReferences: [{apiVersion: v1, controller: true, `

// TestOwners: a pod belongs to the workload at the end of the chain of controllers, as far as the files or its label tell.
func TestOwners(t *testing.T) {
	const objects = `
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: api-77, namespace: shop, ownerReferences: [{kind: Rollout, name: api, controller: true}]}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: nightly-1, namespace: shop, ownerReferences: [{kind: CronJob, name: nightly, controller: true}]}}
---
{apiVersion: v1, kind: A, metadata: {name: a, namespace: shop, ownerReferences: [{kind: A, name: a, controller: true}]}}
`
	owners := NewOwners(Read("f.yaml", strings.NewReader(objects)))
	for owner, want := range map[string]string{
		"kind: ReplicaSet, name: api-77": "Rollout shop/api", "kind: Job, name: nightly-1": "CronJob shop/nightly", "kind: DaemonSet, name: agent": "DaemonSet shop/agent",
		"kind: ReplicaSet, name: web-5d4f": "Deployment shop/web", "kind: ReplicaSet, name: web-other": "ReplicaSet shop/web-other", "kind: A, name: a": "A shop/a",
	} {
		pod := Read("f.yaml", strings.NewReader("{apiVersion: v1, kind: Pod, "+ownedBy+owner+"}]}}"))[0]
		if got := owners.Of(pod); got != want {
			t.Errorf("%s: %q, want %q", owner, got, want)
		}
	}
	for _, none := range []string{"{apiVersion: v1, kind: Pod, metadata: {name: p}}", "{apiVersion: v1, kind: ConfigMap, " + ownedBy + "kind: A, name: a}]}}"} {
		if got := owners.Of(Read("f.yaml", strings.NewReader(none))[0]); got != "" {
			t.Errorf("%s: %q", none, got)
		}
	}
}

// TestAsCreated: what a cluster has is taken without what it has filled in; everything else stays as it is.
func TestAsCreated(t *testing.T) {
	for text, want := range map[string]string{
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"1","generation":2,"creationTimestamp":"2026-01-01T00:00:00Z",
			"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":30,"managedFields":[],"labels":{"a":"b"}},
			"spec":{"nodeName":"n","ephemeralContainers":[{}]},"status":{"phase":"Running"}}`: `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"},"name":"a"},"spec":{"nodeName":"n"}}`,
		`{"kind":"Pod", "metadata":{"name":"a","resourceVersion":"1"},"status":{}}`: "",
		`{"kind":"AdmissionReview","request":{"uid":"u"}}`:                          "",
	} {
		got, existing := Document{JSON: []byte(text)}.AsCreated()
		if existing != (want != "") || existing && string(got.JSON) != want || !existing && string(got.JSON) != text {
			t.Errorf("%s, %v, want %s", got.JSON, existing, want)
		}
	}
}
