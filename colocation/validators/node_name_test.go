package validators

import (
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/sections"
)

var (
	guarded = &sections.Binding{Users: []string{"system:kube-scheduler", "system:serviceaccount:tools:*"}, Namespaces: []string{"*"}}
	some    = &sections.Binding{Users: guarded.Users, Namespaces: []string{"guarded"}}
)

// Creating a pod on a node is a binding. The answer is the same as to a Binding, and no label of the pod changes it.
func TestNodeName(t *testing.T) {
	const bound, free = `{"metadata":{"labels":{"koordinator.sh/binding-admission-bypass":""}},"spec":{"nodeName":"node-7"}}`, `{"spec":{"nodeName":""}}`
	for _, c := range []struct {
		name            string
		policy          *sections.Binding
		user, namespace string
		pod, old        string
		decision        string
		denied          bool
	}{
		{"no policy", nil, "mallory", "default", bound, "", "", false},
		{"no users", &sections.Binding{Namespaces: []string{"*"}}, "mallory", "default", bound, "", "", false},
		{"no node", guarded, "mallory", "default", `{}`, "", "", false},
		{"an empty node", guarded, "mallory", "default", free, "", "", false},
		{"a user", guarded, "mallory", "default", bound, "", "denied", true},
		{"nobody", guarded, "", "default", bound, "", "denied", true},
		{"who may bind", guarded, "system:kube-scheduler", "default", bound, "", "allowed_username", false},
		{"one of those who may", guarded, "system:serviceaccount:tools:placer", "default", bound, "", "allowed_username", false},
		{"a controller", guarded, "system:serviceaccount:kube-system:replicaset-controller", "default", bound, "", "denied", true},
		{"kube-system", guarded, "mallory", "kube-system", bound, "", "excluded_ns", false},
		{"a namespace that is not protected", some, "mallory", "default", bound, "", "out_of_scope", false},
		{"one that is", some, "mallory", "guarded", bound, "", "denied", true},
		{"a pod that has a node", guarded, "mallory", "default", bound, bound, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := requestFor(t, c.namespace, c.pod, c.old)
			req.UserInfo.Username = c.user
			problems, err := nodeName(c.policy).Run(t.Context(), req, admit.AsPod(req.Object))
			var wants []string
			if c.denied {
				wants = []string{`spec.nodeName: Forbidden: user "` + c.user + `" may not bind pods to nodes, and so not create one on node "node-7"`}
			}
			wantProblems(t, c.name, problems, err, wants...)
			if got := req.AuditAnnotations()["binding"]; got != c.decision {
				t.Errorf("decision %q, want %q", got, c.decision)
			}
		})
	}
}
