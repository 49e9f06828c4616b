package explain

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/webhookmatch"
)

// TestParseRefusal: the texts come from a real API server and a real kubectl.
func TestParseRefusal(t *testing.T) {
	for _, c := range []struct {
		name, text string
		by, of, id string
		said       string // STEP|FIELD|TYPE|DETAIL, separated by line breaks
	}{
		{"kubectl", `Error from server (Forbidden): error when creating "pod.yaml": admission webhook "validate-pods.usher.dev" denied the request: ` +
			`denied-names: metadata.name: Forbidden: "offensive-web" contains "offensive", which the policy does not allow in pod names; choose another ` +
			`name (refusal 63c5c9a7)`,
			ByUsher, "validate-pods.usher.dev", "63c5c9a7",
			`denied-names|metadata.name|Forbidden|"offensive-web" contains "offensive", which the policy does not allow in pod names; choose another name`},
		{"an event", `Error creating: admission webhook "validate-pod.usher.dev" denied the request: evaluate-quota: ` +
			`metadata.labels[quota.scheduling.koordinator.sh/name]: ` +
			`Forbidden: quota small (via label): cpu requested 2, used 0, limit 1 (spec.max); ask for less, or raise the limit (refusal e99c9a88)`,
			ByUsher, "validate-pod.usher.dev", "e99c9a88", `evaluate-quota|metadata.labels[quota.scheduling.koordinator.sh/name]|Forbidden|` +
				`quota small (via label): cpu requested 2, used 0, limit 1 (spec.max); ask for less, or raise the limit`},
		{"causes", "The Pod \"long\" is invalid: \n* metadata.labels[acme.com/lifespan-requested]: Invalid value: \"99\": must be a whole number " +
			"(usher, step lifespan, refusal 9a507b42)\n" +
			"* spec.containers[0].image: Required value (usher, step image-rules, refusal 9a507b42)\n",
			ByUsher, "", "9a507b42", "lifespan|metadata.labels[acme.com/lifespan-requested]|Invalid value|\"99\": must be a whole " +
				"number\nimage-rules|spec.containers[0].image|Required value|"},
		{"two problems", `admission webhook "validate-pods.usher.dev" denied the request: label-rules: metadata.labels[team]: Required value: rule ` +
			`team: set it; ` +
			`image-rules: spec.containers[0].image: Invalid value: "a": rule production: it; is bad (refusal 00000000)`,
			ByUsher, "validate-pods.usher.dev", "00000000", "label-rules|metadata.labels[team]|Required value|rule team: set " +
				"it\nimage-rules|spec.containers[0].image|Invalid value|\"a\": rule production: it; is bad"},
		{"an older usher", `admission webhook "validate-pods.usher.dev" denied the request: denied-names: metadata.name: Forbidden: no`, ByUsher,
			"validate-pods.usher.dev", "",
			"denied-names|metadata.name|Forbidden|no"},
		{"usherctl review", `    message: denied-names: metadata.name: Forbidden: no; label-rules: metadata.labels[team]: Required value: rule team: ` +
			`set it (refusal 00000001)`,
			ByUsher, "", "00000001", "denied-names|metadata.name|Forbidden|no\nlabel-rules|metadata.labels[team]|Required value|rule team: set it"},
		{"usherctl review, a problem a line", "    message: denied-names: metadata.name: Forbidden: no;\n             label-rules: metadata.labels[team]: Required value: rule team: " +
			`set it (refusal 00000001)`,
			ByUsher, "", "00000001", "denied-names|metadata.name|Forbidden|no\nlabel-rules|metadata.labels[team]|Required value|rule team: set it"},
		{"a log", `label-rules: metadata.labels[team]: Required value: rule team: set it (refusal 00000002)`, ByUsher, "", "00000002",
			"label-rules|metadata.labels[team]|Required value|rule team: set it"},
		{"a line that was broken", "admission webhook \"validate-pods.usher.dev\" denied the request: denied-names: metadata.name: Forbidden:\n    no " +
			"(refusal 00000003)",
			ByUsher, "validate-pods.usher.dev", "00000003", "denied-names|metadata.name|Forbidden|no"},
		{"a quota that asks for requests", `pods "web-1" is forbidden: failed quota: compute: must specify requests.cpu for: proxy`, ByQuota, "compute", "",
			""},
		{"another webhook", `admission webhook "policy.example.com" denied the request: no`, ByWebhook, "policy.example.com", "", ""},
		{"a webhook that cannot be called", `Internal error occurred: failed calling webhook "mutate-pods.usher.dev": failed to call webhook: Post ` +
			`"https://usher.usher.svc:443/mutate-pods?timeout=5s": context deadline exceeded`,
			ByCall, "mutate-pods.usher.dev", "", ""},
		{"Kyverno with words of usher", `admission webhook "validate.kyverno.svc-fail" denied the request: require-labels: check: no (refusal 0a32e40f)`, ByWebhook,
			"validate.kyverno.svc-fail", "0a32e40f", ""},
		{"a quota of Kubernetes", `pods "web-1" is forbidden: exceeded quota: team-a, requested: cpu=1, used: cpu=4, limited: cpu=4`, ByQuota, "team-a", "",
			""},
		{"Pod Security", `pods "web-1" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`, ByPodSecurity,
			"restricted:latest", "", ""},
		{"a policy of the API server", `pods "web" is forbidden: ValidatingAdmissionPolicy 'names' with binding 'all' denied request: no`, ByPolicy,
			"names", "", ""},
		{"a limit range", `pods "web" is forbidden: maximum cpu usage per Container is 1, but limit is 2`, ByLimitRange, "", "", ""},
		{"RBAC", `pods is forbidden: User "ann" cannot create resource "pods" in API group "" in the namespace "apps"`, ByRBAC, "", "", ""},
		{"a policy that is not configured", `Error from server (Forbidden): error when creating "p.yaml": pods "p1" is forbidden: ` +
			`ValidatingAdmissionPolicy 'params' denied request: failed to configure policy: failed to find resource referenced by paramKind: ` +
			`'example.com/v1, Kind=Limit'`,
			ByPolicy, "params", "", ""},
		{"a MutatingAdmissionPolicy", `pods "p1" is forbidden: policy 'm' with binding 'b' denied request: no`, ByMutation, "m", "", ""},
		{"one without a binding", `pods "p1" is forbidden: policy "m" denied request: no`, ByMutation, "m", "", ""},
		{"a ratio", `pods "p" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000`, ByLimitRange, "", "", ""},
		{"too short", `denied-names: metadata.name: Too short: no (refusal 01234567)`, ByUsher, "", "01234567", "denied-names|metadata.name|Too short|no"},
		{"a matchCondition", `Error from server (Forbidden): error when creating "p.yaml": pods "p1" is forbidden: expression 'object.spec.nope == 'x'' ` +
			`resulted in error: no such key: nope`, ByCondition, "", "", ""},
		{"a patch", `Error from server (InternalError): error when creating "p.yaml": Internal error occurred: remove operation does not apply: doc is ` +
			`missing path: "/spec/x": missing value`, ByPatch, "", "", ""},
		{"a patch of a deletion", `Internal error occurred: admission webhook "m.example.com" attempted to modify the object, which is not supported for ` +
			`this operation`, ByPatch, "m.example.com", "", ""},
		{"no dry run", `Error from server (BadRequest): admission webhook "v.example.co" does not support dry run`, ByDryRun, "v.example.co", "", ""},
		{"a patch of no pod", `Error from server (InternalError): error when creating "p.yaml": Internal error occurred: json: cannot unmarshal string ` +
			`into Go struct field PodSpec.spec.containers of type []v1.Container`, ByPatch, "", "", ""},
		{"a conversion", `Error from server: error when creating "f.yaml": conversion webhook for example.com/v1, Kind=Foo failed: Post ` +
			`"https://conv.x.svc:443/convert?timeout=30s": service "conv" not found`,
			ByConversion, "example.com/v1, Kind=Foo", "", ""},
		{"validation", `Pod "web" is invalid: spec.containers[0].image: Required value`, ByAPIServer, "", "", ""},
		{"no refusal", "hello", "", "", "", ""},
		{"nothing", "", "", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, ok := ParseRefusal(c.text)
			if ok != (c.by != "") {
				t.Fatalf("is a refusal: %v", ok)
			}
			var said []string
			for _, s := range r.Problems {
				said = append(said, strings.Join([]string{s.Step, s.Field, s.Type, s.Detail}, "|"))
			}
			if ok && (r.By != c.by || r.Name != c.of || r.ID != c.id || strings.Join(said, "\n") != c.said) {
				t.Errorf("%s %s %s\n%s\nwant %s %s %s\n%s", r.By, r.Name, r.ID, strings.Join(said, "\n"), c.by, c.of, c.id, c.said)
			}
		})
	}
}

