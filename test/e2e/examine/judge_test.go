package examine

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestRefused: what the API server refuses has not passed, neither by doctor -f nor by a canary.
func TestRefused(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	apply(t, cluster.Apply(ctx, `{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "apps"}}`))
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	apply(t, os.WriteFile(pod, []byte("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: apps}, spec: {containers: [{name: a, image: registry.example.com/a:1}]}}"), 0o600))
	s, err := serve(ctx, "refusing", certificate{})
	apply(t, err)
	w := s.webhook("refusing")
	w["rules"] = rules("", "v1", "pods", "CREATE", "Namespaced")
	w["clientConfig"].(kubetest.Object)["caBundle"] = healthy.ca
	apply(t, created(ctx, registrations+"validatingwebhookconfigurations", configuration("Validating", "refusing", w)))
	cluster.DeleteAfter(t, registrations+"validatingwebhookconfigurations/refusing")
	out, _ := cluster.RunProgram(ctx, usherctl, "doctor", "-f", pod, "--kubeconfig="+cluster.AdminKubeconfig())
	for _, text := range []string{"refused  CREATE Pod apps/a", "ca-bundle-mismatch", "taken to be of the user", "system:masters", "shows what webhooks and policies answer"} {
		if !strings.Contains(out, text) {
			t.Errorf("it does not say %q: %s", text, out)
		}
	}
	apply(t, kubetest.Eventually(ctx, func(ctx context.Context) error {
		if _, code, out := canary(ctx, t, "--yes", "-n", "apps"); code == 0 || strings.Contains(out, `"passed"`) || !strings.Contains(out, "refusing.foreign.example") {
			return errors.New(out)
		}
		return nil
	}))
}

// TestRefusedByAPolicy: what an admission policy refuses has not passed, and what it lets through has, as the API server says.
func TestRefusedByAPolicy(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	file := filepath.Join(t.TempDir(), "map.yaml")
	apply(t, os.WriteFile(file, []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: judged, namespace: foreign, labels: {team: shop}}}"), 0o600))
	type more = kubetest.Object
	for _, c := range []struct {
		name, expression, says string
		more                   more // of the policy
		action                 string
	}{
		{"constant", "false", "refused  CREATE ConfigMap foreign/judged", nil, "Deny"}, {"label", "object.metadata.labels.team == 'bank'", "failed expression: object.metadata.labels.team", nil, "Deny"},
		{"namespace", "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] != 'foreign'", "failed expression: namespaceObject", nil, "Deny"},
		{"missing", "object.metadata.annotations['a'] == 'b'", "resulted in error: no such key: annotations", nil, "Deny"}, {"variable", "variables.team == 'bank'", "failed expression: variables.team", nil, "Deny"},
		{"condition", "true", "expression 'namespaceObject.metadata.name == 'foreign'' resulted in error: no such key: metadata",
			more{"matchConditions": []more{{"name": "a", "expression": "namespaceObject.metadata.name == 'foreign'"}}}, "Deny"},
		{"annotation", "true", "expression ''of ' + object.metadata.annotations['a']' resulted in error: no such key: annotations",
			more{"auditAnnotations": []more{{"key": "a", "valueExpression": "'of ' + object.metadata.annotations['a']"}}}, "Warn"},
		{"fine", "variables.team == 'shop'", "passed  CREATE ConfigMap foreign/judged", nil, "Deny"},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy := kubetest.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": kubetest.Object{"name": c.name}, "spec": kubetest.Object{
				"matchConstraints": kubetest.Object{"resourceRules": rules("", "v1", "configmaps", "CREATE", "Namespaced")},
				"variables":        []kubetest.Object{{"name": "team", "expression": "object.metadata.labels.team"}}, "validations": []kubetest.Object{{"expression": c.expression}}}}
			maps.Copy(policy["spec"].(kubetest.Object), c.more)
			binding := kubetest.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": kubetest.Object{"name": c.name},
				"spec": kubetest.Object{"policyName": c.name, "validationActions": []string{c.action},
					"matchResources": kubetest.Object{"namespaceSelector": kubetest.Object{"matchLabels": kubetest.Object{"kubernetes.io/metadata.name": "foreign"}}}}}
			cluster.DeleteAfter(t, registrations+"validatingadmissionpolicies/"+c.name)
			cluster.DeleteAfter(t, registrations+"validatingadmissionpolicybindings/"+c.name)
			apply(t, created(ctx, registrations+"validatingadmissionpolicies", policy))
			apply(t, created(ctx, registrations+"validatingadmissionpolicybindings", binding))
			out, err := cluster.RunProgram(ctx, usherctl, "doctor", "-f", file, "--kubeconfig="+cluster.AdminKubeconfig())
			if (err == nil) != (c.name == "fine") || !strings.Contains(out, c.says) {
				t.Errorf("%v: %s", err, out)
			}
			apply(t, kubetest.Eventually(ctx, func(ctx context.Context) error { // the API server notices policies later
				_, err := cluster.Kubectl(ctx, "apply", "--dry-run=server", "-f", file)
				switch {
				case c.name == "fine":
					return err
				case err == nil:
					return errors.New("the API server lets it through")
				case !strings.Contains(err.Error(), "'"+c.name+"'"):
					return err
				}
				return nil
			}))
		})
	}
}
