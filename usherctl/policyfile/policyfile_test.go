package policyfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/policyfile"
)

// TestLoad: what an API server refuses in a pod is refused in sidecars, at its path in the policy.
func TestLoad(t *testing.T) {
	for name, c := range map[string]struct{ policy, wrong string }{
		"valid":       {"sidecars: [{name: a, containers: [{name: c, image: i}]}]", ""},
		"no sidecars": {"names: {denied: [a]}", ""},
		"container":   {"sidecars: [{name: a, env: [{name: A, value: b}]}, {name: b, containers: [{name: c}]}]", "sidecars[1].containers[0].image: Required value"},
		"init container": {"sidecars: [{name: a, initContainers: [{name: c, image: i, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]}]",
			"sidecars[0].initContainers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"},
		"volume":   {"sidecars: [{name: a, volumes: [{name: v, hostPath: {path: ..}}]}]", "sidecars[0].volumes[0].hostPath.path: Invalid value"},
		"variable": {"sidecars: [{name: a, env: [{name: A, valueFrom: {}}]}]", "sidecars[0].env[0].valueFrom: Invalid value"},
		"section":  {"sidecar: []", "sidecar: Forbidden: unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "policy.yaml")
			err := os.WriteFile(file, []byte(c.policy), 0o600)
			policy, wrong := policyfile.Load(t.Context(), file, routes.Suites().Schema())
			if wrong = errors.Join(err, wrong); (policy == nil) != (c.wrong != "") || (wrong == nil) != (c.wrong == "") {
				t.Fatalf("%v, want %q", wrong, c.wrong)
			}
			if wrong != nil && !strings.HasPrefix(wrong.Error(), "policy "+file+":\n  "+c.wrong) {
				t.Errorf("%v, want %q", wrong, c.wrong)
			}
		})
	}
}
