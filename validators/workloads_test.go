package validators

import (
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/config"
)

// TestRefusesWorkloads: the webhook for workloads stops requests while usher is unavailable only under policies that may refuse one.
func TestRefusesWorkloads(t *testing.T) {
	overridden := func(o override.Spec) override.List {
		o.Steps = []string{workloadsName}
		return override.List{o}
	}
	percent := 10
	for _, c := range []struct {
		name    string
		section any
		refuses bool
	}{
		{"nothing", &Names{}, false},
		{"warn", &WorkloadPolicy{Mode: admit.Warn}, false},
		{"the default", &WorkloadPolicy{}, false},
		{"enforce", &WorkloadPolicy{Mode: admit.Enforce}, true},
		{"enforced by modes", admit.Modes{workloadsName: admit.Enforce}, true},
		{"enforced by an override", overridden(override.Spec{Mode: admit.Enforce}), true},
		{"enforced for some", overridden(override.Spec{EnforcePercent: &percent}), true},
		{"off by an override", overridden(override.Spec{Mode: admit.Off}), false},
		{"label rules", LabelRules{{}}, false},
		{"label rules for workloads", LabelRules{{Workloads: true}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := RefusesWorkloads(config.PolicyOf(c.section)); got != c.refuses {
				t.Errorf("%v, want %v", got, c.refuses)
			}
		})
	}
}

// TestModeOfWorkloads: the section sets the mode of the step, which is warn without it.
func TestModeOfWorkloads(t *testing.T) {
	for mode, want := range map[admit.Mode]admit.Mode{"": admit.Warn, admit.Warn: admit.Warn, admit.Enforce: admit.Enforce, admit.Off: admit.Off} {
		steps := Workloads(config.PolicyOf(&WorkloadPolicy{Mode: mode}), admit.Questions{})
		i := slices.IndexFunc(steps, func(v admit.Validator[admit.Workload]) bool { return v.Name == workloadsName })
		if got := steps[i]; got.Mode != want || got.Idle != (want == admit.Off) {
			t.Errorf("%q: mode %s, idle %v", mode, got.Mode, got.Idle)
		}
	}
}

// TestOfWorkload: what another workload controls is left to it; what a custom resource controls is judged.
func TestOfWorkload(t *testing.T) {
	for owners, want := range map[string]string{
		`[]`: "",
		`[{"apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "controller": true}]`:      "Deployment",
		`[{"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}]`:                          "",
		`[{"apiVersion": "example.com/v1", "kind": "Database", "name": "a", "controller": true}]`: "",
		`[{"apiVersion": "batch/v1", "kind": "CronJob", "name": "a", "controller": true}]`:        "CronJob",
	} {
		d, err := document.Parse([]byte(`{"metadata": {"ownerReferences": ` + owners + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := OfWorkload(&admit.Request{Object: d}); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", owners, got, want)
		}
	}
}
