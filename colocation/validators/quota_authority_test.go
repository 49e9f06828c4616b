package validators

import (
	"context"
	"errors"
	"strings"
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/views"
)

// administered is a forest in which only administrators may change the quotas of others.
func administered(t *testing.T, stored ...string) QuotaQuestions {
	t.Helper()
	ask := forest(t, stored...)
	ask.Policy = (&sections.Quotas{Administrators: &sections.QuotaAdministrators{Namespaces: []string{"quota-system"}, Groups: []string{"quota-admins"}}}).Compile()
	ask.Quotas = ask.Tree
	ask.Rules.HasNamespace = func(string) (bool, error) { return false, nil }
	return ask
}

// TestQuotaAuthority: the step is about users who are not administrators, and about what a request changes.
func TestQuotaAuthority(t *testing.T) {
	boundary := quotaText("quotas", "is-parent=true", "", `"max":{"cpu":"4"}`)
	more := strings.Replace(boundary, `"4"`, `"5"`, 1)
	const at = "spec.max: Forbidden: only administrators of quotas (quotas.administrators of usher's policy) may change quotas, which is not below a quota of namespace quotas; ask one of them"
	for _, c := range []struct {
		about, object, old string
		with               func(*admit.Request)
		want               string
	}{
		{"a tenant", more, boundary, nil, at},
		{"a group of administrators", more, boundary, func(r *admit.Request) { r.UserInfo.Groups = []string{"quota-admins"} }, ""},
		{"a namespace of administrators", more, boundary, func(r *admit.Request) { r.Namespace = "quota-system" }, ""},
		{"a subresource", more, boundary, func(r *admit.Request) { r.SubResource = "status" }, ""},
		{"nothing that matters", strings.Replace(boundary, `"labels":{`, `"labels":{"a":"b",`, 1), boundary, nil, ""},
		{"a child", quotaText("quotas-x", "parent=quotas", "", `"max":{"cpu":"4"}`), "", nil, ""},
		{"at the top", quotaText("quotas-x", "", "", `"max":{"cpu":"4"}`), "", nil, "parent]: Forbidden: only administrators"},
		{"deleted", "", boundary, nil, "metadata.name: Forbidden: only administrators"},
		{"unreadable", quotaText("quotas-x", "", "", `"max":{"cpu":"lots"}`), "", nil, "spec.max"},
	} {
		req := quotaRequest(t, c.object, c.old)
		if c.with != nil {
			c.with(req)
		}
		got := admitQuota(t, administered(t, boundary), req)
		if len(got) > 1 || len(got) == 1 != (c.want != "") || c.want != "" && !strings.Contains(got[0], c.want) {
			t.Errorf("%s: %q, want %q", c.about, got, c.want)
		}
	}
}

// TestQuotaAuthorityIsIdle: without administrators in the policy, every user may change quotas, as in Koordinator.
func TestQuotaAuthorityIsIdle(t *testing.T) {
	for about, policy := range map[string]*sections.QuotaPolicy{"no policy": nil, "a policy about something else": (&sections.Quotas{}).Compile()} {
		ask := administered(t)
		ask.Policy = policy
		got := admitQuota(t, ask, quotaRequest(t, quotaText("q", "", "", `"max":{"cpu":"4"}`), ""))
		if len(got) > 0 || !quotaAuthority(ask).Idle {
			t.Errorf("%s: %q, idle: %v", about, got, quotaAuthority(ask).Idle)
		}
	}
}

// TestQuotaAuthorityWaits: the parent of a quota may just have been created; a tree that cannot be read is usher's fault.
func TestQuotaAuthorityWaits(t *testing.T) {
	ask := administered(t)
	unknown, awaited := errors.New("not listed yet"), ""
	ask.Quotas = func(_ context.Context, name string) (*quota.Tree, error) { awaited = name; return nil, unknown }
	req := quotaRequest(t, quotaText("quotas-x", "parent=p", "", ""), "")
	_, err := quotaAuthority(ask).Run(t.Context(), req, views.AsElasticQuota(req.Object))
	if !errors.Is(err, unknown) || awaited != "p" {
		t.Errorf("waited for %q: %v", awaited, err)
	}
}
