package process

import (
	"fmt"
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
	code, out, errors := run(t, "", args...)
	if _, again, _ := run(t, "", args...); code != 0 || again != out {
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
