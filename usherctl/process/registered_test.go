package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	registration "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/routes"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/test/harness"
)

// What `usher webhooks` prints, for each feature gate and for policies with and without all sections.

// registrations calls a function for the webhooks that are printed with other flags, and for the routes that are served
// with the same flags.
func registrations(t *testing.T, check func(t *testing.T, printed []registration.MutatingWebhook, served []admit.Route)) {
	t.Helper()
	policies := map[string]string{"the embedded policy": "", "every section": "samples/policy.yaml"}
	for name, file := range policies {
		suites := routes.Suites()
		policy := harness.DefaultPolicy(t, suites)
		flags := []string{"webhooks", "--suite=core,colocation"}
		if file != "" {
			policy = harness.ParsePolicy(t, suites, []byte(harness.ReadFile(t, file)))
			flags = append(flags, "--config="+file)
		}
		for _, gates := range gateSets(suites.Gates(), strings.TrimSpace(harness.ReadFile(t, "samples/feature-gates"))) {
			t.Run(name+" "+gates, func(t *testing.T) {
				set, err := suites.ParseGates(gates)
				if err != nil {
					t.Fatal(err)
				}
				check(t, printedWebhooks(t, append(flags, "--feature-gates="+gates)...), suite.Instance{Suites: suites, Policy: policy, Gates: set}.Routes())
			})
		}
	}
}

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

// gateSets returns the default gates, the demo's gates, and each gate switched alone.
func gateSets(all []gate.Gate, demo string) []string {
	sets := []string{"", demo}
	for _, g := range all {
		sets = append(sets, fmt.Sprintf("%s=%v", g.Name, !g.Default))
	}
	return sets
}

// printedWebhooks returns the webhooks of both configurations. A validating webhook has the fields of a mutating one.
func printedWebhooks(t *testing.T, args ...string) (all []registration.MutatingWebhook) {
	t.Helper()
	code, out, errors := usher(t, args...)
	if _, again, _ := usher(t, args...); code != 0 || again != out {
		t.Fatalf("exit code %d %s, or another output the second time", code, errors)
	}
	for _, text := range strings.Split(out, "\n---\n") {
		var c registration.MutatingWebhookConfiguration
		if err := yaml.UnmarshalStrict([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Webhooks {
			if isMutating := strings.HasPrefix(c.Kind, "Mutating"); isMutating != (w.ReinvocationPolicy != nil) {
				t.Errorf("%s of a %s: reinvocationPolicy %v", w.Name, c.Kind, w.ReinvocationPolicy)
			}
		}
		all = append(all, c.Webhooks...)
	}
	return all
}

// TestServedIsRegistered: the webhook configurations have entries for what is served, and for nothing else; what a gate
// switches off is not registered. Two routes for heartbeats are never registered together.
func TestServedIsRegistered(t *testing.T) {
	registrations(t, func(t *testing.T, printed []registration.MutatingWebhook, served []admit.Route) {
		paths := map[string]bool{}
		for _, w := range printed {
			paths[*w.ClientConfig.Service.Path] = true
		}
		heartbeats := 0
		for _, r := range served {
			switch {
			case r.Heartbeat() && paths[r.Path]:
				heartbeats++
			case r.Heartbeat():
			case paths[r.Path] != (len(r.For) > 0):
				t.Errorf("%s is for %v, registered: %v", r.Path, r.For, paths[r.Path])
			}
			delete(paths, r.Path)
		}
		if len(paths) > 0 || heartbeats != 1 {
			t.Errorf("%v are registered and not served; %d routes for heartbeats are registered", paths, heartbeats)
		}
	})
}

// TestRegistrationIsExplicit: no field has a default that an API server may choose, and none of them lets a request wait
// long, or a side effect happen on a dry run.
func TestRegistrationIsExplicit(t *testing.T) {
	registrations(t, func(t *testing.T, printed []registration.MutatingWebhook, served []admit.Route) {
		for _, w := range printed {
			switch {
			case w.FailurePolicy == nil, w.TimeoutSeconds == nil, w.MatchPolicy == nil, w.SideEffects == nil:
				t.Errorf("%s leaves a field to the API server: %+v", w.Name, w)
			case *w.TimeoutSeconds > 5, *w.MatchPolicy != registration.Equivalent, !slices.Equal(w.AdmissionReviewVersions, []string{"v1"}),
				*w.SideEffects != registration.SideEffectClassNone && *w.SideEffects != registration.SideEffectClassNoneOnDryRun:
				t.Errorf("%s: %d s, %s, versions %v, side effects %s", w.Name, *w.TimeoutSeconds, *w.MatchPolicy, w.AdmissionReviewVersions, *w.SideEffects)
			case w.ClientConfig.CABundle != nil:
				t.Errorf("%s has a caBundle without --ca-file", w.Name)
			}
			for _, rule := range w.Rules {
				if rule.Scope == nil || *rule.Scope == registration.AllScopes || len(rule.APIVersions) == 0 {
					t.Errorf("%s: a rule says neither scope nor versions, or both scopes: %+v", w.Name, rule)
				}
			}
		}
	})
}
