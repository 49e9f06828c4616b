package validators

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/views"
)

// noPods is a cluster in which any query about a pod is a mistake.
func noPods(t *testing.T) PodKeys {
	return func(namespace, name string) ([]string, []string, bool, error) {
		t.Errorf("pod %s/%s was asked for", namespace, name)
		return nil, nil, false, nil
	}
}

func onePod(labels, annotations []string) PodKeys {
	return func(namespace, name string) ([]string, []string, bool, error) {
		if namespace == "default" && name == "web-1" {
			return labels, annotations, true, nil
		}
		return nil, nil, false, nil
	}
}

// bindingRequest is a request to bind pod web-1 of a namespace to node-7.
func bindingRequest(t testing.TB, user, namespace string) *admit.Request {
	req := requestFor(t, namespace, `{"kind":"Binding","apiVersion":"v1","metadata":{"name":"web-1"},"target":{"kind":"Node","name":"node-7"}}`, "")
	req.Name, req.UserInfo.Username = "web-1", user
	req.Resource.Version, req.Resource.Resource, req.SubResource = "v1", "pods", "binding"
	return req
}

const koordScheduler = "system:serviceaccount:koordinator-system:koord-scheduler"

// The table of the reference without its substrings.
func TestBinding(t *testing.T) {
	all := []string{"*"}
	users := []string{"other", koordScheduler}
	has := func(keys ...string) []string { return keys }
	bare := onePod(nil, nil)
	cases := []struct {
		name            string
		policy          *sections.Binding
		pods            PodKeys
		user, namespace string
		decision        string
	}{
		{"no policy", nil, noPods(t), "mallory", "default", ""},
		{"no users", &sections.Binding{Namespaces: all}, noPods(t), "mallory", "default", ""},
		{"the second of the users", &sections.Binding{Users: users, Namespaces: all}, noPods(t), koordScheduler, "default", "allowed_username"},
		{"another user", &sections.Binding{Users: users, Namespaces: all}, bare, "system:kube-scheduler", "default", "denied"},
		{"a name that contains a user's", &sections.Binding{Users: users, Namespaces: all}, bare, koordScheduler + "-evil", "default", "denied"},
		{"a namespace that contains it", &sections.Binding{Users: users, Namespaces: all}, bare, "system:serviceaccount:koord-scheduler:x", "default", "denied"},
		{"part of a user's name", &sections.Binding{Users: users, Namespaces: all}, bare, "koord-scheduler", "default", "denied"},
		{"nobody", &sections.Binding{Users: users, Namespaces: all}, bare, "", "default", "denied"},
		{"kube-system", &sections.Binding{Users: users, Namespaces: all}, noPods(t), "mallory", "kube-system", "excluded_ns"},
		{"kube-system is not excluded", &sections.Binding{Users: users, Namespaces: all, ExcludeNamespaces: []string{}}, bare, "mallory", "kube-system", "denied"},
		{"excluded and in the list", &sections.Binding{Users: users, Namespaces: []string{"a"}, ExcludeNamespaces: []string{"a"}}, noPods(t), "mallory", "a", "excluded_ns"},
		{"out of the list", &sections.Binding{Users: users, Namespaces: []string{"a", "b"}}, noPods(t), "mallory", "default", "out_of_scope"},
		{"an empty list", &sections.Binding{Users: users, Namespaces: []string{}}, noPods(t), "mallory", "default", "out_of_scope"},
		{"in the list", &sections.Binding{Users: users, Namespaces: []string{"a", "default"}}, bare, "mallory", "default", "denied"},
		{"a user may everywhere", &sections.Binding{Users: users, Namespaces: []string{"a"}}, noPods(t), "other", "kube-system", "allowed_username"},

		{"the default bypass label", &sections.Binding{Users: users, Namespaces: all},
			onePod(has("koordinator.sh/binding-admission-bypass"), nil), "mallory", "default", "bypass_label"},
		{"an empty bypass label", &sections.Binding{Users: users, Namespaces: all},
			onePod([]string{"koordinator.sh/binding-admission-bypass"}, nil), "mallory", "default", "bypass_label"},
		{"one of several labels", &sections.Binding{Users: users, Namespaces: all, BypassLabels: []string{"a", "b"}}, onePod(has("b"), nil), "mallory", "default", "bypass_label"},
		{"the default is replaced", &sections.Binding{Users: users, Namespaces: all, BypassLabels: []string{"a"}},
			onePod(has("koordinator.sh/binding-admission-bypass"), nil), "mallory", "default", "denied"},
		{"a bypass annotation", &sections.Binding{Users: users, Namespaces: all, BypassAnnotations: []string{"a"}}, onePod(nil, has("a")), "mallory", "default", "bypass_annotation"},
		{"label missed, annotation hit", &sections.Binding{Users: users, Namespaces: all, BypassLabels: []string{"a"}, BypassAnnotations: []string{"b"}},
			onePod(has("c"), has("b")), "mallory", "default", "bypass_annotation"},
		{"label before annotation", &sections.Binding{Users: users, Namespaces: all, BypassLabels: []string{"a"}, BypassAnnotations: []string{"b"}},
			onePod(has("a"), has("b")), "mallory", "default", "bypass_label"},
		{"a label is no annotation", &sections.Binding{Users: users, Namespaces: all, BypassLabels: []string{"a"}, BypassAnnotations: []string{"b"}},
			onePod(has("b"), has("a")), "mallory", "default", "denied"},
		{"labels and annotations, none in the policy", &sections.Binding{Users: users, Namespaces: all, BypassLabels: []string{}}, noPods(t), "mallory", "default", "denied"},
		{"a pod of another namespace", &sections.Binding{Users: users, Namespaces: all},
			onePod(has("koordinator.sh/binding-admission-bypass"), nil), "mallory", "apps", "denied"},
	}
	for _, c := range cases {
		req := bindingRequest(t, c.user, c.namespace)
		problems, err := binding(c.policy, c.pods).Run(t.Context(), req, views.AsBinding(req.Object))
		var wants []string
		if c.decision == "denied" {
			wants = []string{fmt.Sprintf(`target.name: Forbidden: user %q may not bind pod %s/web-1 to node "node-7": binding.users`, c.user, c.namespace)}
		}
		wantProblems(t, c.name, problems, err, wants...)
		if got := req.AuditAnnotations()["binding"]; got != c.decision {
			t.Errorf("%s: decision %q, want %q", c.name, got, c.decision)
		}
	}
}

