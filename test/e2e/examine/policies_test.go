package examine

import (
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestPolicies: a binding without a policy is found, and its command ends that; a policy without a binding is a remark.
func TestPolicies(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	object := func(kind string, spec kubetest.Object) kubetest.Object {
		return kubetest.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": kubetest.Object{"name": "planted"}, "spec": spec}
	}
	apply(t, created(ctx, registrations+"validatingadmissionpolicybindings", object("ValidatingAdmissionPolicyBinding",
		kubetest.Object{"policyName": "gone", "validationActions": []string{"Deny"}})))
	found, code := doctor(ctx, t, cluster.AdminKubeconfig())
	expect(t, found, code, "policy-missing", []string{"gone", "kubectl delete validatingadmissionpolicybinding planted"})
	correct(ctx, t, found)
	apply(t, created(ctx, registrations+"validatingadmissionpolicies", object("ValidatingAdmissionPolicy", kubetest.Object{
		"matchConstraints": kubetest.Object{"resourceRules": rules("", "v1", "configmaps", "CREATE", "Namespaced")},
		"validations":      []kubetest.Object{{"expression": "true"}}})))
	cluster.DeleteAfter(t, registrations+"validatingadmissionpolicies/planted")
	if found, code := doctor(ctx, t, cluster.AdminKubeconfig()); code != 0 || len(found) != 1 || found[0].ID != "policy-not-bound" {
		t.Errorf("exit code %d: %+v", code, found)
	}
}
