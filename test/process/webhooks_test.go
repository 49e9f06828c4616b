package process

import (
	"slices"
	"strings"
	"testing"

	registration "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"
)

// validating returns the webhooks of the validating configuration that `usher webhooks` prints, by path.
func validating(t *testing.T, flags ...string) map[string]registration.ValidatingWebhook {
	t.Helper()
	code, out, errors := run(t, "", append([]string{"webhooks", "--suite=colocation"}, flags...)...)
	_, text, ok := strings.Cut(out, "\n---\n")
	var c registration.ValidatingWebhookConfiguration
	if err := yaml.Unmarshal([]byte(text), &c); code != 0 || !ok || err != nil {
		t.Fatalf("%d %s %v", code, errors, err)
	}
	byPath := map[string]registration.ValidatingWebhook{}
	for _, w := range c.Webhooks {
		byPath[*w.ClientConfig.Service.Path] = w
	}
	return byPath
}

// TestFailClosed: the routes that fail open by default are listed here one by one.
func TestFailClosed(t *testing.T) {
	const gates = "--feature-gates=BindingAdmissionWebhook=true,EnableQuotaAdmission=true,NodeValidatingWebhook=true"
	for _, c := range []struct {
		flags []string
		open  []string
	}{
		{nil, []string{"/validate-node", "/validate-pod-binding", "/validate-pod-status", "/validate-workload"}},
		{[]string{"--fail-closed=/validate-pod-binding"}, []string{"/validate-node", "/validate-pod-status", "/validate-workload"}},
		{[]string{"--fail-closed=/validate-pod-binding,/validate-pod-status,/validate-pod"}, []string{"/validate-node", "/validate-workload"}},
	} {
		var open []string
		for path, w := range validating(t, append(c.flags, gates)...) {
			if *w.FailurePolicy == registration.Ignore {
				open = append(open, path)
			}
		}
		if slices.Sort(open); !slices.Equal(open, c.open) {
			t.Errorf("%v: %v fail open, want %v", c.flags, open, c.open)
		}
	}
}

// TestSubresourcesAreCalledRarely: status writes and Bindings are only sent where a gate needs them, and never those by
// a kubelet.
func TestSubresourcesAreCalledRarely(t *testing.T) {
	const binding, quota = "BindingAdmissionWebhook=true", "EnableQuotaAdmission=true"
	for _, c := range []struct {
		gates           string
		status, binding string // what the conditions say; "-": not registered
	}{
		{"TopologyValidation=true", "-", "-"},
		{binding, "labels annotations", ""},
		{quota, "labels phase", "quota.scheduling.koordinator.sh/name"},
		{binding + "," + quota, "labels annotations phase", ""},
	} {
		webhooks := validating(t, "--feature-gates="+c.gates)
		status, registered := webhooks["/validate-pod-status"]
		if registered != (c.status != "-") {
			t.Errorf("%s: /validate-pod-status is registered: %v", c.gates, registered)
		}
		if registered {
			if *status.FailurePolicy != registration.Ignore || len(status.MatchConditions) != 2 || !strings.Contains(status.MatchConditions[0].Expression, "system:node:") {
				t.Errorf("%s: %+v", c.gates, status)
			}
			for _, part := range []string{"labels", "annotations", "phase"} {
				if has := strings.Contains(status.MatchConditions[1].Expression, part); has != strings.Contains(c.status, part) {
					t.Errorf("%s: /validate-pod-status looks at %s: %v", c.gates, part, has)
				}
			}
		}
		bindings, registered := webhooks["/validate-pod-binding"]
		if registered != (c.binding != "-") || registered && (len(bindings.MatchConditions) == 0) != (c.binding == "") {
			t.Errorf("%s: /validate-pod-binding: %v, %+v", c.gates, registered, bindings.MatchConditions)
		}
	}
}
