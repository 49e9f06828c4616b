package validators

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/validators/requests"
)

// production answers that every namespace has the label env: production.
var production = admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) {
	return admit.Namespace{Labels: map[string]string{"env": "production"}}, true, nil
}}

// restricting returns one restriction of CONNECT to pods/exec for namespaces with env: production.
func restricting(deny, allow *Users) Restrictions {
	return Restrictions{{Name: "no-shell", NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "production"}}, Deny: deny, Allow: allow,
		Requests: []requests.Requests{{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/exec", "namespaces"}, Operations: []string{"CONNECT", "DELETE"}}}}}
}

// TestWhoIsRestricted: deny wins over allow, the control plane over both unless deny names it.
func TestWhoIsRestricted(t *testing.T) {
	oncall, interns := &Users{Groups: []string{"oncall"}}, &Users{Groups: []string{"interns"}}
	const nodes = "system:nodes"
	for _, c := range []struct {
		name        string
		deny, allow *Users
		user        string
		groups      []string
		refused     bool
	}{
		{"all users", nil, nil, "jane", nil, true},
		{"denied", interns, nil, "ivan", []string{"interns"}, true},
		{"not denied", interns, nil, "jane", nil, false},
		{"allowed", nil, oncall, "otto", []string{"oncall"}, false},
		{"not allowed", nil, oncall, "jane", nil, true},
		{"both", interns, oncall, "ivan", []string{"interns", "oncall"}, true},
		{"neither", interns, oncall, "jane", nil, true},
		{"a user", nil, &Users{Users: []string{"jane"}}, "jane", nil, false},
		{"a service account", nil, &Users{ServiceAccounts: []string{"ci/deployer"}}, "system:serviceaccount:ci:deployer", nil, false},
		{"another service account", nil, &Users{ServiceAccounts: []string{"ci/deployer"}}, "system:serviceaccount:ci:other", nil, true},
		{"all of a namespace", nil, &Users{ServiceAccounts: []string{"ci/*"}}, "system:serviceaccount:ci:other", nil, false},
		{"a user with such a name", nil, &Users{ServiceAccounts: []string{"ci/*"}}, "ci:other", nil, true},
		{"a kubelet", nil, oncall, "system:node:a", []string{nodes}, false},
		{"a controller", nil, nil, "system:serviceaccount:kube-system:namespace-controller", nil, false},
		{"the scheduler", nil, nil, "system:kube-scheduler", nil, false},
		{"kubelets, denied", &Users{Groups: []string{nodes}}, nil, "system:node:a", []string{nodes}, true},
		{"a cluster administrator", nil, oncall, "root", []string{"system:masters"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := execRequest(t)
			req.UserInfo = authenticationv1.UserInfo{Username: c.user, Groups: c.groups}
			problems, err := restrictions(restricting(c.deny, c.allow), production).Run(t.Context(), req, admit.AsMeta(req.Object))
			if err != nil || (len(problems) > 0) != c.refused {
				t.Errorf("refused %v (%v), want %v", problems, err, c.refused)
			}
		})
	}
}

func execRequest(t testing.TB) *admit.Request {
	t.Helper()
	return &admit.Request{Operation: admissionv1.Connect, Namespace: "shop", Name: "web", SubResource: "exec",
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, UserInfo: authenticationv1.UserInfo{Username: "jane"},
		Object: parsed(t, `{"kind":"PodExecOptions","apiVersion":"v1"}`)}
}

// TestWhatIsRestricted: a restriction with a selector is about objects in selected namespaces, and these themselves.
func TestWhatIsRestricted(t *testing.T) {
	staging := admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) { return admit.Namespace{}, false, nil }}
	notYet := admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) {
		return admit.Namespace{}, false, fmt.Errorf("namespaces: %w", admit.ErrNotReady)
	}}
	namespace := func(t *testing.T, env string) func(*admit.Request) {
		return func(r *admit.Request) {
			r.Resource.Resource, r.SubResource, r.Operation, r.Name, r.Namespace = "namespaces", "", admissionv1.Delete, "shop", "shop"
			r.Object, r.OldObject = nil, parsed(t, `{"kind":"Namespace","metadata":{"labels":{"env":"`+env+`"}}}`)
		}
	}
	for _, c := range []struct {
		name   string
		ask    admit.Questions
		change func(*admit.Request)
		want   string // refused, allowed or not ready
	}{
		{"selected", production, func(*admit.Request) {}, "refused"},
		{"not selected", staging, func(*admit.Request) {}, "allowed"},
		{"not seen yet", notYet, func(*admit.Request) {}, "not ready"},
		{"another subresource, and no question", notYet, func(r *admit.Request) { r.SubResource = "log" }, "allowed"},
		{"another version", production, func(r *admit.Request) { r.Resource.Version = "v2" }, "refused"},
		{"another operation", production, func(r *admit.Request) { r.Operation = admissionv1.Create }, "allowed"},
		{"a selected namespace, by its own labels", notYet, namespace(t, "production"), "refused"},
		{"another namespace, by its own labels", notYet, namespace(t, "staging"), "allowed"},
		{"no namespace", notYet, func(r *admit.Request) { r.Namespace = "" }, "allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := execRequest(t)
			c.change(req)
			problems, err := restrictions(restricting(nil, nil), c.ask).Run(t.Context(), req, admit.AsMeta(req.Subject()))
			got := "allowed"
			if len(problems) > 0 {
				got = "refused"
			}
			if errors.Is(err, admit.ErrNotReady) {
				got = "not ready"
			}
			if got != c.want {
				t.Errorf("%s, want %s: %v, %v", got, c.want, problems, err)
			}
		})
	}
}

