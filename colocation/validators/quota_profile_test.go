package validators

import (
	"strings"
	"testing"

	"usher.dev/usher/colocation/views"
)

func TestQuotaProfile(t *testing.T) {
	const good = `"quotaName":"root","nodeSelector":{"matchLabels":{"a":"b"}}`
	object := func(spec string) string { return `{"metadata":{"name":"p"},"spec":{` + spec + `}}` }
	ratio := func(ratio string) string { return object(good + `,"resourceRatio":"` + ratio + `"`) }
	outOfRange := []string{`spec.resourceRatio: Invalid value: `}
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
			[]string{`spec.quotaName: Invalid value: "Root"`, `spec.nodeSelector.matchExpressions[0].values`,
				`spec.resourceRatio: Invalid value: "NaN": must be a number above 0 and at most 1, such as "0.9"; Koordinator ignores any other`}},
		{ratio("1"), "", nil},
		{ratio(""), "", nil},
		{ratio("0"), "", outOfRange},
		{ratio("1.5"), "", outOfRange},
		{ratio("90"), "", outOfRange},
		{ratio("90%"), "", outOfRange},
		{ratio("+Inf"), ratio("0.9"), outOfRange},
		{ratio("90%"), strings.Replace(ratio("90%"), `"root"`, `"other"`, 1), nil},
		{bad, bad, nil},
		{bad, object(good), []string{`spec.quotaLabels[a]`}},
		{`{"metadata":{"deletionTimestamp":"2026-11-21T08:00:00Z"},"spec":{}}`, object(good), nil},
	} {
		req := requestFor(t, "", c.now, c.was)
		problems, err := quotaProfile().Run(t.Context(), req, views.AsQuotaProfile(req.Object))
		wantProblems(t, c.now, problems, err, c.wants...)
	}
}
