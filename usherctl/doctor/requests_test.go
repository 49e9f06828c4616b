package doctor_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/usherctl/doctor"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

const (
	configurationsPath = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	none               = `{"metadata":{},"items":[]}`
)

// farm is an API server with a kind of its own, of which the plural cannot be guessed.
var farm = map[string]string{
	"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": none,
	"/apis/farm.test":    `{"versions":[{"version":"v1"},{"version":"v2"}]}`,
	"/apis/farm.test/v1": `{"resources":[{"name":"oxen","kind":"Ox","namespaced":true}]}`,
	"/apis/farm.test/v2": `{"resources":[{"name":"oxen","kind":"Ox","namespaced":true},{"name":"oxen/status","kind":"Ox","namespaced":true}]}`,
	"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/oxen.farm.test": `{"metadata":{"name":"oxen.farm.test"},"spec":{"group":"farm.test","scope":"Namespaced",
		"names":{"plural":"oxen","singular":"ox","kind":"Ox","listKind":"OxList"},"conversion":{"strategy":"None"},"versions":[
		{"name":"v1","served":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
		{"name":"v2","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`,
	"/api/v1/namespaces/default":                         `{"metadata":{"name":"default","labels":{"team":"web"}}}`,
	"/apis/authentication.k8s.io":                        `{"versions":[{"version":"v1"}]}`,
	"/apis/authentication.k8s.io/v1":                     `{"resources":[{"name":"tokenreviews","kind":"TokenReview"}]}`,
	"/version":                                           `{"major":"1","minor":"36"}`,
	"/apis/authorization.k8s.io/v1/subjectaccessreviews": `{"status":{"allowed":true}}`,
}

// with returns an API server with webhooks, and other answers at some paths; "" is forbidden.
func with(t *testing.T, webhooks string, others ...string) reader.Source {
	t.Helper()
	answers := maps.Clone(farm)
	answers[configurationsPath] = `{"items":[{"metadata":{"name":"c"},"webhooks":[` + webhooks + `]}]}`
	for i := 0; i < len(others); i += 2 {
		answers[others[i]] = others[i+1]
	}
	return serving(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer, found := answers[r.URL.Path]
		switch {
		case r.Method == http.MethodPost && (!strings.Contains(string(body), `"user":"ann"`) || !strings.HasSuffix(r.URL.Path, "accessreviews")),
			r.Method != http.MethodGet && r.Method != http.MethodPost:
			t.Errorf("%s %s: %s", r.Method, r.URL, body)
		case !found:
			refuse(w, 404, "NotFound")
		case answer == "":
			refuse(w, 403, "Forbidden")
		default:
			_, _ = fmt.Fprint(w, answer)
		}
	})
}

// examined returns the report on a manifest.
func examined(t *testing.T, source reader.Source, manifest, sub string) report.Report {
	t.Helper()
	examiner, err := doctor.NewExaminer(t.Context(), source, requests.NewCatalogue(nil))
	if err != nil {
		t.Fatal(err)
	}
	documents := requests.Read("-", strings.NewReader(manifest))
	options := requests.Options{Operation: admissionv1.Create, User: "ann", Namespace: "default"}
	if options.SubResource = sub; sub != "" {
		options.Operation = admissionv1.Update
	}
	examiner.Learn(t.Context(), documents, options)
	return examiner.Examine(t.Context(), documents[0], options)
}

func webhookFor(resource, more string) string {
	group, rest, _ := strings.Cut(resource, "/")
	version, name, _ := strings.Cut(rest, "/")
	return fmt.Sprintf(`{"name":"w","rules":[{"apiGroups":[%q],"apiVersions":[%q],"operations":["*"],"resources":[%q]}],"sideEffects":"None","admissionReviewVersions":["v1"]%s}`, group, version, name, more)
}

const ox = `{"apiVersion":"farm.test/v2","kind":"Ox","metadata":{"name":"a"},"spec":{"size":2}}`

