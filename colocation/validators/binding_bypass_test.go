package validators

import (
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/views"
)

// Only users that may bind can set a bypass; not changing or removing one is always allowed.
func TestBindingBypass(t *testing.T) {
	own := &sections.Binding{Users: guarded.Users, Namespaces: []string{"*"}, BypassLabels: []string{"a", "b"}, BypassAnnotations: []string{"c"}}
	const key = "koordinator.sh/binding-admission-bypass"
	const open, closed = `{"metadata":{"labels":{"` + key + `":"","x":"y"}}}`, `{"metadata":{"labels":{"x":"y"}}}`
	for _, c := range []struct {
		name            string
		policy          *sections.Binding
		user, namespace string
		pod, old        string
		wants           []string
	}{
		{"created with it", guarded, "mallory", "default", open, "", []string{`metadata.labels[` + key + `]: Forbidden: user "mallory" may not let every user bind the pod`}},
		{"created without", guarded, "mallory", "default", closed, "", nil},
		{"created with it by who may bind", guarded, "system:kube-scheduler", "default", open, "", nil},
		{"by a controller of who may", guarded, "system:serviceaccount:kube-system:replicaset-controller", "default", open, "", []string{key}},
		{"no policy", nil, "mallory", "default", open, "", nil},
		{"no users", &sections.Binding{Namespaces: []string{"*"}}, "mallory", "default", open, "", nil},
		{"kube-system", guarded, "mallory", "kube-system", open, "", nil},
		{"a namespace that is not protected", some, "mallory", "default", open, "", nil},
		{"added", guarded, "mallory", "default", open, closed, []string{key}},
		{"added by who may bind", guarded, "system:serviceaccount:tools:placer", "default", open, closed, nil},
		{"added to a pod without labels", guarded, "mallory", "default", open, `{}`, []string{key}},
		{"kept", guarded, "mallory", "default", open, open, nil},
		{"changed", guarded, "mallory", "default", `{"metadata":{"labels":{"` + key + `":"no"}}}`, open, []string{key}},
		{"removed", guarded, "mallory", "default", closed, open, nil},
		{"while it is being deleted", guarded, "mallory", "default", `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","labels":{"` + key + `":""}}}`, closed, nil},
		{"other keys", own, "mallory", "default", open, "", nil},
		{"two labels and an annotation", own, "mallory", "default", `{"metadata":{"labels":{"a":"","b":""},"annotations":{"c":""}}}`, "",
			[]string{"metadata.labels[a]", "metadata.labels[b]", "metadata.annotations[c]"}},
		{"one of two is new", own, "mallory", "default", `{"metadata":{"labels":{"a":"","b":""}}}`, `{"metadata":{"labels":{"a":""}}}`, []string{"metadata.labels[b]"}},
		{"an annotation is new", own, "mallory", "default", `{"metadata":{"annotations":{"c":""}}}`, `{}`, []string{"metadata.annotations[c]"}},
		{"an annotation changes", own, "mallory", "default", `{"metadata":{"annotations":{"c":"1"}}}`, `{"metadata":{"annotations":{"c":""}}}`, []string{"metadata.annotations[c]"}},
		{"an annotation stays", own, "mallory", "default", `{"metadata":{"annotations":{"c":"1"}}}`, `{"metadata":{"annotations":{"c":"1"}}}`, nil},
		{"label and annotation are two things", own, "mallory", "default", `{"metadata":{"labels":{"c":""},"annotations":{"a":""}}}`, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := requestFor(t, c.namespace, c.pod, c.old)
			req.UserInfo.Username = c.user
			problems, err := bindingBypass(c.policy).Run(t.Context(), req, admit.AsPod(req.Object))
			wantProblems(t, c.name, problems, err, c.wants...)
		})
	}
}

// A Binding cannot set a quota label on its pod, not even an empty one.
func TestBindingLabels(t *testing.T) {
	const key = "quota.scheduling.koordinator.sh/name"
	for labels, refused := range map[string]bool{
		`null`: false, `{}`: false, `{"topology.kubernetes.io/zone":"a"}`: false,
		`{"` + key + `":"team-b"}`: true, `{"` + key + `":""}`: true,
	} {
		req := requestFor(t, "default", `{"metadata":{"name":"web-1","labels":`+labels+`},"target":{"name":"node-7"}}`, "")
		problems, err := bindingLabels().Run(t.Context(), req, views.AsBinding(req.Object))
		var wants []string
		if refused {
			wants = []string{"metadata.labels[" + key + "]: Forbidden: the API server would copy it to the pod"}
		}
		wantProblems(t, labels, problems, err, wants...)
	}
}
