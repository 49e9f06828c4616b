package doctor_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"

	"encoding/json"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/doctor"
	"usher.dev/usher/command/review"
	"usher.dev/usher/server/webhooks"
)

// TestJudge: a request that the API server would refuse, as is known, has not passed, and neither has one that webhooks of usher miss.
func TestJudge(t *testing.T) {
	const (
		pod       = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{}}`
		service   = "/api/v1/namespaces/shop/services/policy"
		headless  = `{"metadata":{"namespace":"shop","name":"policy"},"spec":{"clusterIP":"None","ports":[{"port":443}]}}`
		forbidden = ""
	)
	foreign := func(more string) string {
		return webhookFor("/v1/pods", `,"clientConfig":{"service":{"namespace":"shop","name":"policy"},"caBundle":"bXktY2E="}`+more)
	}
	own := func(change ...string) string {
		return strings.NewReplacer(change...).Replace(ushers("validate-pods", ""))
	}
	for _, c := range []struct {
		name          string
		configuration string
		source        func(configuration string) reader.Source
		webhooks      string
		verdict, says string
	}{
		{"no Service", "c", nil, foreign(""), "refused", "called and the call fails: clientConfig.service is shop/policy, which does not exist"},
		{"no Service, and Ignore", "c", nil, foreign(`,"failurePolicy":"Ignore"`), "failed", "as if the webhook did not exist"},
		{"no Service, and not called", "c", nil, strings.Replace(foreign(""), `["pods"]`, `["secrets"]`, 1), "passed", "rules "},
		{"a headless Service", "c", func(c string) reader.Source { return with(t, c, service, headless) }, foreign(""), "refused", "(usher doctor: service-headless)"},
		{"a Service that may not be read", "c", func(c string) reader.Source { return with(t, c, service, forbidden) }, foreign(""), "passed", "called "},
		{"of usher, at its path", "usher", nil, own("\"sideEffects", "\"failurePolicy\": \"Ignore\", \"sideEffects", "\"usher\", \"name\"", "\"shop\", \"name\""), "failed", "(usher doctor: service-missing)"},
		{"of usher, at the path of another", "usher", nil, own("/validate-pods", "/mutate-pods"), "failed", "called but at /mutate-pods, which is the path of another webhook"},
		{"of usher, at no path", "usher", nil, own("/validate-pods", "/validate-pod"), "refused", "usher does not serve the path /validate-pod"},
		{"of usher, for something else", "usher", nil, own(`["pods"]`, `["secrets"]`), "failed", "usher's policy needs it to be called"},
		{"of usher, absent", "usher", nil, own("validate-pods", "mutate-pods", "\"sideEffects", "\"failurePolicy\": \"Ignore\", \"sideEffects"), "failed", "registration usher's policy needs it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := with(t, "", configurationsPath, `{"items":[{"metadata":{"name":"`+c.configuration+`"},"webhooks":[`+c.webhooks+`]}]}`)
			if c.source != nil {
				source = c.source(c.webhooks)
			}
			examiner, err := doctor.NewExaminer(t.Context(), source, review.NewCatalogue(nil))
			if err != nil {
				t.Fatal(err)
			}
			var needed registration.MutatingWebhook
			if err := json.Unmarshal([]byte(own()), &needed); err != nil {
				t.Fatal(err)
			}
			usher := doctor.Usher{Apply: "usher webhooks apply", Paths: []string{"/mutate-pods", "/validate-pods"}, Needed: func([]string) []webhooks.Hook { return []webhooks.Hook{needed} }}
			documents := review.Read("-", strings.NewReader(pod))
			report := examiner.Judge(t.Context(), documents[0], review.Options{Operation: admissionv1.Create, User: "ann", Namespace: "default"}, examiner.Calls(t.Context(), nil, usher))
			var says []string
			for _, w := range report.Webhooks {
				if w.Called {
					w.Filter = "called"
				}
				says = append(says, w.Filter+" "+w.Why)
			}
			if string(report.Verdict) != c.verdict || !strings.Contains(strings.Join(says, "\n"), c.says) {
				t.Errorf("%s: %q; want %s: %s", report.Verdict, says, c.verdict, c.says)
			}
			if w := report.Webhooks[len(report.Webhooks)-1]; strings.HasPrefix(c.name, "of usher, a") && strings.Contains(c.says, "path") && !strings.Contains(w.Fix, "usher webhooks apply") {
				t.Errorf("%+v", w)
			}
			if code := report.Exit(); (code == review.Fine) != (c.verdict == "passed") {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// TestAskedPolicies: the admission policies that a request is given to are named, since what they say is not looked at.
func TestAskedPolicies(t *testing.T) {
	const rule = `"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":[%q]}]`
	policy := func(name, resource string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"matchConstraints":{`+rule+`}}}`, name, resource)
	}
	binding := func(policy, more string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"policyName":%[1]q%s}}`, policy, more)
	}
	list := func(all ...string) string { return `{"items":[` + strings.Join(all, ",") + `]}` }
	const at = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	source := with(t, "", at+"ies", list(policy("bound", "pods"), policy("free", "pods"), policy("elsewhere", "pods"), policy("secrets", "secrets")),
		at+"ybindings", list(binding("bound", ""), binding("secrets", ""), binding("elsewhere", `,"matchResources":{"namespaceSelector":{"matchLabels":{"team":"bank"}}}`)))
	examiner, err := doctor.NewExaminer(t.Context(), source, review.NewCatalogue(nil))
	if err != nil {
		t.Fatal(err)
	}
	documents := review.Read("-", strings.NewReader(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{}}`))
	report := examiner.Judge(t.Context(), documents[0], review.Options{Operation: admissionv1.Create, User: "ann", Namespace: "default"}, examiner.Calls(t.Context(), nil, doctor.Usher{}))
	if !strings.HasSuffix(report.Hint, "not looked at: ValidatingAdmissionPolicy bound") {
		t.Errorf("%q", report.Hint)
	}
}

// TestCaller: a manifest is sent by whom the API server takes the caller for, and the pod of a workload by its controller.
func TestCaller(t *testing.T) {
	source := serving(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews"):
			_, _ = fmt.Fprint(w, `{"status": {"userInfo": {"username": "jane", "groups": ["system:masters"]}}}`)
		case strings.HasSuffix(r.URL.Path, "/mutatingwebhookconfigurations"):
			_, _ = fmt.Fprint(w, none)
		case r.URL.Path == configurationsPath:
			_, _ = fmt.Fprintf(w, `{"items":[{"metadata":{"name":"c"},"webhooks":[%s]}]}`, webhookFor("/v1/pods", `,"matchConditions":[{"name":"a","expression":"'system:masters' in request.userInfo.groups"}]`))
		default:
			refuse(w, 404, "NotFound")
		}
	})
	examiner, err := doctor.NewExaminer(t.Context(), source, review.NewCatalogue(nil))
	if err != nil {
		t.Fatal(err)
	}
	pod := review.Document{JSON: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{}}`)}
	of := pod
	of.Of, of.Controller = "ReplicaSet web", "replicaset-controller"
	called := func(d review.Document) bool {
		report := examiner.Examine(t.Context(), d, review.Options{Operation: admissionv1.Create, User: "ann", Namespace: "default"})
		return len(report.Webhooks) == 1 && report.Webhooks[0].Called
	}
	if called(pod) {
		t.Error("ann is in no group")
	}
	if who, err := examiner.AskCaller(t.Context()); err != nil || who.Username != "jane" {
		t.Fatalf("%v %v", who, err)
	}
	if !called(pod) || called(of) {
		t.Errorf("%t %t", called(pod), called(of))
	}
}
