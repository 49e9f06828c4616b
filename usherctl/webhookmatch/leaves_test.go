package webhookmatch

import (
	"strings"
	"testing"

	registration "k8s.io/api/admissionregistration/v1"
)

// TestLeavesOut: who is left out by what a condition asks of the user is known without the object.
func TestLeavesOut(t *testing.T) {
	rules := []registration.RuleWithOperations{{Operations: []registration.OperationType{registration.Create, registration.Update},
		Rule: registration.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}}
	for _, c := range []struct{ expression, want string }{
		{"true", ""},
		{"false", ""},
		{"request.dryRun == false", ""},
		{"request.userInfo.username != 'argocd'", ""},
		{"request.userInfo.username != 'jane'", ""},
		{"!('system:masters' in request.userInfo.groups)", "the group system:masters"},
		{"request.userInfo.username != 'admin' && !('system:masters' in request.userInfo.groups)", "the group system:masters, the user admin"},
		{"!('system:masters' in request.userInfo.groups) || request.namespace != 'kube-system'", "the group system:masters"},
		{"!('system:masters' in request.userInfo.groups) && object.metadata.name != 'a'", "the group system:masters"},
		{"request.namespace != 'a' && request.userInfo.username != 'argocd'", ""},
		{"!request.userInfo.username.startsWith('system:serviceaccount:kube-system:')", "the controllers, which create the pods of workloads"},
		{"request.operation == 'DELETE' || !('kubeadm:cluster-admins' in request.userInfo.groups)", "the group kubeadm:cluster-admins"},
		{"request.userInfo.username == 'jane'", "nearly everybody"},
		{"request.userInfo.extra['a'][0] == 'b'", ""},
		{"!authorizer.group('').resource('pods').check('delete').allowed()", "users by their rights"},
		{"'authorizer' != request.userInfo.username", ""},
		{"request.userInfo.", ""},
	} {
		got := strings.Join(LeavesOut(registration.MatchCondition{Expression: c.expression}, rules), ", ")
		if c.want == "nearly everybody" {
			got = strings.Split(got, ", ")[0]
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.expression, got, c.want)
		}
	}
}
