package validators

import (
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/quota"
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
			if decision := req.AuditAnnotations()["binding"]; (decision == "denied") != (len(c.wants) > 0) {
				t.Errorf("audited %q", decision)
			}
		})
	}
}

// A Binding cannot set a quota label on its pod, not even an empty one, nor rename its resources where that counts.
func TestBindingLabels(t *testing.T) {
	const label, annotation = "quota.scheduling.koordinator.sh/name", "pod.koordinator.sh/replace-resources"
	const devices = "usher.dev/device-claims"
	const noLabel = "metadata.labels[" + label + "]: Forbidden: the API server would copy it to the pod"
	const noAnnotation = "metadata.annotations[" + annotation + "]: Forbidden: the API server would copy it to the pod"
	for _, c := range []struct {
		meta    string
		renames bool
		wants   []string
	}{
		{`{"name":"web-1","labels":null}`, true, nil},
		{`{"name":"web-1","labels":{},"annotations":{}}`, true, nil},
		{`{"name":"web-1","labels":{"topology.kubernetes.io/zone":"a"},"annotations":{"a":"b"}}`, true, nil},
		{`{"name":"web-1","labels":{"` + label + `":"team-b"}}`, false, []string{noLabel}},
		{`{"name":"web-1","labels":{"` + label + `":""}}`, true, []string{noLabel}},
		{`{"name":"web-1","annotations":{"` + annotation + `":"cpu:"}}`, true, []string{noAnnotation}},
		{`{"name":"web-1","annotations":{"` + annotation + `":""}}`, true, []string{noAnnotation}},
		{`{"name":"web-1","annotations":{"` + annotation + `":"cpu:"}}`, false, nil},
		{`{"name":"web-1","annotations":{"` + devices + `":"{}"}}`, true, []string{"metadata.annotations[" + devices + "]: Forbidden"}},
		{`{"name":"web-1","annotations":{"` + devices + `":"{}"}}`, false, nil},
		{`{"name":"web-1","labels":{"` + label + `":"a"},"annotations":{"` + annotation + `":"cpu:"}}`, true, []string{noLabel, noAnnotation}},
	} {
		req := requestFor(t, "default", `{"metadata":`+c.meta+`,"target":{"name":"node-7"}}`, "")
		problems, err := bindingLabels(quota.Counting{Replace: c.renames, Devices: c.renames}).Run(t.Context(), req, views.AsBinding(req.Object))
		wantProblems(t, c.meta, problems, err, c.wants...)
	}
}