// TestRestrictionsKept: a user who is bound cannot change a label by which a restriction holds; others can.
func TestRestrictionsKept(t *testing.T) {
	called, err := labels.Parse("admission-webhook=enabled,usher.dev/exempt notin (true)")
	if err != nil {
		t.Fatal(err)
	}
	const was = `{"env":"production","admission-webhook":"enabled","team":"web"}`
	for _, c := range []struct {
		name, user, is string
		want           []string // the fields of the problems
	}{
		{"another label", "jane", `{"env":"production","admission-webhook":"enabled","team":"other"}`, nil},
		{"another value", "jane", `{"env":"staging","admission-webhook":"enabled"}`, []string{"metadata.labels[env]"}},
		{"removed", "jane", `{"admission-webhook":"enabled"}`, []string{"metadata.labels[env]"}},
		{"all removed", "jane", `null`, []string{"metadata.labels[admission-webhook]", "metadata.labels[env]"}},
		{"exempt", "jane", `{"env":"production","admission-webhook":"enabled","usher.dev/exempt":"true"}`, []string{"metadata.labels[usher.dev/exempt]"}},
		{"exempt, but false", "jane", `{"env":"production","admission-webhook":"enabled","usher.dev/exempt":"false"}`, nil},
		{"not called", "jane", `{"env":"production"}`, []string{"metadata.labels[admission-webhook]"}},
		{"by a user whom it does not bind", "otto", `{}`, nil},
		{"by the control plane", "system:kube-controller-manager", `{}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			meta := func(of string) string { return `{"kind":"Namespace","metadata":{"name":"shop","labels":` + of + `}}` }
			req := &admit.Request{Operation: admissionv1.Update, Name: "shop", UserInfo: authenticationv1.UserInfo{Username: c.user},
				Object: parsed(t, meta(c.is)), OldObject: parsed(t, meta(was))}
			policy := restricting(nil, &Users{Users: []string{"otto"}})
			problems, err := restrictionsKept(policy, called).Run(t.Context(), req, admit.AsMeta(req.Object))
			var got []string
			for _, p := range problems {
				got = append(got, p.Field)
			}
			if err != nil || strings.Join(got, " ") != strings.Join(c.want, " ") {
				t.Errorf("got %v, %v, want %v", problems, err, c.want)
			}
		})
	}
	t.Run("was not restricted", func(t *testing.T) {
		req := &admit.Request{Operation: admissionv1.Update, UserInfo: authenticationv1.UserInfo{Username: "jane"},
			Object: parsed(t, `{"metadata":{}}`), OldObject: parsed(t, `{"metadata":{"labels":{"env":"production"}}}`)}
		if problems, _ := restrictionsKept(restricting(nil, nil), called).Run(t.Context(), req, admit.AsMeta(req.Object)); len(problems) > 0 {
			t.Error(problems)
		}
	})
}

// BenchmarkRestrictions reviews a connection to a pod under 100 restrictions, all of which cover it.
func BenchmarkRestrictions(b *testing.B) {
	var policy Restrictions
	for i := range 100 {
		one := restricting(nil, &Users{Groups: []string{"oncall", "system:masters", fmt.Sprint("team-", i)}})[0]
		one.Name = fmt.Sprint(i)
		policy = append(policy, one)
	}
	step, req := restrictions(policy, production), execRequest(b)
	req.UserInfo.Groups = []string{"system:authenticated", "developers", "oncall"}
	b.ReportAllocs()
	for b.Loop() {
		if problems, err := step.Run(b.Context(), req, admit.AsMeta(req.Object)); len(problems) > 0 || err != nil {
			b.Fatal(problems, err)
		}
	}
}