// TestParseRefusals: what kubectl prints of several objects, with lines that are no refusals.
func TestParseRefusals(t *testing.T) {
	const text = `pod/fine created
Error from server (Forbidden): error when creating "a": admission webhook "validate-pods.usher.dev" denied the request: denied-names: metadata.name: Forbidden: a (refusal 00000001)
The Pod "b" is invalid:
* metadata.labels[x]: Invalid value: "1": no (usher, step lifespan, refusal 00000002)
* metadata.labels[y]: Invalid value: "is forbidden": no (usher, step lifespan, refusal 00000002)
Error from server (InternalError): error when creating "c": Internal error occurred: failed calling webhook "x.example.com": no
Error from server (InternalError): error when creating "d": Internal error occurred: replace operation does not apply: doc is missing key: /x: missing value
Error from server: error when creating "e": conversion webhook for example.com/v1, Kind=Foo failed: no
`
	var got []string
	for _, r := range ParseRefusals(text) {
		got = append(got, fmt.Sprintf("%s %s %d", r.By, r.ID, len(r.Problems)))
	}
	want := "usher 00000001 1; usher 00000002 2; a webhook that could not be called  0; a mutating webhook's patch  0; a conversion webhook  0"
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
	if n := len(ParseRefusals("hello\nworld")); n != 0 {
		t.Errorf("%d refusals of nothing", n)
	}
}

