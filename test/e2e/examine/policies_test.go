package examine

import (
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestPolicies: a binding without a policy is found until it has one; a policy without a binding is a remark.
func TestPolicies(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	object := func(kind string, spec kubetest.Object) kubetest.Object {
		return kubetest.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": kubetest.Object{"name": "planted"}, "spec": spec}
	}
	apply(t, created(ctx, registrations+"validatingadmissionpolicybindings", object("ValidatingAdmissionPolicyBinding",
		kubetest.Object{"policyName": "gone", "validationActions": []string{"Deny"}})))
	found, code := doctor(ctx, t, cluster.AdminKubeconfig())
	expect(t, found, code, "policy-missing", []string{"gone", "kubectl edit validatingadmissionpolicybinding planted"})
	correct(ctx, t, found)
	paste(ctx, t, "kubectl delete validatingadmissionpolicybinding planted")
	apply(t, created(ctx, registrations+"validatingadmissionpolicies", object("ValidatingAdmissionPolicy", kubetest.Object{
		"matchConstraints": kubetest.Object{"resourceRules": rules("", "v1", "configmaps", "CREATE", "Namespaced")},
		"validations":      []kubetest.Object{{"expression": "true"}}})))
	cluster.DeleteAfter(t, registrations+"validatingadmissionpolicies/planted")
	if found, code := doctor(ctx, t, cluster.AdminKubeconfig()); code != 0 || len(found) != 1 || found[0].ID != "policy-not-bound" {
		t.Errorf("exit code %d: %+v", code, found)
	}
	apply(t, created(ctx, registrations+"validatingadmissionpolicybindings", object("ValidatingAdmissionPolicyBinding",
		kubetest.Object{"policyName": "plantd", "validationActions": []string{"Deny"}})))
	cluster.DeleteAfter(t, registrations+"validatingadmissionpolicybindings/planted")
	found, code = doctor(ctx, t, cluster.AdminKubeconfig())
	expect(t, found, code, "policy-missing", []string{"Did you mean planted"})
	paste(ctx, t, found[0].Look)
	paste(ctx, t, `kubectl patch validatingadmissionpolicybinding planted --type=merge -p '{"spec": {"policyName": "planted"}}'`)
	if found, code := doctor(ctx, t, cluster.AdminKubeconfig()); code != 0 || len(found) > 0 {
		t.Errorf("exit code %d: %+v", code, found)
	}
}

// TestPoliciesOfNothing: what keeps a policy from being asked is found until it is corrected.
func TestPoliciesOfNothing(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	policy := kubetest.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": kubetest.Object{"name": "nothing"}, "spec": kubetest.Object{
		"paramKind":        kubetest.Object{"apiVersion": "v1", "kind": "ConfigMap"},
		"matchConstraints": kubetest.Object{"resourceRules": rules("", "v1", "configmap", "CREATE", "Namespaced")},
		"validations":      []kubetest.Object{{"expression": "true"}}}}
	binding := kubetest.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": kubetest.Object{"name": "nothing"}, "spec": kubetest.Object{
		"policyName": "nothing", "validationActions": []string{"Deny"}, "paramRef": kubetest.Object{"name": "gone", "namespace": "foreign", "parameterNotFoundAction": "Deny"}}}
	apply(t, created(ctx, registrations+"validatingadmissionpolicies", policy))
	cluster.DeleteAfter(t, registrations+"validatingadmissionpolicies/nothing")
	apply(t, created(ctx, registrations+"validatingadmissionpolicybindings", binding))
	cluster.DeleteAfter(t, registrations+"validatingadmissionpolicybindings/nothing")
	found, code := doctor(ctx, t, cluster.AdminKubeconfig())
	expect(t, found, code, "policy-param-missing", []string{"ConfigMap foreign/gone"})
	if len(found) != 2 || found[1].ID != "rule-unknown-resource" {
		t.Fatalf("%+v", found)
	}
	paste(ctx, t, found[1].Look)
	paste(ctx, t, `kubectl patch validatingadmissionpolicy nothing --type=json -p '[{"op": "replace", "path": "/spec/matchConstraints/resourceRules/0/resources/0", "value": "configmaps"}]'`)
	if found, _ := doctor(ctx, t, cluster.AdminKubeconfig()); len(found) != 1 || found[0].ID != "policy-param-missing" {
		t.Errorf("%+v", found)
	}
}

// TestConditionsOfPolicies: match conditions of an admission policy that never hold, or that have no result, are found as those of webhooks,
// and the API server does what the finding says.
func TestConditionsOfPolicies(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	for _, c := range []struct{ name, condition, want, says string }{
		{"never", "request.operation == 'DELETE'", "match-condition-never", "the policy is never asked"},
		{"failing", "object.spec.nope == 'x'", "match-condition-fails", "refused"},
		{"nowhere", "namespaceObject.metadata.name == 'foreign'", "match-condition-fails", "namespaceObject is null"},
	} {
		policy := kubetest.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": kubetest.Object{"name": c.name}, "spec": kubetest.Object{
			"matchConstraints": kubetest.Object{"resourceRules": rules("", "v1", "pods", "CREATE", "Namespaced")},
			"matchConditions":  []kubetest.Object{{"name": "when", "expression": c.condition}}, "validations": []kubetest.Object{{"expression": "false"}}}}
		binding := kubetest.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": kubetest.Object{"name": c.name},
			"spec": kubetest.Object{"policyName": c.name, "validationActions": []string{"Deny"}}}
		t.Run(c.name, func(t *testing.T) {
			cluster.DeleteAfter(t, registrations+"validatingadmissionpolicies/"+c.name)
			cluster.DeleteAfter(t, registrations+"validatingadmissionpolicybindings/"+c.name)
			apply(t, created(ctx, registrations+"validatingadmissionpolicies", policy))
			apply(t, created(ctx, registrations+"validatingadmissionpolicybindings", binding))
			found, code := doctor(ctx, t, cluster.AdminKubeconfig())
			expect(t, found, code, c.want, []string{c.says})
			correct(ctx, t, found)
		})
	}
}