// A star matches one whole part of a name, at its end.
func TestBindingUsers(t *testing.T) {
	policy := &sections.Binding{Users: []string{"bob", "system:serviceaccount:kube-system:*", "oidc:*"}}
	for user, want := range map[string]bool{
		"bob": true, "Bob": false, "bobby": false, "bo": false, "*": false, "": false, ":": false, "x:bob": false,
		"system:serviceaccount:kube-system:scheduler": true, "system:serviceaccount:kube-system:*": true,
		"system:serviceaccount:kube-system:": false, "system:serviceaccount:kube-system": false,
		"system:serviceaccount:kube-system-2:scheduler": false, "system:serviceaccount:kube-system:a:b": false,
		"x:system:serviceaccount:kube-system:scheduler": false, "oidc:jane": true, "oidc:": false, "oidc": false,
	} {
		if got := usersOf(policy).allow(user); got != want {
			t.Errorf("%q: %v, want %v", user, got, want)
		}
	}
}

// The name of the pod, as the API server takes it: from the URL, or from the object of the older resource.
func TestBindingNamesThePod(t *testing.T) {
	bypass := onePod([]string{"koordinator.sh/binding-admission-bypass"}, nil)
	policy := &sections.Binding{Users: []string{"bob"}, Namespaces: []string{"*"}}
	for _, c := range []struct {
		resource, name, object string
		bypassed               bool
	}{
		{"pods", "web-1", "web-1", true}, {"pods", "web-1", "web-2", true}, {"pods", "web-2", "web-1", false}, {"pods", "", "web-1", true},
		{"bindings", "", "web-1", true}, {"bindings", "web-2", "web-1", true}, {"bindings", "web-1", "web-2", false}, {"bindings", "web-1", "", true},
	} {
		req := requestFor(t, "default", fmt.Sprintf(`{"metadata":{"name":%q},"target":{"name":"node-7"}}`, c.object), "")
		req.Name, req.Resource.Resource = c.name, c.resource
		problems, err := binding(policy, bypass).Run(t.Context(), req, views.AsBinding(req.Object))
		if err != nil || (len(problems) == 0) != c.bypassed {
			t.Errorf("%+v: %v, %v", c, problems, err)
		}
	}
}

// A denial names only ways out that exist.
func TestBindingTellsTheWayOut(t *testing.T) {
	for _, c := range []struct {
		policy sections.Binding
		pods   PodKeys
		has    []string
		hasNot []string
	}{
		{sections.Binding{}, onePod(nil, nil), []string{"leave it to the scheduler, or have the user added there; a pod that anybody may bind carries koordinator.sh/binding-admission-bypass"}, []string{"knows no such pod"}},
		{sections.Binding{BypassLabels: []string{"a"}, BypassAnnotations: []string{"b"}}, onePod(nil, nil), []string{"carries a or b"}, []string{"koordinator.sh"}},
		{sections.Binding{BypassLabels: []string{}}, noPods(t), []string{"added there"}, []string{"carries", "knows no such pod"}},
		{sections.Binding{}, func(string, string) ([]string, []string, bool, error) { return nil, nil, false, nil },
			[]string{"usher knows no such pod, so it looked for none of these"}, nil},
	} {
		c.policy.Users, c.policy.Namespaces = []string{"bob"}, []string{"*"}
		req := bindingRequest(t, "mallory", "default")
		problems, err := binding(&c.policy, c.pods).Run(t.Context(), req, views.AsBinding(req.Object))
		wantProblems(t, fmt.Sprint(c.has), problems, err, c.has...)
		for _, text := range c.hasNot {
			if strings.Contains(problems[0].Error(), text) {
				t.Errorf("%v says %q", problems[0], text)
			}
		}
	}
}

// A pod whose labels cannot be read is neither allowed nor refused.
func TestBindingNotReady(t *testing.T) {
	late := func(string, string) ([]string, []string, bool, error) {
		return nil, nil, false, admit.ErrNotReady
	}
	req := bindingRequest(t, "mallory", "default")
	problems, err := binding(&sections.Binding{Users: []string{"bob"}, Namespaces: []string{"*"}}, late).Run(t.Context(), req, views.AsBinding(req.Object))
	if len(problems) > 0 || !errors.Is(err, admit.ErrNotReady) || !strings.Contains(err.Error(), "default/web-1") {
		t.Errorf("%v, %v", problems, err)
	}
}

func BenchmarkBindingAllowed(b *testing.B) {
	req := bindingRequest(b, koordScheduler, "default")
	step, view := binding(&sections.Binding{Users: []string{koordScheduler}, Namespaces: []string{"*"}}, nil), views.AsBinding(req.Object)
	b.ReportAllocs()
	for b.Loop() {
		if problems, err := step.Run(b.Context(), req, view); len(problems) > 0 || err != nil {
			b.Fatal(problems, err)
		}
	}
}
