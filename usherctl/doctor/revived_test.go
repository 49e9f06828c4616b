package doctor

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/server/webhooks"
)

// TestRevived: which pods have ended and run again by their phase.
func TestRevived(t *testing.T) {
	const (
		completed = `conditions: [{type: Ready, status: "False", reason: PodCompleted, lastTransitionTime: "2026-01-01T00:00:00Z"}]`
		exited    = `containerStatuses: [{name: c, state: {terminated: {exitCode: 1, finishedAt: "2026-01-01T00:00:00Z"}}}]`
		registers = "\n---\n" + `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: usher},
webhooks: [{name: validate-pod-status.usher.dev, clientConfig: {service: {namespace: usher, name: usher, path: /validate-pod-status}}, sideEffects: None,
admissionReviewVersions: [v1], timeoutSeconds: 2, failurePolicy: Ignore,
rules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods/status]}], namespaceSelector: {matchLabels: {a: b}}}]}`
	)
	for _, c := range []struct {
		what, spec, status, and string
		found                   bool
		owner                   string
	}{
		{"completed", "restartPolicy: Always", "phase: Running, " + completed, registers, true, ""},
		{"usher does not check it", "restartPolicy: Always", "phase: Running, " + completed, "", false, ""},
		{"completed, and says so", "restartPolicy: Always", "phase: Succeeded, " + completed, registers, false, ""},
		{"all containers have terminated", "restartPolicy: Never", "phase: Running, " + exited, registers, true, ""},
		{"of a ReplicaSet", "restartPolicy: Always", "phase: Running, " + completed, registers, true, "ReplicaSet"},
		{"of a Job, which would run again", "restartPolicy: Never", "phase: Running, " + exited, registers, true, "Job"},
		{"they are started again", "restartPolicy: OnFailure", "phase: Running, " + exited, registers, false, ""},
		{"one is not reported", "restartPolicy: Never", "phase: Running", registers, false, ""},
		{"runs", "restartPolicy: Never", "phase: Running, containerStatuses: [{name: c, state: {running: {}}}]", registers, false, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := t.TempDir()
			owners := ""
			if c.owner != "" {
				owners = ", ownerReferences: [{apiVersion: v1, kind: " + c.owner + ", name: o, uid: u, controller: true}]"
			}
			manifest := fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns%s}, spec: {%s, containers: [{name: c}]}, status: {%s}}%s",
				owners, c.spec, c.status, c.and)
			if err := os.WriteFile(dir+"/a.yaml", []byte(manifest), 0o600); err != nil {
				t.Fatal(err)
			}
			source, err := reader.Files(dir)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if c.found {
				want = "pod-runs-again"
			}
			f := read(t.Context(), source, nil)
			found := Usher{Needed: func([]string) []webhooks.Hook { return nil }}.problems(t.Context(), f, nil, nil)
			expectOne(t, found, want)
			removed := map[bool]string{true: "kubectl -n ns delete pod p"}[c.owner == "ReplicaSet"] // by what replaces it
			if c.found && (found[0].Fix != removed || found[0].Object != "pod ns/p" || (removed == "") != strings.HasSuffix(found[0].Look, "get pod p -o yaml")) {
				t.Errorf("%+v", found[0])
			}
		})
	}
}
