package workload

import (
	"strings"
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// TestPodOfWorkload: each kind's pod has what its controller sets, and of the template only what controllers read.
func TestPodOfWorkload(t *testing.T) {
	const template = `{"metadata":{"name":"dropped","labels":{"app":"web"},"annotations":{"a":"b"},"ownerReferences":[]},` +
		`"spec":{"containers":[{"name":"c","image":"i"}],"mine":1.0,"volumes":[{"name":"data","emptyDir":{}},{"name":"own","emptyDir":{}}]},"status":{}}`
	for _, c := range []struct{ kind, spec, want string }{
		{"Deployment", `{"template": $T}`, `"generateName":"w-HASH-","namespace":"n","labels":{"app":"web","pod-template-hash":"HASH"}`},
		{"Deployment", `{"template": $T}`, `"kind":"ReplicaSet","name":"w-HASH"`},
		{"StatefulSet", `{"serviceName": "s", "template": $T, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}`,
			`"volumes":[{"name":"own","emptyDir":{}},{"name":"data","persistentVolumeClaim":{"claimName":"data-w-0"}}],"hostname":"w-0","subdomain":"s"`},
		{"StatefulSet", `{"template": $T}`, `"name":"w-0"`},
		{"DaemonSet", `{"template": $T}`, `"pod-template-generation":"1"`},
		{"Job", `{"template": $T}`, `"batch.kubernetes.io/job-name":"w","job-name":"w"`},
		{"CronJob", `{"jobTemplate": {"spec": {"template": $T}}}`, `"kind":"Job","name":"w-29391840"`},
		{"ReplicationController", `{"template": $T}`, `"kind":"ReplicationController","name":"w"`},
	} {
		t.Run(c.kind, func(t *testing.T) {
			var kind admit.WorkloadKind
			for _, k := range admit.WorkloadKinds() {
				if k.Kind == c.kind {
					kind = k
				}
			}
			d, err := document.Parse([]byte(`{"apiVersion": "x/v1", "kind": "` + c.kind + `", "metadata": {"name": "w", "namespace": "n"}, "spec": ` +
				strings.Replace(c.spec, "$T", template, 1) + `}`))
			if err != nil {
				t.Fatal(err)
			}
			pod := string(Pod(kind, d).Bytes())
			if c.kind == "Deployment" {
				_, rest, _ := strings.Cut(pod, `"generateName":"w-`)
				hash, _, _ := strings.Cut(rest, "-")
				pod = strings.ReplaceAll(pod, hash, "HASH")
			}
			if !strings.Contains(pod, c.want) {
				t.Errorf("%s\nlacks %s", pod, c.want)
			}
			for _, gone := range []string{"dropped", `"status"`} {
				if strings.Contains(pod, gone) {
					t.Errorf("%s has %s", pod, gone)
				}
			}
			if !strings.Contains(pod, `"mine":1.0`) || !strings.Contains(pod, `"annotations":{"a":"b"}`) || d.Edits() > 0 || d.Err() != nil || !strings.HasPrefix(pod, `{"apiVersion":"v1","kind":"Pod"`) {
				t.Errorf("%s; %d edits of the workload, %v", pod, d.Edits(), d.Err())
			}
		})
	}
}

// TestNoPodOfWorkload: without a template there is no pod, and a template of the wrong type is the workload's error.
func TestNoPodOfWorkload(t *testing.T) {
	kind := admit.WorkloadKinds()[0]
	for text, wrong := range map[string]bool{`{}`: false, `{"spec": {}}`: false, `{"spec": {"template": null}}`: false, `{"spec": "x"}`: true} {
		d, err := document.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if pod := Pod(kind, d); pod != nil || (d.Err() != nil) != wrong {
			t.Errorf("%s: %v, %v", text, pod, d.Err())
		}
	}
}