// TestExaminer: what the API server serves, and may be read of it, decides.
func TestExaminer(t *testing.T) {
	token := `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","metadata":{},"spec":{}}`
	byLabel := `,"namespaceSelector":{"matchLabels":{"team":"web"}}`
	may := `,"matchConditions":[{"name":"a","expression":"authorizer.group('').resource('pods').check('get').allowed()"}]`
	for _, c := range []struct {
		name, sub     string
		source        reader.Source
		manifest      string
		verdict, says string // of the webhook: called and the reason, or the filter and the reason
	}{
		{"its plural and scope", "", with(t, webhookFor("farm.test/v2/oxen", byLabel)), ox, "passed", "called "},
		{"a subresource of it", "status", with(t, webhookFor("farm.test/v2/oxen/status", "")), ox, "passed", "called "},
		{"another version", "", with(t, webhookFor("farm.test/v1/oxen", "")), ox, "passed", "called as farm.test/v1 oxen"},
		{"the fields in another version", "", with(t, webhookFor("farm.test/v1/oxen", `,"matchConditions":[{"name":"a","expression":"object.spec.size == 2"}]`)),
			ox, "passed", "called as farm.test/v1 oxen"},
		{"the fields after a conversion webhook", "", with(t, webhookFor("farm.test/v1/oxen", `,"matchConditions":[{"name":"a","expression":"object.spec.size == 2"}]`),
			"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/oxen.farm.test", ""), ox, "error", "unknown matchConditions: a: object.spec.size == 2: the API server converts"},
		{"versions that may not be read", "", with(t, webhookFor("farm.test/v1/oxen", ""), "/apis/farm.test", ""), ox, "error", "unknown rules: are for another version"},
		{"no such namespace", "", with(t, webhookFor("farm.test/v2/oxen", byLabel)), strings.Replace(ox, `"a"`, `"a","namespace":"x"`, 1), "error",
			"unknown namespaceSelector: asks for the label team: web, and the labels of namespace x are not known: there is no such namespace"},
		{"a namespace that may not be read", "", with(t, webhookFor("farm.test/v2/oxen", byLabel), "/api/v1/namespaces/default", ""), ox, "error",
			"unknown namespaceSelector: asks for the label team: web, and the labels of namespace default are not known: namespaces default may not be read"},
		{"the authorizer", "", with(t, webhookFor("farm.test/v2/oxen", may)), ox, "passed", "called "},
		{"an authorizer that may not be asked", "", with(t, webhookFor("farm.test/v2/oxen", may), "/apis/authorization.k8s.io/v1/subjectaccessreviews", ""), ox, "error",
			"unknown matchConditions: a: authorizer"},
		{"a token, 1.36", "", with(t, webhookFor("*/*/*", "")), token, "passed", "called "},
		{"a token, 1.34 emulated", "", with(t, webhookFor("*/*/*", ""), "/version", `{"major":"1","minor":"37","emulationMajor":"1","emulationMinor":"34"}`), token, "passed", "called "},
		{"a token, 1.37", "", with(t, webhookFor("*/*/*", ""), "/version", `{"major":"1","minor":"37+"}`), token, "passed", "exempt since Kubernetes 1.37"},
		{"a request that is refused", "", with(t, webhookFor("farm.test/v2/oxen", `,"matchConditions":[{"name":"a","expression":"object.metadata.annotations.a == 'b'"}]`)),
			ox, "failed", "matchConditions a has no result"},
	} {
		t.Run(c.name, func(t *testing.T) {
			result := examined(t, c.source, c.manifest, c.sub)
			if len(result.Webhooks) != 1 {
				t.Fatalf("%+v", result)
			}
			w := result.Webhooks[0]
			says := w.Filter + " " + w.Why
			if w.Called {
				says = "called " + w.Why
			}
			if string(result.Verdict) != c.verdict || !strings.HasPrefix(says, c.says) || w.Called && says != c.says {
				t.Errorf("%s: %s; want %s: %s", result.Verdict, says, c.verdict, c.says)
			}
		})
	}
}

