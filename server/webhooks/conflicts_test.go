package webhooks

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	registration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/certs/rotation"
)

// inTheWay returns the API server's refusal because of fields of others.
func inTheWay(by string, fields ...string) error {
	var causes []metav1.StatusCause
	for _, f := range fields {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Field: f,
			Message: `conflict with "` + by + `" using admissionregistration.k8s.io/v1`})
	}
	return apierrors.NewApplyConflict(causes, "conflict")
}

func TestConflictsOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want conflict
		ok   bool
	}{
		{inTheWay("me", `.webhooks[name="a.usher.dev"].failurePolicy`), conflict{"a.usher.dev", "failurePolicy", "", "me", false}, true},
		{inTheWay("me", `.webhooks[name="a.usher.dev"].clientConfig.caBundle`), conflict{"a.usher.dev", "clientConfig", "", "me", true}, true},
		{inTheWay("me", `.webhooks[name="a.usher.dev"].matchConditions[name="changed"].expression`), conflict{"a.usher.dev", "matchConditions", "changed", "me", false}, true},
		{inTheWay("me", `.metadata.labels.a`), conflict{"", ".metadata.labels.a", "", "me", false}, true},
		{apierrors.NewConflict(registration.Resource("x"), "usher", errors.New("changed")), conflict{}, false},
		{&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden}}, conflict{}, false},
		{errors.New("connection refused"), conflict{}, false},
	} {
		all, ok := conflictsOf(c.err)
		if ok != c.ok || ok && !slices.Equal(all, []conflict{c.want}) {
			t.Errorf("%v: %+v, %t", c.err, all, ok)
		}
	}
}

// FuzzConflictsOf: no text of an API server causes a panic, nor names an entry that is not in it.
func FuzzConflictsOf(f *testing.F) {
	f.Add("me", `.webhooks[name="a"].matchConditions[name="b"].expression`)
	f.Add(`"`, `.webhooks[name="`)
	f.Fuzz(func(t *testing.T, by, field string) {
		all, _ := conflictsOf(inTheWay(by, field))
		for _, c := range all {
			if !strings.Contains(field, c.entry) || !strings.Contains(field, c.field) {
				t.Errorf("%+v from %q", c, field)
			}
			(&configuration{Webhooks: []Hook{{Name: c.entry}}}).yield(configuration{Webhooks: []Hook{{Name: c.entry}}}, all)
		}
	})
}

// TestYield: a field that another has set stays and is reported, except what kubectl applied for usher, selectors, and
// the caBundle that `usher serve` keeps.
func TestYield(t *testing.T) {
	condition := func(expression string) []registration.MatchCondition {
		return []registration.MatchCondition{{Name: "mine", Expression: "1"}, {Name: "changed", Expression: expression}}
	}
	ours := func() configuration {
		return configuration{Webhooks: []Hook{{Name: "a", FailurePolicy: new(registration.Fail), TimeoutSeconds: new(int32(5)), MatchConditions: condition("x"),
			ClientConfig: registration.WebhookClientConfig{CABundle: []byte("new")}}}}
	}
	theirs := configuration{Webhooks: []Hook{{Name: "a", FailurePolicy: new(registration.Ignore), TimeoutSeconds: new(int32(30)), MatchConditions: condition("y"),
		ClientConfig: registration.WebhookClientConfig{CABundle: []byte("old")}}}}
	for _, c := range []struct {
		by, field string
		left      string
		changed   func(Hook) bool
	}{
		{"me", "failurePolicy", `a: failurePolicy stays "Ignore", as "me" has set it; usher needs "Fail"`, func(w Hook) bool { return *w.FailurePolicy == "Ignore" }},
		{kubectlApply, "failurePolicy", "", func(w Hook) bool { return *w.FailurePolicy == "Fail" }},
		{"me", "timeoutSeconds", "a: timeoutSeconds stays 30", func(w Hook) bool { return *w.TimeoutSeconds == 30 && *w.FailurePolicy == "Fail" }},
		{"me", `matchConditions[name="changed"].expression`, "a: matchConditions stays", func(w Hook) bool { return w.MatchConditions[1].Expression == "y" }},
		{"me", "namespaceSelector", "", func(w Hook) bool { return w.NamespaceSelector == nil }},
		{rotation.BundleManager, "clientConfig.caBundle", "", func(w Hook) bool { return string(w.ClientConfig.CABundle) == "old" }},
		{"me", "clientConfig.service.name", "", func(w Hook) bool { return string(w.ClientConfig.CABundle) == "new" }},
	} {
		conflicts, _ := conflictsOf(inTheWay(c.by, `.webhooks[name="a"].`+c.field))
		wanted := ours()
		left := wanted.yield(theirs, conflicts)
		if len(left) > 1 || (len(left) == 1) != (c.left != "") || c.left != "" && !strings.HasPrefix(left[0], c.left) || !c.changed(wanted.Webhooks[0]) {
			t.Errorf("%s of %s: %q, %+v", c.field, c.by, left, wanted.Webhooks[0])
		}
	}
}
