package process

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestExcludedPods: pods of the listed service accounts can start without usher, whichever suite would ask; their subresources, and
// other pods of the same namespace, are sent to usher.
func TestExcludedPods(t *testing.T) {
	dir := t.TempDir()
	code, out, errors := usher(t, "webhooks", "--suite=core,colocation", "--config=samples/policy.yaml", "--exclude-pods=net/cni", "--exclude-pods=disk/csi")
	if code != 0 {
		t.Fatal(errors)
	}
	writeFile(t, dir+"/webhooks.yaml", out)
	for _, name := range []string{"net", "disk"} {
		writeFile(t, dir+"/"+name+".yaml", fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {admission-webhook: enabled}}}", name))
	}
	for _, c := range []struct {
		name, namespace, spec string
		flags                 []string
		called                bool
	}{
		{"listed", "net", "serviceAccountName: cni", nil, false},
		{"the other one", "disk", "serviceAccountName: csi", nil, false},
		{"an account of another namespace", "disk", "serviceAccountName: cni", nil, true},
		{"another account", "net", "serviceAccountName: default", nil, true},
		{"without an account", "net", "nodeName: n", nil, true},
		{"an ephemeral container", "net", "serviceAccountName: cni", []string{"--operation=UPDATE", "--subresource=ephemeralcontainers"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := t.TempDir() + "/pod.yaml"
			writeFile(t, pod, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: %s}, spec: {%s, containers: [{name: c, image: i}]}}", c.namespace, c.spec))
			_, out, errors := run(t, "", append([]string{"doctor", "-f", pod, "--cluster-dir", dir, "-o", "json"}, c.flags...)...)
			called, excluded := strings.Contains(out, `"called": true`), strings.Contains(out, `"why": "not-excluded-pods is false`)
			if excluded == c.called || called && !c.called {
				t.Errorf("called: %v, excluded: %v\n%s%s", called, excluded, out, errors)
			}
		})
	}
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