// TestConnection: the object of a CONNECT is the options of the connection, of which a manifest says nothing. They have no
// metadata, so that a condition on the pod's has no result.
func TestConnection(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"xa","annotations":{"a":"b"}},"spec":{}}`
	for _, c := range []struct{ condition, policy, first, second string }{
		{`object.metadata.annotations['a'] == 'b'`, "Fail", "matchConditions a has no result", "refused the API server refuses the request because of the webhook w"},
		{`object.metadata.name.startsWith('x')`, "Fail", "matchConditions a has no result", "refused "},
		{`object.metadata.name.startsWith('x')`, "Ignore", "matchConditions a has no result", "called "},
		{`!has(object.metadata) && object.kind == 'PodExecOptions' && oldObject == null`, "Fail", "called ", "called "},
		{`!has(object.stdin)`, "Fail", "unknown matchConditions: a: !has(object.stdin): a manifest does not say which PodExecOptions is sent", "unknown called, unless"},
		{`object.container == 'a'`, "Ignore", "unknown ", "called "},
		{`request.name == 'xa' && request.kind.kind == 'PodExecOptions'`, "Fail", "called ", "called "},
	} {
		hooks := webhookFor("/v1/pods/exec", fmt.Sprintf(`,"failurePolicy":%q,"matchConditions":[{"name":"a","expression":%q}]`, c.policy, c.condition))
		source := with(t, hooks+","+strings.Replace(webhookFor("/v1/pods/exec", ""), `"w"`, `"other"`, 1))
		examiner, err := doctor.NewExaminer(t.Context(), source, requests.NewCatalogue(nil))
		if err != nil {
			t.Fatal(err)
		}
		result := examiner.Examine(t.Context(), requests.Read("-", strings.NewReader(pod))[0],
			requests.Options{Operation: admissionv1.Connect, SubResource: "exec", User: "ann", Namespace: "default"})
		if len(result.Webhooks) != 2 {
			t.Fatalf("%+v", result)
		}
		for i, want := range []string{c.first, c.second} {
			says := result.Webhooks[i].Filter + " " + result.Webhooks[i].Why
			if result.Webhooks[i].Called {
				says = "called " + result.Webhooks[i].Why
			}
			if !strings.HasPrefix(says, want) {
				t.Errorf("%s, %s: the webhook %s: %s; want %s", c.condition, c.policy, result.Webhooks[i].Name, says, want)
			}
		}
	}
}

// TestKeptBySubresource: ephemeralcontainers keeps the stored labels. If the API server refuses the update before, perhaps, because of what a
// webhook may change, the object that a validating webhook would get is not known.
func TestKeptBySubresource(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"default","uid":"u","labels":{"app":%q}},
		"spec":{"containers":[{"name":"a","image":"a"}]%s}}`
	hooks := webhookFor("/v1/pods/ephemeralcontainers", `,"matchConditions":[{"name":"a","expression":"object.metadata.labels.app == 'old'"}]`)
	source := with(t, hooks, "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", `{"items":[{"metadata":{"name":"m"},"webhooks":[`+webhookFor("/v1/pods/ephemeralcontainers", "")+`]}]}`)
	examiner, err := doctor.NewExaminer(t.Context(), source, requests.NewCatalogue(nil))
	if err != nil {
		t.Fatal(err)
	}
	document := requests.Read("-", strings.NewReader(fmt.Sprintf(pod, "new", `,"ephemeralContainers":[{"name":"e","image":"e"}]`)))[0]
	result := examiner.Examine(t.Context(), document, requests.Options{Operation: admissionv1.Update, SubResource: "ephemeralcontainers", User: "ann",
		Old: []byte(fmt.Sprintf(pod, "old", ""))})
	for _, w := range result.Webhooks {
		if strings.HasSuffix(w.Configuration, " c") && (w.Called || w.Filter != "unknown" || !strings.Contains(w.Why, "unless the API server refuses the request before")) {
			t.Errorf("%+v", w)
		}
	}
}

