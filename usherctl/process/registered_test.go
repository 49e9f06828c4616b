package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctorAgrees: usherctl doctor finds nothing wrong with the webhooks that are printed for a policy.
func TestDoctorAgrees(t *testing.T) {
	policies, err := filepath.Glob("samples/policies/*.yaml")
	if err != nil || len(policies) == 0 {
		t.Fatal(err)
	}
	for _, file := range append(policies, "samples/policy.yaml") {
		_, printed, _ := usher(t, "webhooks", "--config", file)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "webhooks.yaml"), []byte(printed), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, errors := run(t, "", "doctor", "--cluster-dir", dir, "--config", file); code != 0 || !strings.Contains(out, " in 2 configurations: ") {
			t.Errorf("%s: exit code %d: %s%s", file, code, out, errors)
		}
	}
}

// TestAnotherPolicyRuns: where usher runs with another policy than its Deployment shows, what is registered for it is no error, and no command
// is printed that would remove it. The policy that runs settles it.
func TestAnotherPolicyRuns(t *testing.T) {
	const policy = "samples/policies/restrictions.yaml"
	ran := func(args ...string) (string, int) {
		code, out, errors := run(t, "", args...)
		return out + errors, code
	}
	code, registered, _ := usher(t, "webhooks", "--config", policy, "--url", "https://127.0.0.1:1")
	if code != 0 {
		t.Fatal(registered)
	}
	const deployment = `
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: usher, namespace: usher}, spec: {REPLICAStemplate: {spec: {containers: [{name: usher, args: [serve]}]}}}}
`
	for _, c := range []struct {
		name, deployment string
		judged           bool
	}{
		{"no Deployment", "", false},
		{"a Deployment without replicas", strings.Replace(deployment, "REPLICAS", "replicas: 0, ", 1), false},
		{"a Deployment with replicas", strings.Replace(deployment, "REPLICAS", "", 1), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(registered+c.deployment), 0o600); err != nil {
				t.Fatal(err)
			}
			text, code := ran("doctor", "--cluster-dir", dir)
			if changes := strings.Contains(text, "fix:  "); changes != c.judged || (code == 1) != c.judged {
				t.Errorf("exit code %d: %s", code, text)
			}
			if says := strings.Contains(text, "usher-registration-differs") && strings.Contains(text, "not judged: ") && strings.Contains(text, "--config FILE"); says == c.judged {
				t.Error(text)
			}
			if wrong := strings.Contains(text, "rule-wrong-scope"); wrong && !c.judged {
				t.Error(text)
			}
			if text, code := ran("doctor", "--cluster-dir", dir, "-f", "samples/manifests/labels.yaml"); !c.judged && (!strings.Contains(text, "no replicas") && !strings.Contains(text, "no Deployment") || strings.Contains(text, "fix: usher webhooks apply")) {
				t.Errorf("exit code %d: %s", code, text)
			}
			if text, _ := ran("doctor", "--cluster-dir", dir, "--config", policy); strings.Contains(text, "usher-registration-differs") || strings.Contains(text, "rule-wrong-scope") {
				t.Error(text)
			}
		})
	}
}
