package process

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

// TestWhichNamespacesAreLeftOut: namespaces that must recover without usher can be exempt from every route, and excluded by
// their names from every route but those of objects that configure usher.
func TestWhichNamespacesAreLeftOut(t *testing.T) {
	selectors := printedSelectors(t, "--service=door/usher", "--exclude-namespace=storage", "--exclude-namespace=network", "--exclude-namespace=storage",
		"--exclude-namespace=kube-system")
	for _, r := range sampleInstance(t).Routes() {
		selector, printed := selectors[r.Path]
		if !printed || r.For[0].Scope == registration.ClusterScope {
			if selector != nil {
				t.Errorf("%s: objects of the cluster are in no namespace", r.Path)
			}
			continue
		}
		if names := selector.MatchExpressions[0].Values; !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("%s: names are sorted, and each stands there once: %v", r.Path, names)
		}
		chosen, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		configures := strings.HasSuffix(r.Path, "-elasticquota") || r.Path == "/validate-elasticquotaprofile" || r.Path == "/validate-configmap"
		for _, c := range []struct {
			name, exempt string
			want         bool
		}{
			{"apps", "", true}, {"apps", "false", true}, {"apps", "true", false},
			{"storage", "", configures}, {"network", "", configures}, {"kube-system", "", false}, {"door", "", false},
		} {
			of := labels.Set{"kubernetes.io/metadata.name": c.name, "admission-webhook": "enabled"}
			if c.exempt != "" {
				of["usher.dev/exempt"] = c.exempt
			}
			if got := chosen.Matches(of); got != c.want {
				t.Errorf("%s, namespace %v: called %v, want %v", r.Path, of, got, c.want)
			}
		}
	}
}

// printedSelectors returns the namespaceSelectors of the configurations that `usher webhooks` prints for all suites, by
// path.
func printedSelectors(t *testing.T, flags ...string) map[string]*metav1.LabelSelector {
	t.Helper()
	gates := "--feature-gates=" + strings.TrimSpace(harness.ReadFile(t, "samples/feature-gates"))
	code, out, errors := run(t, "", append([]string{"webhooks", "--suite=core,colocation", gates}, flags...)...)
	if code != 0 {
		t.Fatal(errors)
	}
	all := map[string]*metav1.LabelSelector{}
	for _, text := range strings.Split(out, "\n---\n") {
		var c registration.ValidatingWebhookConfiguration // both kinds have these fields
		if err := yaml.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Webhooks {
			all[*w.ClientConfig.Service.Path] = w.NamespaceSelector
		}
	}
	if len(all) < 10 {
		t.Fatalf("only %d webhooks are printed", len(all))
	}
	return all
}

// TestUpdatesAreCalledForByWhatChanges: every route that may refuse an update declares what it reads; no sample that it
// refuses or changes is skipped because of that, but updates of bookkeeping fields are. That the CEL expressions agree
// is checked with the API server's own evaluator in e2e/oracle.
func TestUpdatesAreCalledForByWhatChanges(t *testing.T) {
	decided := map[string]int{} // by the paths that are for updates under the policy of some sample
	instances := harness.NewInstances(routes.Suites())
	for _, name := range harness.Samples(t) {
		for _, r := range instances.Of(t, name).Routes() {
			switch {
			case !r.Updates() || r.Path == "/validate-restrictions" || r.Path == "/validate-rules": // which may be about anything
			case r.Heartbeat() && len(r.Reads) > 0:
				t.Errorf("%s reads %v, and is called for all updates", r.Path, r.Reads)
			case r.Heartbeat():
			case len(r.Reads) == 0:
				t.Errorf("%s: say what it reads, or no finalizer is removed while usher is away", r.Path)
			case r.Path == "/"+harness.Route(name):
				decided[r.Path] += checkUpdate(t, r, harness.SampleFile(name)+".json")
			default:
				decided[r.Path] += 0
			}
		}
	}
	for path, n := range decided {
		if n == 0 {
			t.Errorf("%s: no sample shows an update that it refuses or changes", path)
		}
	}
}

// checkUpdate checks one sample. It returns 1 for an update that the route refuses or changes.
func checkUpdate(t *testing.T, r admit.Route, file string) (decided int) {
	t.Helper()
	body := harness.ReadFile(t, file)
	_, req, err := handlers.ReadReview([]byte(body))
	if err != nil || req.Operation != admissionv1.Update || !r.Covers(req) || req.OldObject == nil {
		return 0
	}
	golden, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".golden")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(golden); strings.Contains(text, "allowed: false") || strings.Contains(text, "\npatch:") {
		decided = 1
		if !r.Changes(req) {
			t.Errorf("%s: it would not be called for", file)
		}
	}
	_, kept, err := handlers.ReadReview(onlyBookkeeping(t, body))
	if err != nil {
		t.Fatal(err)
	}
	if r.Changes(kept) {
		t.Errorf("%s: a change of its finalizers would be called for", file)
	}
	return decided
}

// onlyBookkeeping returns a review whose object differs from the stored one only in fields that no step reads.
func onlyBookkeeping(t *testing.T, body string) []byte {
	t.Helper()
	var review map[string]any
	if err := json.Unmarshal([]byte(body), &review); err != nil {
		t.Fatal(err)
	}
	request := review["request"].(map[string]any)
	text, err := json.Marshal(request["oldObject"])
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	meta, _ := object["metadata"].(map[string]any)
	meta["finalizers"], meta["resourceVersion"], meta["managedFields"] = []string{"example.com/keep"}, "9", []any{}
	meta["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}}
	object["metadata"], request["object"] = meta, object
	text, err = json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