// TestNoConfigurationsNoAnswer: if configurations may not be read, there is an error and no report.
func TestNoConfigurationsNoAnswer(t *testing.T) {
	_, err := doctor.NewExaminer(t.Context(), with(t, "", configurationsPath, ""), requests.NewCatalogue(nil))
	if err == nil || !strings.HasPrefix(err.Error(), "validatingwebhookconfigurations may not be read") {
		t.Error(err)
	}
}

// TestNamespaceAmongTheFiles: a Namespace among the examined files overrides the cluster's.
func TestNamespaceAmongTheFiles(t *testing.T) {
	source := with(t, webhookFor("/v1/pods", `,"namespaceSelector":{"matchLabels":{"team":"api"}}`))
	examiner, err := doctor.NewExaminer(t.Context(), source, requests.NewCatalogue(nil))
	if err != nil {
		t.Fatal(err)
	}
	documents := requests.Read("-", strings.NewReader(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default","labels":{"team":"api"}}}
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"}]}}`))
	options := requests.Options{Operation: admissionv1.Create, Namespace: "default"}
	examiner.Learn(t.Context(), documents, options)
	result := examiner.Examine(t.Context(), documents[1], options)
	if len(result.Webhooks) != 1 || !result.Webhooks[0].Called {
		t.Errorf("%+v", result)
	}
}

// TestDefinitionAmongTheFiles: a CustomResourceDefinition says what a cluster of files serves.
func TestDefinitionAmongTheFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "crd.yaml", `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: oxen.farm.test}, spec: {group: farm.test,
  names: {plural: oxen, kind: Ox, singular: ox, listKind: OxList}, scope: Namespaced, versions: [{name: v1, served: true, schema: &any {openAPIV3Schema: {type: object}}},
  {name: v2, served: true, storage: true, schema: *any}, {name: v0, served: false, schema: *any}]}}`)
	write(t, dir, "ns.yaml", `{apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {team: web}}}`)
	for version, called := range map[string]bool{"v1": true, "v2": true, "v0": true, "v3": false} {
		write(t, dir, "w.yaml", `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: c}, webhooks: [`+
			webhookFor("farm.test/"+version+"/oxen", `,"namespaceSelector":{"matchLabels":{"team":"web"}}`)+`]}`)
		source, err := reader.Files(dir)
		if err != nil {
			t.Fatal(err)
		}
		if result := examined(t, source, ox, ""); result.Webhooks[0].Called != called || result.Verdict != "passed" || result.Namespace != "default" {
			t.Errorf("%s: %+v", version, result)
		}
	}
}

// TestHooks: mutating before validating, those in files of the API server before others, then by configuration; webhooks of one configuration stay in their order.
func TestHooks(t *testing.T) {
	list := func(configurations ...string) string {
		var items []string
		for _, c := range configurations {
			name, webhooks, _ := strings.Cut(c, " ")
			items = append(items, `{"metadata":{"name":"`+name+`"},"webhooks":[{"name":"`+strings.ReplaceAll(webhooks, " ", `"},{"name":"`)+`"}]}`)
		}
		return `{"items":[` + strings.Join(items, ",") + `]}`
	}
	source := with(t, "", configurationsPath, list("b 1", "a 2"), strings.Replace(configurationsPath, "validating", "mutating", 1), list("b 3", "a 5 4", "z.static.k8s.io 6"))
	hooks, err := doctor.Hooks(t.Context(), source)
	got := ""
	for _, h := range hooks {
		got += h.Name
		if h.Mutating != (h.Name > "2") {
			t.Errorf("%+v", h)
		}
	}
	if err != nil || got != "654321" {
		t.Errorf("order %s: %v", got, err)
	}
}
