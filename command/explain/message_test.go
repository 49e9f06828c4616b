package explain

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestParseRefusal: the texts come from a real API server and a real kubectl.
func TestParseRefusal(t *testing.T) {
	for _, c := range []struct {
		name, text string
		by, of, id string
		said       string // STEP|FIELD|TYPE|DETAIL, separated by line breaks
	}{
		{"kubectl", `Error from server (Forbidden): error when creating "pod.yaml": admission webhook "validate-pods.usher.dev" denied the request: ` +
			`denied-names: metadata.name: Forbidden: "offensive-web" contains "offensive", which the policy does not allow in pod names; choose another name (refusal 63c5c9a7)`,
			ByUsher, "validate-pods.usher.dev", "63c5c9a7", `denied-names|metadata.name|Forbidden|"offensive-web" contains "offensive", which the policy does not allow in pod names; choose another name`},
		{"an event", `Error creating: admission webhook "validate-pod.usher.dev" denied the request: evaluate-quota: metadata.labels[quota.scheduling.koordinator.sh/name]: ` +
			`Forbidden: quota small (via label): cpu requested 2, used 0, limit 1 (spec.max); ask for less, or raise the limit (refusal e99c9a88)`,
			ByUsher, "validate-pod.usher.dev", "e99c9a88", `evaluate-quota|metadata.labels[quota.scheduling.koordinator.sh/name]|Forbidden|` +
				`quota small (via label): cpu requested 2, used 0, limit 1 (spec.max); ask for less, or raise the limit`},
		{"causes", "The Pod \"long\" is invalid: \n* metadata.labels[acme.com/lifespan-requested]: Invalid value: \"99\": must be a whole number (usher, step lifespan, refusal 9a507b42)\n" +
			"* spec.containers[0].image: Required value (usher, step image-rules, refusal 9a507b42)\n",
			ByUsher, "", "9a507b42", "lifespan|metadata.labels[acme.com/lifespan-requested]|Invalid value|\"99\": must be a whole number\nimage-rules|spec.containers[0].image|Required value|"},
		{"two problems", `admission webhook "validate-pods.usher.dev" denied the request: label-rules: metadata.labels[team]: Required value: rule team: set it; ` +
			`image-rules: spec.containers[0].image: Invalid value: "a": rule production: it; is bad (refusal 00000000)`,
			ByUsher, "validate-pods.usher.dev", "00000000", "label-rules|metadata.labels[team]|Required value|rule team: set it\nimage-rules|spec.containers[0].image|Invalid value|\"a\": rule production: it; is bad"},
		{"an older usher", `admission webhook "validate-pods.usher.dev" denied the request: denied-names: metadata.name: Forbidden: no`, ByUsher, "validate-pods.usher.dev", "",
			"denied-names|metadata.name|Forbidden|no"},
		{"usher review", `    message: denied-names: metadata.name: Forbidden: no; label-rules: metadata.labels[team]: Required value: rule team: set it (refusal 00000001)`,
			ByUsher, "", "00000001", "denied-names|metadata.name|Forbidden|no\nlabel-rules|metadata.labels[team]|Required value|rule team: set it"},
		{"a log", `label-rules: metadata.labels[team]: Required value: rule team: set it (refusal 00000002)`, ByUsher, "", "00000002",
			"label-rules|metadata.labels[team]|Required value|rule team: set it"},
		{"a line that was broken", "admission webhook \"validate-pods.usher.dev\" denied the request: denied-names: metadata.name: Forbidden:\n    no (refusal 00000003)",
			ByUsher, "validate-pods.usher.dev", "00000003", "denied-names|metadata.name|Forbidden|no"},
		{"a quota that asks for requests", `pods "web-1" is forbidden: failed quota: compute: must specify requests.cpu for: proxy`, ByQuota, "compute", "", ""},
		{"another webhook", `admission webhook "policy.example.com" denied the request: no`, ByWebhook, "policy.example.com", "", ""},
		{"a webhook that cannot be called", `Internal error occurred: failed calling webhook "mutate-pods.usher.dev": failed to call webhook: Post "https://usher.usher.svc:443/mutate-pods?timeout=5s": context deadline exceeded`,
			ByCall, "mutate-pods.usher.dev", "", ""},
		{"a quota of Kubernetes", `pods "web-1" is forbidden: exceeded quota: team-a, requested: cpu=1, used: cpu=4, limited: cpu=4`, ByQuota, "team-a", "", ""},
		{"Pod Security", `pods "web-1" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`, ByPodSecurity, "restricted:latest", "", ""},
		{"a policy of the API server", `pods "web" is forbidden: ValidatingAdmissionPolicy 'names' with binding 'all' denied request: no`, ByPolicy, "names", "", ""},
		{"a limit range", `pods "web" is forbidden: maximum cpu usage per Container is 1, but limit is 2`, ByLimitRange, "", "", ""},
		{"RBAC", `pods is forbidden: User "ann" cannot create resource "pods" in API group "" in the namespace "apps"`, ByRBAC, "", "", ""},
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
`
	var got []string
	for _, r := range ParseRefusals(text) {
		got = append(got, fmt.Sprintf("%s %s %d", r.By, r.ID, len(r.Problems)))
	}
	want := "usher 00000001 1; usher 00000002 2; a webhook that could not be called  0"
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
	policy := "# names: x\nnames:\n  denied: [a]\nlabelRules:\n- name: team # shown\n  label: t\n- {label: u, name: \"contact\"}\nimageRules:\n- name: contact\n"
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

// TestOthersAreLookedAt: usher cannot mend what others refuse, so a command about it is one to look with.
func TestOthersAreLookedAt(t *testing.T) {
	for _, by := range []string{ByCall, ByWebhook, ByQuota, ByPolicy, ByPodSecurity, ByLimitRange} {
		if f := foreignRefusal(Refusal{By: by, Name: "x"}); f.Look == "" || f.Fix != "" {
			t.Errorf("%s: look %q, fix %q", by, f.Look, f.Fix)
		}
	}
}
