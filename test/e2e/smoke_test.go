package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/binaries"
	"usher.dev/usher/e2e/kubetest"
)

// TestVersion: the API server is of the version that the environment chooses, or emulates it.
func TestVersion(t *testing.T) {
	version, err := cluster.Admin().Get(cluster.Within(t, time.Minute), "/version")
	got, want := version.String("emulationMajor")+"."+version.String("emulationMinor"), os.Getenv(binaries.VersionVariable)
	if err != nil || want != "" && got != want {
		t.Errorf("the API server is %s, want %s: %v", got, want, err)
	}
}

func TestOffensivePodIsDenied(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	_, err := cluster.Kubectl(ctx, "apply", "-f", "deploy/demo/offensive-pod.yaml")
	if err == nil {
		t.Fatal("the API server accepted the pod")
	}
	for _, want := range []string{"(Forbidden)", `admission webhook "validate-pods.usher.dev" denied the request`,
		`denied-names: metadata.name: Forbidden: "offensive-pod" contains "offensive"`, "choose another name"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("kubectl does not say %q:\n%v", want, err)
		}
	}
}

func TestLifespanTolerationsAreStored(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	if _, err := cluster.Kubectl(ctx, "apply", "-f", "deploy/demo/lifespan-pod.yaml"); err != nil {
		t.Fatal(err)
	}
	const path = "/api/v1/namespaces/apps/pods/lifespan-pod"
	cluster.DeleteAfter(t, path)
	pod, err := cluster.Admin().Get(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	var days []string
	for _, toleration := range pod.List("spec", "tolerations") {
		if toleration.String("key") == "acme.com/lifespan-remaining" {
			days = append(days, toleration.String("value"))
		}
	}
	if got, want := strings.Join(days, " "), "14 13 12 11 10 9 8 7"; got != want {
		t.Errorf("tolerated days %q, want %q", got, want)
	}
	if got := pod.String("spec", "containers", 0, "env", 0, "value"); got != "true" {
		t.Errorf("the container's KUBE is %q", got)
	}
}

func TestHeartbeatIsAmplified(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	const path = "/api/v1/nodes/n1"
	if _, err := cluster.Admin().Create(ctx, "/api/v1/nodes", `{"apiVersion": "v1", "kind": "Node",
		"metadata": {"name": "n1", "labels": {"admission-webhook": "enabled"}}}`); err != nil {
		t.Fatal(err)
	}
	cluster.DeleteAfter(t, path)
	const heartbeat = `{"status": {"capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"},
		"allocatable": {"cpu": "15900m", "memory": "62Gi", "pods": "110"}}}`
	for range 2 { // the kubelet repeats its status: usher must not amplify the amplified number
		if _, err := cluster.Node("n1").Patch(ctx, path+"/status", kubetest.StrategicPatch, heartbeat); err != nil {
			t.Fatal(err)
		}
		checkAmplified(t, path)
	}
	checkAudit(t)
}

func checkAmplified(t *testing.T, path string) {
	t.Helper()
	node, err := cluster.Admin().Get(cluster.Within(t, time.Minute), path)
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{"capacity": "16", "allocatable": "31800m"} {
		if got := node.String("status", field, "cpu"); got != want {
			t.Errorf("%s of cpu is %s, want %s", field, got, want)
		}
	}
	var memory map[string]struct{ Raw map[string]string }
	text := node.String("metadata", "annotations", "usher.dev/amplified")
	if err := json.Unmarshal([]byte(text), &memory); err != nil {
		t.Fatalf("the annotation is %q: %v", text, err)
	}
	if got := memory["cpu"].Raw["allocatable"]; got != "15900m" {
		t.Errorf("the annotation's raw cpu is %q, want 15900m: %s", got, text)
	}
}

// checkAudit checks that the audit log attributes the change of the heartbeat to usher.
func checkAudit(t *testing.T) {
	t.Helper()
	events, err := cluster.Audit(kubetest.Of("patch", "nodes/status", "n1"))
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 2 || events[0].User.Username != "system:node:n1" {
		t.Fatalf("audit events: %+v", events)
	}
	for _, event := range events {
		noted := false
		for key, value := range event.Annotations {
			noted = noted || strings.HasPrefix(key, "patch.webhook.admission.k8s.io/") && strings.Contains(value, "mutate-nodes.usher.dev")
		}
		if !noted {
			t.Errorf("no annotation tells usher's patch: %v", event.Annotations)
		}
	}
}
