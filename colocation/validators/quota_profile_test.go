package validators

import (
	"testing"

	"usher.dev/usher/colocation/views"
)

func TestQuotaProfile(t *testing.T) {
	const good = `"quotaName":"root","nodeSelector":{"matchLabels":{"a":"b"}}`
	object := func(spec string) string { return `{"metadata":{"name":"p"},"spec":{` + spec + `}}` }
	bad := object(good + `,"quotaLabels":{"a":"b, c"}`)
	for _, c := range []struct {
		now, was string
		wants    []string
	}{
		{object(good), "", nil},
		{object(good + `,"quotaLabels":{"a.b/c":"d","e":""},"resourceRatio":"0.9"`), "", nil},
		{bad, "", []string{`spec.quotaLabels[a]: Invalid value: "b, c"`}},
		{object(good + `,"quotaLabels":{" a":"b","c/d/e":"f"}`), "", []string{`spec.quotaLabels[ a]: Invalid value: " a"`, `spec.quotaLabels[c/d/e]`}},
		{object(`"quotaName":"Root","nodeSelector":{"matchExpressions":[{"key":"a","operator":"In"}]},"resourceRatio":"NaN"`), "",
			[]string{`spec.quotaName: Invalid value: "Root"`, `spec.resourceRatio: Invalid value: "NaN": must be a number above 0`, `spec.nodeSelector.matchExpressions[0].values`}},
		{object(good + `,"resourceRatio":"90%"`), "", []string{`spec.resourceRatio`}},
		{bad, bad, nil},
		{bad, object(good), []string{`spec.quotaLabels[a]`}},
		{`{"metadata":{"deletionTimestamp":"2026-11-21T08:00:00Z"},"spec":{}}`, object(good), nil},
	} {
		req := requestFor(t, "", c.now, c.was)
		problems, err := quotaProfile().Run(t.Context(), req, views.AsQuotaProfile(req.Object))
		wantProblems(t, c.now, problems, err, c.wants...)
	}
}