// FuzzParseRefusal: no text makes the parser fail, and all that it returns is of the text.
func FuzzParseRefusal(f *testing.F) {
	f.Add(`admission webhook "a.usher.dev" denied the request: a-b: c[d].e: Forbidden: f; g: h: Invalid value: "i" (refusal 01234567)`)
	f.Add("* a[b: c]: Required value (usher, step d, refusal 01234567)\n")
	f.Fuzz(func(t *testing.T, text string) {
		ParseRefusals(text)
		r, ok := ParseRefusal(text)
		if ok && r.By == "" || !utf8.ValidString(r.Text) {
			t.Errorf("%+v", r)
		}
		for _, s := range r.Problems {
			for _, part := range []string{s.Step, s.Field, s.Type, s.Detail} {
				if !strings.Contains(r.Text, part) {
					t.Errorf("%q is not of the text", part)
				}
			}
		}
	})
}

func TestPolicyLine(t *testing.T) {
	policy := "# names: x\nnames:\n  denied: [a]\nlabelRules:\n- name: team # shown\n  label: t\n- {label: u, name: \"contact\"}\nimageRules:\n- " +
		"name: contact\n"
	for _, c := range []struct {
		section, text string
		line          int
		entry         string
	}{
		{"names", "contains a", 2, ""},
		{"labelRules", "rule team: set it", 5, "team"},
		{"labelRules", "rule contact: set it", 7, "contact"},
		{"labelRules", "rule teams: set it", 4, ""},
		{"imageRules", "rule contact: no", 9, "contact"},
		{"imageRules", "rule team: no", 8, ""},
		{"rules", "rule team", 0, ""},
	} {
		if line, entry := PolicyLine([]byte(policy), c.section, c.text); line != c.line || entry != c.entry {
			t.Errorf("%s, %s: %d %s, want %d %s", c.section, c.text, line, entry, c.line, c.entry)
		}
	}
}

