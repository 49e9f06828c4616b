package examine

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// canary runs `usherctl doctor --canary`, and returns what it says of each webhook: called, or the filter.
func canary(ctx context.Context, t *testing.T, flags ...string) (said map[string]string, code int, out string) {
	t.Helper()
	out, err := cluster.RunProgram(ctx, usherctl, append([]string{"doctor", "--canary", "-o", "json", "--kubeconfig=" + cluster.AdminKubeconfig()}, flags...)...)
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		code = ended.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	said = map[string]string{}
	var reports []struct {
		Webhooks []struct {
			Name, Filter string
			Called       bool
		}
	}
	_ = json.Unmarshal([]byte(out), &reports) // an error is a text
	for _, r := range reports {
		for _, w := range r.Webhooks {
			if said[w.Name] = w.Filter; w.Called {
				said[w.Name] = "called"
			}
		}
	}
	return said, code, out
}

// TestCanary: what a canary says of usher's webhooks is what the API server does, and nothing is stored.
func TestCanary(t *testing.T) {
	const mutate, validate = "mutate-pods.usher.dev", "validate-pods.usher.dev"
	remove := func(name string) func([]any) []any {
		return func(all []any) []any {
			return slices.DeleteFunc(all, func(w any) bool { return kubetest.Object(w.(map[string]any)).String("name") == name })
		}
	}
	change := func(name, field string, value any) func([]any) []any {
		return func(all []any) []any {
			for _, w := range all {
				if kubetest.Object(w.(map[string]any)).String("name") == name {
					w.(map[string]any)[field] = value
				}
			}
			return all
		}
	}
	for _, namespace := range []string{"apps", "foreign"} { // nothing here creates the service accounts that pods need
		apply(t, cluster.Apply(t.Context(), `{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "`+namespace+`"}}`))
	}
	condition := []any{map[string]any{"name": "other", "expression": "object.metadata.namespace == 'bank'"}}
	for _, c := range []struct {
		name, namespace    string
		change             func([]any) []any // of the validating configuration
		mutates, validates string
		code               int
	}{
		{"registered", "apps", nil, "called", "called", 0},
		{"a namespace that has not opted in", "foreign", nil, "namespaceSelector", "namespaceSelector", 1},
		{"not registered", "apps", remove(validate), "called", "registration", 1},
		{"narrowed by a condition", "apps", change(validate, "matchConditions", condition), "called", "matchConditions", 1},
		{"no such namespace", "nowhere", nil, "unknown", "unknown", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := cluster.Within(t, time.Minute)
			if c.change != nil {
				edit(ctx, t, "validating", c.change)
			}
			apply(t, kubetest.Eventually(ctx, func(ctx context.Context) error { // an API server takes over a configuration within a second
				said, code, out := canary(ctx, t, "--yes", "-n", c.namespace)
				if said[mutate] != c.mutates || said[validate] != c.validates || code != c.code {
					return errors.New(out)
				}
				return nil
			}))
		})
	}
	ctx := cluster.Within(t, time.Minute)
	if pods, err := cluster.Admin().Get(ctx, "/api/v1/namespaces/apps/pods"); err != nil || len(pods.List("items")) > 0 {
		t.Errorf("%v %v", pods, err)
	}
	if _, code, out := canary(ctx, t); code != 2 || strings.Contains(out, "called") {
		t.Errorf("without --yes and a terminal: exit code %d: %s", code, out)
	}
}
