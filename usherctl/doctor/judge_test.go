package doctor_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/doctor"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// TestJudge: a request that the API server would refuse, as is known, has not passed, and neither has one that webhooks of usher miss.
func TestJudge(t *testing.T) {
	const (
		pod       = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"}]}}`
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
		{"a headless Service", "c", func(c string) reader.Source { return with(t, c, service, headless) }, foreign(""), "refused", "(usherctl doctor: service-headless)"},
		{"a Service that may not be read", "c", func(c string) reader.Source { return with(t, c, service, forbidden) }, strings.Replace(foreign(""), `,"caBundle":"bXktY2E="`, "", 1), "asked", "called "},
		{"a Service that may not be read, and no CA", "c", func(c string) reader.Source { return with(t, c, service, forbidden) }, foreign(""), "refused", "(usherctl doctor: ca-bundle-invalid)"},
		{"of usher, at its path", "usher", nil, own("\"sideEffects", "\"failurePolicy\": \"Ignore\", \"sideEffects", "\"usher\", \"name\"", "\"shop\", \"name\""), "failed", "(usherctl doctor: service-missing)"},
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
			examiner, err := doctor.NewExaminer(t.Context(), source, requests.NewCatalogue(nil))
			if err != nil {
				t.Fatal(err)
			}
			var needed registration.MutatingWebhook
			if err := json.Unmarshal([]byte(own()), &needed); err != nil {
				t.Fatal(err)
			}
			usher := doctor.Usher{Apply: "usher webhooks apply", Paths: []string{"/mutate-pods", "/validate-pods"}, Needed: func([]string) []webhooks.Hook { return []webhooks.Hook{needed} }}
			documents := requests.Read("-", strings.NewReader(pod))
			result := examiner.Judge(t.Context(), documents[0], requests.Options{Operation: admissionv1.Create, User: "ann", Namespace: "default"}, examiner.Calls(t.Context(), nil, usher))
			var says []string
			for _, w := range result.Webhooks {
				if w.Called {
					w.Filter = "called"
				}
				says = append(says, w.Filter+" "+w.Why)
			}
			if string(result.Verdict) != c.verdict || !strings.Contains(strings.Join(says, "\n"), c.says) {
				t.Errorf("%s: %q; want %s: %s", result.Verdict, says, c.verdict, c.says)
			}
			if w := result.Webhooks[len(result.Webhooks)-1]; strings.HasPrefix(c.name, "of usher, a") && strings.Contains(c.says, "path") && !strings.Contains(w.Fix, "usher webhooks apply") {
				t.Errorf("%+v", w)
			}
			if code := result.Exit(); (code == report.Fine) != (c.verdict == "passed" || c.verdict == "asked") {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// TestAskedPolicies: what a ValidatingAdmissionPolicy refuses has not passed, and what cannot be told of one is named.
func TestAskedPolicies(t *testing.T) {
	const (
		rules    = `"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]EXCLUDES}`
		at       = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
		mutating = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic"
		denies   = `"validationActions":["Deny"]`
		labels   = rules + `,"reinvocationPolicy":"Never","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":
			{"expression":"Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}]`
		configMaps = `,"paramKind":{"apiVersion":"v1","kind":"ConfigMap"}`
		named      = denies + `,"paramRef":{"name":"limits","namespace":"default","parameterNotFoundAction":"Allow"}`
		limits     = "/api/v1/namespaces/default/configmaps/limits"
	)
	list := func(name, spec string) string {
		return fmt.Sprintf(`{"items":[{"metadata":{"name":%q},"spec":{%s}}]}`, name, spec)
	}
	validates := func(expression, more string) string {
		return fmt.Sprintf(`"validations":[{"expression":%q,"message":"not here"}],`, expression) + rules + more
	}
	for _, c := range []struct {
		name, policy, binding string
		others                []string
		verdict, says         string
	}{
		{"a constant false", validates("false", ""), denies, nil, "refused", "denied request: not here."},
		{"a constant true", validates("true", ""), denies, nil, "passed", ""},
		{"only the audit log", validates("false", ""), `"validationActions":["Audit"]`, nil, "passed", ""},
		{"another namespace", validates("false", ""), denies + `,"matchResources":{"namespaceSelector":{"matchLabels":{"team":"bank"}}}`, nil, "passed", ""},
		{"a rule that excludes", strings.Replace(validates("false", ""), "EXCLUDES", `,"excludeResourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}]`, 1), denies, nil, "passed", ""},
		{"a label", validates("has(object.metadata.labels) && 'team' in object.metadata.labels", ""), denies, nil, "refused", "not here"},
		{"a default", validates("object.spec.restartPolicy == 'Always'", ""), denies, nil, "passed", ""},
		{"a variable", validates("variables.name != 'a'", `,"variables":[{"name":"name","expression":"object.metadata.name"}]`), denies, nil, "refused", "not here"},
		{"a field that nobody has set", validates("object.spec.nodeName == 'a'", ""), denies, nil, "refused", "no such key: nodeName"},
		{"what a plug-in sets", validates("has(object.spec.priorityClassName)", ""), denies, nil, "refused", "not here"},
		{"the namespace's label", validates("namespaceObject.metadata.labels['team'] == 'bank'", ""), denies, nil, "refused", "not here"},
		{"the namespace's annotations", validates("has(namespaceObject.metadata.annotations)", ""), denies, nil, "refused", "not here"},
		{"a condition that leaves it out", validates("false", `,"matchConditions":[{"name":"a","expression":"object.spec.nope == 1"},{"name":"b","expression":"request.operation != 'CREATE'"}]`), denies, nil, "passed", ""},
		{"a condition without a result", validates("true", `,"matchConditions":[{"name":"a","expression":"object.spec.nope == 1"}]`), denies, nil, "refused", "'object.spec.nope == 1' resulted in error: no such key: nope"},
		{"the same with Ignore", validates("true", `,"failurePolicy":"Ignore","matchConditions":[{"name":"a","expression":"object.spec.nope == 1"}]`), denies, nil, "passed", ""},
		{"a condition that reads the namespace", validates("true", `,"matchConditions":[{"name":"a","expression":"namespaceObject.metadata.labels['team'] == 'bank'"}]`), denies, nil, "refused",
			"resulted in error: no such key: metadata"},
		{"an audit annotation", validates("true", `,"auditAnnotations":[{"key":"a","valueExpression":"'by ' + object.metadata.name"},{"key":"b","valueExpression":"null"}]`), denies, nil, "passed", ""},
		{"an audit annotation without a result", validates("true", `,"auditAnnotations":[{"key":"a","valueExpression":"'of ' + object.metadata.labels.team"}]`), denies, nil, "refused",
			"'of ' + object.metadata.labels.team' resulted in error: no such key: labels"},
		{"the same, with a binding that warns", validates("false", `,"auditAnnotations":[{"key":"a","valueExpression":"'of ' + object.metadata.labels.team"}]`), `"validationActions":["Warn"]`, nil, "refused", "no such key: labels"},
		{"the same, after a condition without a result", validates("false", `,"auditAnnotations":[{"key":"a","valueExpression":"'of ' + object.metadata.labels.team"}],"matchConditions":[{"name":"a","expression":"object.spec.nope == 1"}]`),
			`"validationActions":["Warn"]`, nil, "passed", ""},
		{"the same, and Ignore", validates("true", `,"failurePolicy":"Ignore","auditAnnotations":[{"key":"a","valueExpression":"'of ' + object.metadata.labels.team"}]`), denies, nil, "passed", ""},
		{"the same, and another namespace", validates("true", `,"auditAnnotations":[{"key":"a","valueExpression":"'of ' + object.metadata.labels.team"}]`),
			denies + `,"matchResources":{"namespaceSelector":{"matchLabels":{"team":"bank"}}}`, nil, "passed", ""},
		{"parameters", validates("params.data.a == 'b'", configMaps), named, []string{limits, `{"metadata":{"name":"limits"},"data":{"a":"c"}}`}, "refused", "not here"},
		{"parameters that permit it", validates("params.data.a == 'b'", configMaps), named, []string{limits, `{"metadata":{"name":"limits"},"data":{"a":"b"}}`}, "passed", ""},
		{"parameters that may not be read", validates("false", configMaps), named, []string{limits, ""}, "asked", "configmaps default/limits may not be read"},
		{"the same, of a policy for others", strings.Replace(validates("false", configMaps), `"pods"`, `"secrets"`, 1), named, []string{limits, ""}, "passed", ""},
		{"no right to read quotas", validates("true", ""), denies, []string{"/api/v1/namespaces/default/resourcequotas", ""}, "asked", "what each ResourceQuota says: resourcequotas in namespace default may not be read"},
		{"no right to read the Namespace", validates("true", ""), denies, []string{"/api/v1/namespaces/default", ""}, "asked", "which admission policies are for the Namespace default"},
		{"a quota", validates("true", ""), denies, []string{"/api/v1/namespaces/default/resourcequotas", `{"items":[{"metadata":{"name":"q","namespace":"default"},"spec":{"hard":{"pods":"0"}},
			"status":{"hard":{"pods":"0"},"used":{"pods":"0"}}}]}`}, "refused", "exceeded quota: q"},
		{"no right to read them", "", "", []string{at + "ies", ""}, "asked", "what each ValidatingAdmissionPolicy says"},
		{"one that changes the object", validates("has(object.metadata.labels)", ""), denies, []string{mutating + "ies", list("m", labels), mutating + "ybindings", list("m", `"policyName":"m"`)}, "passed", ""},
		{"the same, and a constant", validates("1 > 2", ""), denies, []string{mutating + "ies", list("m", labels), mutating + "ybindings", list("m", `"policyName":"m"`)}, "refused", "not here"},
		{"a webhook that changes the object", validates("object.metadata.name != 'a'", ""), denies, []string{"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
			`{"items":[{"metadata":{"name":"m"},"webhooks":[` + webhookFor("/v1/pods", `,"failurePolicy":"Ignore"`) + `]}]}`}, "failed", "the webhook w may change it before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clean := strings.NewReplacer("EXCLUDES", "").Replace
			answers := append([]string{at + "ies", list("p", clean(c.policy)), at + "ybindings", list("b", `"policyName":"p",`+c.binding)}, c.others...)
			if c.policy == "" {
				answers = c.others
			}
			for i := range answers {
				answers[i] = clean(answers[i])
			}
			examiner, err := doctor.NewExaminer(t.Context(), with(t, "", answers...), requests.NewCatalogue(nil))
			if err != nil {
				t.Fatal(err)
			}
			documents := requests.Read("-", strings.NewReader(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"}]}}`))
			calls := examiner.Calls(t.Context(), nil, doctor.Usher{})
			result := examiner.Judge(t.Context(), documents[0], requests.Options{Operation: admissionv1.Create, User: "ann", Namespace: "default"}, calls)
			says := strings.Join(slices.Concat(result.Unjudged, result.Invalid), "\n")
			for _, f := range result.Findings {
				says += "\n" + f.Object + " " + f.Message
			}
			if string(result.Verdict) != c.verdict || !strings.Contains(says, c.says) || c.verdict == "passed" && strings.TrimSpace(says) != "" {
				t.Errorf("%s: %q; want %s: %s", result.Verdict, says, c.verdict, c.says)
			}
			if code := result.Exit(); (code == report.Refused) != (c.verdict == "refused" || c.verdict == "failed") {
				t.Errorf("exit code %d", code)
			}
		})
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
	examiner, err := doctor.NewExaminer(t.Context(), source, requests.NewCatalogue(nil))
	if err != nil {
		t.Fatal(err)
	}
	pod := requests.Document{JSON: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"}]}}`)}
	of := pod
	of.Of, of.Controller = "ReplicaSet web", "replicaset-controller"
	called := func(d requests.Document) bool {
		result := examiner.Examine(t.Context(), d, requests.Options{Operation: admissionv1.Create, User: "ann", Namespace: "default"})
		return len(result.Webhooks) == 1 && result.Webhooks[0].Called
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