// TestOtherPolicy: explain reports a rule that the section does not have, and a policy that could not be read.
func TestOtherPolicy(t *testing.T) {
	f := policyFile{name: "p.yaml", text: []byte("labelRules:\n- name: described\n- {name: cost center}\nenv: []\n")}
	for text, want := range map[string]string{
		"rule described: set it":   "policy: p.yaml:2, section labelRules, described",
		"rule cost center: set it": "policy: p.yaml:3, section labelRules, cost center",
		"rule descirbed: set it":   "policy: p.yaml:1, section labelRules, which has no entry descirbed; did you mean described?: the policy in force may be another",
		"set it":                   "policy: p.yaml:1, section labelRules",
	} {
		if got := f.line("labelRules", text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	refusal, _ := ParseRefusal("denied-names: metadata.name: Forbidden: no (refusal 00000001)")
	reports, err := Messages([]Refusal{refusal}, Policy{Unread: errors.New("no Deployment")}, Options{}, nil, Filter{})
	if n := len(reports[0].Findings); err != nil || reports[0].Findings[n-1].ID != "policy-not-read" || reports[0].Exit() != report.Unjudged {
		t.Errorf("%v %+v", err, reports)
	}
}

// TestRoutesOfARefusal: a message that names no webhook is explained by the routes for the kind that it names, or by all.
func TestRoutesOfARefusal(t *testing.T) {
	p := Policy{Routes: []admit.Route{{Path: "/pods", For: admit.Pods(admissionv1.Create)}, {Path: "/others"}}}
	for kind, want := range map[string]string{"Pod": "/pods false", "Deployment.apps": "/pods /others true"} {
		refusal, _ := ParseRefusal(kind + ` "a" is invalid: a: Invalid value (refusal 00000001)`)
		refusal.By = ByUsher
		got, r := "", p.explain(refusal, Options{}, "")
		for _, call := range r.Calls {
			got += call.Path + " "
		}
		if got += strconv.FormatBool(strings.Contains(r.Hint, "one of these routes refused")); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

// TestOthersAreLookedAt: usher cannot mend what others refuse, so a command about it is one to look with.
func TestOthersAreLookedAt(t *testing.T) {
	for _, by := range []string{ByCall, ByCondition, ByPatch, ByDryRun, ByConversion, ByWebhook, ByQuota, ByPolicy, ByMutation, ByPodSecurity, ByLimitRange,
		ByDisruption} {
		if f := foreignRefusal(Refusal{By: by, Name: "x"}, nil); f.Look == "" || f.Fix != "" {
			t.Errorf("%s: look %q, fix %q", by, f.Look, f.Fix)
		}
	}
}

// TestForeignRefusals: whose a refusal is, as far as it can be told, and a command that can show it.
func TestForeignRefusals(t *testing.T) {
	const nope = `pods "p1" is forbidden: expression 'object.spec.nope == 'x'' resulted in error: no such key: nope`
	calling := func(name, why string) string {
		return `Internal error occurred: failed calling webhook "` + name + `": failed to call webhook: ` + why
	}
	const notFound = "the server could not find the requested resource"
	hook := func(name string, client registration.WebhookClientConfig, conditions ...registration.MatchCondition) webhookmatch.Hook {
		return webhookmatch.Hook{Configuration: "c-" + name,
			ValidatingWebhook: registration.ValidatingWebhook{Name: name, ClientConfig: client, MatchConditions: conditions}}
	}
	atURL := registration.WebhookClientConfig{URL: new("https://127.0.0.1:1/404")}
	inService := registration.WebhookClientConfig{Service: &registration.ServiceReference{Namespace: "s", Name: "n", Path: new("/p")}}
	failing := registration.MatchCondition{Name: "m", Expression: "object.spec.nope == 'x'"}
	lenient := hook("lenient", atURL, failing)
	lenient.FailurePolicy = new(registration.Ignore)
	onDisk := func(name string, conditions ...registration.MatchCondition) webhookmatch.Hook {
		h := hook(name, atURL, conditions...)
		h.File = "/etc/static files/a.yaml"
		return h
	}
	for _, c := range []struct {
		name, text, namespace string
		hooks                 []webhookmatch.Hook
		object, message, look string // parts
	}{
		{"404 at a URL", calling("a", notFound), "", []webhookmatch.Hook{hook("a", atURL)}, "a", "(https://127.0.0.1:1/404) was reached", "| grep -F -e a"},
		{"404 at a URL, for a pod", calling("a", notFound), "apps", []webhookmatch.Hook{hook("a", atURL)}, "a", "(https://127.0.0.1:1/404)",
			"usherctl doctor --cluster=api --canary -n apps"},
		{"404 of a Service", calling("a", notFound), "apps", []webhookmatch.Hook{hook("a", inService)}, "a", "(Service s/n, path /p)",
			"kubectl logs -n s service/n --tail=100"},
		{"500, and no cluster", calling("a", `an error on the server ("no") has prevented the request from succeeding`), "", nil, "a",
			"its server was reached", "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations"},
		{"another version of a review", calling("a", "converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"), "", nil, "a",
			"another version of AdmissionReview", "grep -F -e a"},
		{"a patch of a deletion", `Internal error occurred: admission webhook "m" attempted to modify the object, which is not supported`, "", nil, "m",
			"no object to patch", "grep -F -e m"},
		{"no review", calling("a", "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="), "", nil, "a",
			"its server was reached", "grep -F -e a"},
		{"a timeout", calling("a", `Post "https://n.s.svc:443/p?timeout=3s": context deadline exceeded`), "", nil, "a",
			"has not answered within timeoutSeconds", "kubectl logs -n s service/n --tail=100"},
		{"a timeout of a connection", calling("a", `Post "https://n.s.svc:443/p?timeout=3s": dial tcp 10.0.0.1:443: i/o timeout: context deadline exceeded`), "", nil, "a", "could not call", "usherctl doctor --cluster=api"},
		{"a certificate", calling("a", `Post "https://n.s.svc:443/p?timeout=3s": x509: certificate signed by unknown authority`), "apps", nil, "a",
			"could not call", "usherctl doctor --cluster=api"},
		{"usher, 404", calling("validate-pods.usher.dev", notFound), "apps", nil, "validate-pods.usher.dev", "was reached",
			"usherctl doctor --cluster=api"},
		{"usher, 500", calling("validate-pods.usher.dev", `an error on the server ("no") has prevented the request from succeeding`), "", nil,
			"validate-pods.usher.dev", "was reached", "kubectl -n usher logs deployment/usher"},
		{"a matchCondition, and no cluster", nope, "", nil, "", "matchConditions could not be evaluated", "matchCondition {{.name}}: {{.expression}}"},
		{"a matchCondition", nope, "", []webhookmatch.Hook{lenient, hook("other", atURL), hook("strict", atURL, failing)},
			"ValidatingWebhookConfiguration c-strict, webhook strict",
			"matchConditions could not be evaluated", "kubectl get validatingwebhookconfiguration c-strict -o yaml"},
		{"in a file, 404", calling("a", notFound), "", []webhookmatch.Hook{onDisk("a")}, "a", "webhook a is in a file of the API server",
			"${EDITOR:-vi} '/etc/static files/a.yaml'"},
		{"in a file, for a pod", calling("a", notFound), "apps", []webhookmatch.Hook{onDisk("a")}, "a", "was reached",
			"usherctl doctor --cluster=api --canary -n apps"},
		{"in a file, a certificate", calling("a", `Post "https://127.0.0.1:1/404": x509: certificate signed by unknown authority`), "",
			[]webhookmatch.Hook{onDisk("a")}, "a",
			"could not call", "usherctl doctor --cluster=api --static-dir '/etc/static files'"},
		{"in a file, a matchCondition", nope, "", []webhookmatch.Hook{onDisk("strict", failing)}, "webhook strict", "is in a file of the API server",
			"${EDITOR:-vi} '/etc/static files/a.yaml'"},
		{"in a file, a refusal", `admission webhook "a" denied the request: no`, "", []webhookmatch.Hook{hook("b", atURL), onDisk("a")}, "a",
			"webhook a is in a file", "${EDITOR:-vi} '/etc/static files/a.yaml'"},
		{"in the API, a refusal", `admission webhook "b" denied the request: no`, "", []webhookmatch.Hook{hook("b", atURL), onDisk("a")}, "b",
			"another webhook refused", "grep -F -B2 -A20 -e b"},
		{"a paramKind", `pods "p1" is forbidden: ValidatingAdmissionPolicy 'params' denied request: failed to configure policy: failed to find resource ` +
			`referenced by paramKind: 'example.com/v1, Kind=Limit'`, "", nil,
			"params", "paramKind: 'example.com/v1, Kind=Limit'", "kubectl get validatingadmissionpolicy params -o yaml"},
		{"parameters", `pods "p1" is forbidden: ValidatingAdmissionPolicy 'params' with binding 'b' denied request: failed to configure binding: no ` +
			`params found`, "", nil,
			"params", "cannot be used", "kubectl get validatingadmissionpolicybinding b -o yaml"},
		{"no endpoints", calling("a", `Post "https://n.s.svc:443/p?timeout=3s": no endpoints available for service "n"`), "", nil, "a",
			"No pod of its Service answers", "kubectl get endpointslices -n s -l kubernetes.io/service-name=n"},
		{"refused at a URL", calling("a", `Post "https://127.0.0.1:1/404": dial tcp 127.0.0.1:1: connect: connection refused`), "", nil, "a",
			"nothing listens at the port", "usherctl doctor --cluster=api"},
		{"another CA", calling("a", `Post "https://n.s.svc:443/p": x509: certificate signed by unknown authority`), "", nil, "a",
			"does not verify the server's certificate", "usherctl doctor"},
		{"no Service", calling("a", `Post "https://n.s.svc:443/p": service "n" not found`), "", nil, "a", "Its Service does not exist",
			"kubectl get services -n s n"},
		{"RBAC", `deployments.apps "web" is forbidden: User "ann" cannot patch resource "deployments/scale" in API group "apps" in the namespace "shop"`,
			"", nil, "RBAC", "RBAC refused this", "kubectl auth can-i patch deployments.apps --subresource=scale -n shop --as=ann"},
		{"RBAC of the cluster", `nodes is forbidden: User "ann" cannot list resource "nodes" in API group "" at the cluster scope`, "", nil, "RBAC",
			"RBAC refused this", "kubectl auth can-i list nodes --as=ann"},
		{"a quota", `pods "web" is forbidden: exceeded quota: q, requested: cpu=1`, "apps", nil, "ResourceQuota q", "a ResourceQuota refused",
			"kubectl get resourcequota -n apps q"},
		{"a quota somewhere", `pods "web" is forbidden: exceeded quota: q, requested: cpu=1`, "", nil, "ResourceQuota q", "a ResourceQuota refused",
			"kubectl get resourcequota --all-namespaces --field-selector=metadata.name=q"},
		{"Pod Security", `pods "web" is forbidden: violates PodSecurity "restricted:latest": no`, "apps", nil, "Pod Security admission restricted:latest",
			"Pod Security admission refused", "kubectl get namespace apps --show-labels"},
		{"a conversion", "conversion webhook for example.com/v1, Kind=Foo failed: no", "", nil, "Kind=Foo", "custom kind Foo", "grep -F -e ' Foo: '"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refusal, _ := ParseRefusal(c.text)
			refusal.Namespace = c.namespace
			r := Policy{Hooks: func() []webhookmatch.Hook { return c.hooks }}.explain(refusal, Options{}, "the message")
			f := r.Findings[0]
			if failed := strings.HasPrefix(c.text, "Internal error") || refusal.By == ByConversion; failed != (r.Verdict == report.Failed) ||
				failed != (r.Calls[0].Outcome == "error") {
				t.Errorf("the verdict is %s, the call is %s", r.Verdict, r.Calls[0].Outcome)
			}
			if r.Exit() != report.Refused || !strings.Contains(f.Object, c.object) || !strings.Contains(f.Message, c.message) ||
				!strings.Contains(f.Look, c.look) ||
				!strings.Contains(c.look, "--canary") && strings.Contains(f.Look, "--canary") {
				t.Errorf("%d %+v", r.Exit(), f)
			}
		})
	}
}
