package webhooks

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
)

// TestDifferences: what is missing, left over or different is reported; what the API server fills in is not.
func TestDifferences(t *testing.T) {
	at := Address{Namespace: "usher", Service: "usher"}
	hooks := func(is ...[]admit.Match) []Hook {
		var rows []admit.Route
		for i, m := range is {
			rows = append(rows, admit.Route{Path: []string{"/validate-a", "/validate-b"}[i], For: m})
		}
		usual := admit.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 5, OptIn: admit.Label{Key: "in", Value: "yes"}}
		return HooksOf(admit.OfSuite("core", usual, rows), at)
	}
	pods, both := admit.Pods(admissionv1.Create), admit.Pods(admissionv1.Create, admissionv1.Update)
	for _, c := range []struct {
		name         string
		needed, have []Hook
		want         []string
	}{
		{"the same", hooks(pods, both), hooks(pods, both), nil},
		{"missing", hooks(pods, both), hooks(pods), []string{"validate-b.usher.dev: is not registered, and the policy needs it for CREATE UPDATE of pods (v1, Namespaced)"}},
		{"left over", hooks(pods), hooks(pods, both), []string{"validate-b.usher.dev: is registered for nothing"}},
		{"rules", hooks(both), hooks(pods), []string{"validate-a.usher.dev: rules differ: registered CREATE of pods (v1, Namespaced), needed CREATE UPDATE of pods"}},
		{"nothing", nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Differences(c.needed, c.have)
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], c.want[i]) {
					t.Errorf("got %s, want %s", got[i], c.want[i])
				}
			}
		})
	}
	changed := slices.Clone(hooks(pods))
	changed[0].FailurePolicy, changed[0].NamespaceSelector = new(registration.Ignore), nil
	if got := Differences(hooks(pods), changed); len(got) != 2 || !strings.Contains(got[0], "namespaceSelectors differ: registered <none>") {
		t.Errorf("got %q", got)
	}
	reached := slices.Clone(hooks(pods))
	reached[0].ClientConfig.Service = &registration.ServiceReference{Namespace: "usher", Name: "usher", Port: new(int32(443)), Path: new("/validate-b")}
	reached[0].MatchPolicy, reached[0].ClientConfig.CABundle = new(registration.Exact), []byte("theirs")
	want := []string{"validate-a.usher.dev: clientConfigs differ: registered Service usher/usher port 443 /validate-b, needed Service usher/usher port 443 /validate-a",
		`validate-a.usher.dev: matchPolicies differ: registered "Exact", needed "Equivalent"`}
	if got := Differences(hooks(pods), reached); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	bundled := hooks(pods)
	bundled[0].ClientConfig.CABundle = []byte("ours")
	if got := Differences(bundled, hooks(pods)); len(got) != 1 || !strings.Contains(got[0], "caBundles differ: registered none") {
		t.Errorf("got %q", got)
	}
}

// TestReadRegistered: configurations are found in what kubectl prints, and nothing else is taken for them.
func TestReadRegistered(t *testing.T) {
	rows := admit.OfSuite("core", admit.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 5},
		[]admit.Route{{Path: "/validate-a", For: admit.Pods(admissionv1.Create), Chain: admit.Chain{}}})
	text, err := yaml.Marshal(Validating(rows, Address{Namespace: "usher", Service: "usher"}))
	if err != nil {
		t.Fatal(err)
	}
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n  ") + "\n"
	for _, c := range []struct{ name, content, problem string }{
		{"a document", string(text), ""},
		{"a list", list, ""},
		{"of another webhook", strings.ReplaceAll(string(text), "name: usher\n", "name: other\n"), "has no webhook configuration named usher"},
		{"of a wrong type", strings.ReplaceAll(string(text), "timeoutSeconds: 5", "timeoutSeconds: five"), "(line 1): webhooks.timeoutSeconds: must be a number, but is a string"},
		{"not YAML", "a: [", "yaml"},
		{"nothing", "", "has no webhook configuration named usher"},
	} {
		t.Run(c.name, func(t *testing.T) {
			hooks, err := ReadRegistered("-", strings.NewReader(c.content))
			if c.problem == "" && (err != nil || len(hooks) != 1) || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
				t.Errorf("got %d webhooks, %v, want %q", len(hooks), err, c.problem)
			}
			if c.problem == "" && len(Differences(HooksOf(rows, Address{Namespace: "usher", Service: "usher"}), hooks)) > 0 {
				t.Error("they differ from those that were printed")
			}
		})
	}
}
