package doctor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/resources"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/doctor/connectivity"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/webhookmatch"
)

// hook returns a webhook that has no fault, for ConfigMaps, as a table test changes it.
func hook(change func(*entry)) entry {
	w := entry{kind: validatingKind, configuration: metav1.ObjectMeta{Name: "c"}}
	w.Name = "w.example.com"
	w.ClientConfig.Service = &registration.ServiceReference{Namespace: "ns", Name: "svc", Port: new(int32(443))}
	w.Rules = rulesFor("", "v1", "configmaps", registration.Create, registration.NamespacedScope)
	w.FailurePolicy, w.TimeoutSeconds, w.SideEffects = new(registration.Fail), new(int32(3)), new(registration.SideEffectClassNone)
	w.AdmissionReviewVersions = []string{"v1"}
	if change != nil {
		change(&w)
	}
	return w
}

func rulesFor(group, version, resource string, operation registration.OperationType, scope registration.ScopeType) []registration.RuleWithOperations {
	return []registration.RuleWithOperations{{Operations: []registration.OperationType{operation},
		Rule: registration.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}, Scope: &scope}}}
}

// expectOne fails the test unless the only finding has an id, or there is none for "".
func expectOne(t *testing.T, found []report.Finding, id string, says ...string) {
	t.Helper()
	var ids []string
	for _, f := range found {
		ids = append(ids, f.ID)
		if (f.Fix == "") == (f.Look == "") || !strings.HasSuffix(f.Link, "#"+f.ID) || f.Message == "" || rank(f.ID) < 0 {
			t.Errorf("it is not whole: %+v", f)
		}
	}
	if strings.Join(ids, " ") != id {
		t.Fatalf("%q, want %q: %+v", ids, id, found)
	}
	for _, text := range says {
		if len(found) > 0 && !strings.Contains(found[0].Message+"\n"+found[0].Fix+found[0].Look, text) {
			t.Errorf("it does not say %q: %+v", text, found[0])
		}
	}
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name                     string
		group, version, resource string
		operation                registration.OperationType
		scope                    registration.ScopeType
		want                     string
		says                     []string
	}{
		{"pods", "", "v1", "pods", registration.Create, registration.NamespacedScope, "", nil},
		{"all operations", "", "v1", "pods", registration.OperationAll, registration.AllScopes, "", nil},
		{"everything", "*", "*", "*/*", registration.OperationAll, registration.AllScopes, "", nil},
		{"any version", "apps", "*", "deployments", registration.Update, registration.NamespacedScope, "", nil},
		{"any group", "*", "*", "deployments/scale", registration.Update, registration.AllScopes, "", nil},
		{"status of pods", "", "v1", "pods/status", registration.Update, registration.NamespacedScope, "", nil},
		{"every subresource", "", "v1", "pods/*", registration.Connect, registration.NamespacedScope, "", nil},
		{"exec", "", "v1", "pods/exec", registration.Connect, registration.NamespacedScope, "", nil},
		{"a custom resource", "example.com", "v1", "things", registration.Create, registration.AllScopes, "", nil},
		{"a custom resource named as one of Kubernetes", "example.com", "v1", "services", registration.Create, registration.AllScopes, "", nil},
		{"singular", "", "v1", "pod", registration.Create, registration.NamespacedScope, "rule-unknown-resource", []string{"did you mean pods", "kubectl edit"}},
		{"upper case", "", "v1", "Pods", registration.Create, registration.NamespacedScope, "rule-unknown-resource", []string{"did you mean pods"}},
		{"status without one", "", "v1", "secrets/status", registration.Update, registration.NamespacedScope, "rule-unknown-resource", []string{"no subresource status"}},
		{"wrong group", "", "v1", "deployments", registration.Create, registration.NamespacedScope, "rule-wrong-group", []string{"the group apps", "kubectl edit"}},
		{"old group", "extensions", "v1beta1", "ingresses", registration.Create, registration.NamespacedScope, "rule-wrong-group", []string{"networking.k8s.io"}},
		{"old version", "apps", "v1beta2", "deployments", registration.Create, registration.NamespacedScope, "rule-wrong-version", []string{"served as v1"}},
		{"nodes in namespaces", "", "v1", "nodes", registration.Create, registration.NamespacedScope, "rule-wrong-scope", []string{"cluster-scoped"}},
		{"pods in none", "", "v1", "pods", registration.Create, registration.ClusterScope, "rule-wrong-scope", []string{"are namespaced"}},
		{"CREATE of a status", "", "v1", "nodes/status", registration.Create, registration.ClusterScope, "rule-never-sent", []string{"only UPDATE"}},
		{"UPDATE of a binding", "", "v1", "pods/binding", registration.Update, registration.NamespacedScope, "rule-never-sent", []string{"only CREATE"}},
		{"CONNECT to pods", "", "v1", "pods", registration.Connect, registration.NamespacedScope, "rule-never-sent", []string{"pods/exec, pods/attach", "kubectl edit"}},
		{"logs", "", "v1", "pods/log", registration.Connect, registration.NamespacedScope, "rule-never-sent", []string{"no operation on it that webhooks see"}},
		{"webhook configurations", registration.GroupName, "v1", "validatingwebhookconfigurations", registration.Create, registration.AllScopes, "rule-never-sent", []string{"are sent to no webhook"}},
		{"UPDATE of a review", "authorization.k8s.io", "v1", "subjectaccessreviews", registration.Update, registration.AllScopes, "rule-never-sent", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := hook(func(w *entry) { w.Rules = rulesFor(c.group, c.version, c.resource, c.operation, c.scope) })
			found := ruleProblems(w, resources.BuiltIn())
			expectOne(t, found, c.want, c.says...)
			if len(found) > 0 && found[0].Severity != report.Error {
				t.Errorf("%s: the only rule never matches", found[0].Severity)
			}
		})
	}
	t.Run("one of two", func(t *testing.T) {
		w := hook(func(w *entry) {
			w.Rules = append(w.Rules, rulesFor("", "v1", "pod", registration.Create, registration.NamespacedScope)...)
		})
		if found := ruleProblems(w, resources.BuiltIn()); len(found) != 1 || found[0].Severity != report.Warning || !strings.Contains(found[0].Message, "rules[1]") {
			t.Errorf("%+v", found)
		}
	})
	t.Run("beside resources that are right", func(t *testing.T) {
		for _, c := range []struct {
			groups, resources []string
			want              string
		}{
			{[]string{""}, []string{"nodes", "clusterroles", "deployments"}, "it is in the group rbac"},
			{[]string{"rbac.authorization.k8s.io"}, []string{"nodes", "clusterroles"}, "it is in the core group"},
		} {
			w := hook(func(w *entry) {
				w.Rules = rulesFor("", "v1", "", registration.Create, registration.AllScopes)
				w.Rules[0].APIGroups, w.Rules[0].Resources = c.groups, c.resources
			})
			found := ruleProblems(w, resources.BuiltIn())
			expectOne(t, found, "rule-wrong-group", c.want)
		}
	})
	t.Run("not installed", func(t *testing.T) {
		all := resources.BuiltIn()
		all.Whole = true
		w := hook(func(w *entry) {
			w.Rules = rulesFor("example.com", "v1", "things", registration.Create, registration.AllScopes)
		})
		expectOne(t, ruleProblems(w, all), "rule-not-installed")
		w.Rules = rulesFor("serving.knative.dev", "v1", "services", registration.Create, registration.AllScopes)
		expectOne(t, ruleProblems(w, all), "rule-not-installed", "kubectl api-resources")
		w.Rules = rulesFor("networking.k8s.oi", "v1", "ingresses", registration.Create, registration.AllScopes)
		expectOne(t, ruleProblems(w, all), "rule-wrong-group", "it is in the group networking.k8s.io")
	})
}

func TestExact(t *testing.T) {
	rule := rulesFor("autoscaling", "v2", "horizontalpodautoscalers", registration.Create, registration.NamespacedScope)
	exact, equivalent := hook(func(w *entry) { w.Rules, w.MatchPolicy = rule, new(registration.Exact) }), hook(func(w *entry) { w.Rules = rule })
	expectOne(t, exactProblem(exact, resources.BuiltIn()), "match-policy-exact", "horizontalpodautoscalers in v1")
	expectOne(t, exactProblem(equivalent, resources.BuiltIn()), "")
	expectOne(t, exactProblem(hook(func(w *entry) { w.MatchPolicy = new(registration.Exact) }), resources.BuiltIn()), "")
}

func TestLockOut(t *testing.T) {
	matcher := &webhookmatch.Matcher{}
	without := func(names ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: names}}}
	}
	pods := rulesFor("", "v1", "pods", registration.Create, registration.NamespacedScope)
	for _, c := range []struct {
		name   string
		change func(*entry)
		want   string
		says   []string
	}{
		{"ConfigMaps", nil, "", nil},
		{"pods but there", func(w *entry) { w.Rules, w.NamespaceSelector = pods, without("ns", "kube-system") }, "", nil},
		{"own namespace", func(w *entry) { w.Rules, w.NamespaceSelector = pods, without("kube-system") }, "fail-own-namespace", []string{"matchConditions"}},
		{"own namespace, Ignore", func(w *entry) {
			w.Rules, w.NamespaceSelector, w.FailurePolicy = pods, without("kube-system"), new(registration.Ignore)
		}, "", nil},
		{"own namespace, other pods", func(w *entry) {
			w.Rules, w.NamespaceSelector = pods, without("kube-system")
			w.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"svc"}}}}
		}, "", nil},
		{"own namespace, by a condition", func(w *entry) {
			w.Rules, w.NamespaceSelector = pods, without("kube-system")
			w.MatchConditions = []registration.MatchCondition{{Name: "elsewhere", Expression: "request.namespace != 'ns'"}}
		}, "", nil},
		{"kube-system", func(w *entry) { w.Rules, w.NamespaceSelector = pods, without("ns") }, "fail-kube-system", nil},
		{"leases", func(w *entry) {
			w.Rules = rulesFor("coordination.k8s.io", "v1", "leases", registration.Update, registration.AllScopes)
		}, "fail-leases fail-own-namespace", []string{"leases of nodes", "; for the leases in kube-system", `request.namespace == \"kube-node-lease\"`}},
		{"leases of kube-system", func(w *entry) {
			w.Rules, w.NamespaceSelector = rulesFor("coordination.k8s.io", "*", "leases", registration.Update, registration.AllScopes), without("kube-node-lease")
		}, "fail-leases fail-own-namespace", []string{"elect a leader"}},
		{"nodes/status", func(w *entry) {
			w.Rules = rulesFor("", "v1", "nodes/status", registration.Update, registration.AllScopes)
		}, "fail-nodes", []string{"kubectl get validatingwebhookconfiguration c"}},
		{"status of people", func(w *entry) {
			w.Rules = rulesFor("", "v1", "nodes/status", registration.Update, registration.AllScopes)
			w.MatchConditions = []registration.MatchCondition{{Name: "people", Expression: "!('system:nodes' in request.userInfo.groups)"}}
		}, "", nil},
		{"new nodes", func(w *entry) {
			w.Rules = rulesFor("", "v1", "nodes", registration.Create, registration.ClusterScope)
		}, "fail-nodes", []string{"join", "kubectl get validatingwebhookconfiguration c"}},
		{"token reviews", func(w *entry) {
			w.Rules = rulesFor("authentication.k8s.io", "v1", "tokenreviews", registration.Create, registration.AllScopes)
		}, "fail-token-reviews", nil},
		{"events", func(w *entry) {
			w.Rules = rulesFor("", "v1", "events", registration.Create, registration.AllScopes)
		}, "fail-events", nil},
		{"meant for kube-system", func(w *entry) {
			w.Rules, w.NamespaceSelector = pods, &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "kube-system"}}
		}, "fail-kube-system", []string{"kubectl get validatingwebhookconfiguration c"}},
		{"bindings in kube-system", func(w *entry) {
			w.Rules, w.NamespaceSelector = rulesFor("", "v1", "pods/binding", registration.Create, registration.NamespacedScope), without("ns")
		}, "fail-control-plane", []string{"the scheduler", `request.subResource == \"binding\"`}},
		{"certificate requests", func(w *entry) {
			w.Rules = rulesFor("certificates.k8s.io", "v1", "certificatesigningrequests", registration.Create, registration.AllScopes)
		}, "fail-control-plane", []string{"renew", "kubectl get validatingwebhookconfiguration c"}},
		{"namespaces", func(w *entry) {
			w.Rules = rulesFor("", "v1", "namespaces", registration.Create, registration.AllScopes)
		}, "fail-control-plane", []string{"repair"}},
		{"tokens in its namespace", func(w *entry) {
			w.Rules, w.NamespaceSelector = rulesFor("", "v1", "serviceaccounts/token", registration.Create, registration.AllScopes), without("kube-system")
		}, "fail-own-namespace", []string{"tokens"}},
		{"its own ReplicaSets", func(w *entry) {
			w.Rules, w.NamespaceSelector = rulesFor("apps", "v1", "replicasets", registration.Create, registration.AllScopes), without("kube-system")
		}, "fail-own-namespace", []string{"rolled out"}},
		{"its own Secrets", func(w *entry) {
			w.Rules = rulesFor("", "v1", "secrets", registration.Update, registration.AllScopes)
		}, "fail-own-namespace", []string{"certificate"}},
		{"everything", func(w *entry) {
			w.Rules = rulesFor("*", "*", "*/*", registration.OperationAll, registration.AllScopes)
		}, strings.Join([]string{"fail-token-reviews", "fail-nodes", "fail-leases", "fail-events", "fail-control-plane", "fail-kube-system", "fail-own-namespace", "rule-everything"}, " "), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := hook(c.change)
			expectOne(t, conditionProblems(w, matcher), "")
			expectOne(t, lockOutProblems(w, []connectivity.Labels{{Pods: map[string]string{"app": "svc"}}}, &snapshot{}), c.want, c.says...)
		})
	}
	t.Run("token reviews of Kubernetes 1.37", func(t *testing.T) {
		w := hook(func(w *entry) {
			w.Rules = rulesFor("authentication.k8s.io", "v1", "tokenreviews", registration.Create, registration.AllScopes)
		})
		expectOne(t, lockOutProblems(w, nil, &snapshot{minor: virtualEnd}), "")
	})
	t.Run("invalid condition", func(t *testing.T) {
		w := hook(func(w *entry) {
			w.MatchConditions = []registration.MatchCondition{{Name: "typo", Expression: "object.metadata.name = 'a'"}}
		})
		expectOne(t, conditionProblems(w, matcher), "match-condition-invalid", "matchConditions[0]")
	})
}

// TestNamedNeeds: what a cluster lives on, written down here beside the table that TestNeeds follows, is found where it is needed.
func TestNamedNeeds(t *testing.T) {
	around := &snapshot{}
	for _, c := range []struct {
		group, resource string
		operation       registration.OperationType
		namespace, want string // in which namespace alone the webhook is called; "": in no namespace
	}{
		{"", "pods/binding", registration.Create, "kube-system", "fail-control-plane"},
		{"", "pods/status", registration.Update, "kube-system", "fail-control-plane"},
		{"", "serviceaccounts/token", registration.Create, "kube-system", "fail-control-plane"},
		{"discovery.k8s.io", "endpointslices", registration.Update, "kube-system", "fail-control-plane"},
		{"apps", "deployments", registration.Update, "kube-system", "fail-control-plane"},
		{"", "namespaces", registration.Create, "", "fail-control-plane"},
		{"", "namespaces", registration.Update, "", "fail-control-plane"},
		{"certificates.k8s.io", "certificatesigningrequests", registration.Create, "", "fail-control-plane"},
		{"certificates.k8s.io", "certificatesigningrequests/approval", registration.Update, "", "fail-control-plane"},
		{"apps", "deployments", registration.Update, "ns", "fail-own-namespace"},
		{"apps", "replicasets", registration.Create, "ns", "fail-own-namespace"},
		{"", "secrets", registration.Update, "ns", "fail-own-namespace"},
		{"", "pods/binding", registration.Create, "ns", "fail-own-namespace"},
		{"", "serviceaccounts/token", registration.Create, "ns", "fail-own-namespace"},
	} {
		w := hook(func(w *entry) {
			w.Rules = rulesFor(c.group, "v1", c.resource, c.operation, registration.AllScopes)
			if c.namespace != "" {
				w.NamespaceSelector = labelled(corev1.LabelMetadataName, c.namespace)
			}
		})
		found := lockOutProblems(w, nil, around)
		if len(found) != 1 || found[0].ID != c.want || found[0].Severity != report.Error {
			t.Errorf("%s of %s in %q: %+v", c.operation, c.resource, c.namespace, found)
		}
	}
}

// TestNeeds: a webhook for any one of the requests that a cluster lives on is found, with the reason, and its command ends the
// finding, whatever else the webhook is for.
func TestNeeds(t *testing.T) {
	around := &snapshot{}
	of := func(found []report.Finding, id string) *report.Finding {
		if i := slices.IndexFunc(found, func(f report.Finding) bool { return f.ID == id }); i >= 0 {
			return &found[i]
		}
		return nil
	}
	everything := rulesFor("*", "*", "*/*", registration.OperationAll, registration.AllScopes)
	for _, n := range slices.Concat(needs, ownNeeds) {
		t.Run(n.id+" "+n.resource+" "+n.namespace, func(t *testing.T) {
			w := hook(func(w *entry) {
				w.Rules = rulesFor(n.group, "v1", n.resource, registration.OperationType(strings.Fields(n.operations)[0]), registration.AllScopes)
			})
			what, _, reasoned := strings.Cut(n.why, ":")
			if found := of(lockOutProblems(w, nil, around), n.id); !reasoned || found == nil || !strings.Contains(found.Message, n.why) {
				t.Fatalf("%s: %+v", what, found)
			}
			for _, rules := range [][]registration.RuleWithOperations{w.Rules, everything} {
				w.Rules = rules
				found := of(lockOutProblems(w, nil, around), n.id)
				if !strings.Contains(found.Message, what) {
					t.Errorf("it is not named: %s", found.Message)
				}
				if found.Fix == "" {
					continue
				}
				patched := patched(t, w, found.Fix)
				if left := of(lockOutProblems(patched, nil, around), n.id); left != nil || !patched.fails() {
					t.Errorf("after %s: %+v", found.Fix, left)
				}
			}
		})
	}
}

// patched returns the webhook as a printed patch leaves it.
func patched(t *testing.T, w entry, command string) entry {
	t.Helper()
	_, quoted, _ := strings.Cut(command, "-p ")
	change, err := jsonpatch.DecodePatch([]byte(strings.Trim(quoted, "'")))
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	before, _ := json.Marshal(map[string]any{"webhooks": []webhooks.Hook{w.Hook}})
	after, err := change.Apply(before)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	all, err := readWebhooks(w.kind, after)
	if err != nil {
		t.Fatal(err)
	}
	w.Hook = all[0].Hook
	return w
}

// TestNeverTrue: a condition that is false for every request switches a webhook off. The fix leaves the others.
func TestNeverTrue(t *testing.T) {
	off := func(w *entry) {
		w.MatchConditions = []registration.MatchCondition{{Name: "kept", Expression: "object != null"}, {Name: "off", Expression: "object.x == 1 && !true"}}
	}
	for want, w := range map[report.Severity]entry{report.Error: ushers(off), report.Warning: hook(off)} {
		found := conditionProblems(w, &webhookmatch.Matcher{})
		expectOne(t, found, "match-condition-never", "matchConditions[1] (off), object.x == 1 && !true, is false for every request")
		if found[0].Severity != want || w.ushers() != (found[0].Fix != "") {
			t.Errorf("%+v", found)
		}
	}
}

// TestConditionsThatFail: a match condition that refuses requests since it has no result is found; of usher, a command removes it.
func TestConditionsThatFail(t *testing.T) {
	with := func(policy registration.FailurePolicyType, expression string) func(w *entry) {
		return func(w *entry) {
			w.FailurePolicy, w.MatchConditions = &policy, []registration.MatchCondition{{Name: "a", Expression: expression}}
			w.Rules = rulesFor("", "v1", "pods", registration.Create, registration.NamespacedScope)
		}
	}
	const nope, annotation = "object.spec.nope == 'x'", "object.metadata.annotations['x'] == 'y'"
	for _, c := range []struct {
		name     string
		w        entry
		severity report.Severity
		says     string
		command  string
	}{
		{"a field that no Pod has", hook(with(registration.Fail, nope)), report.Error, "a CREATE of pods with any object: no Pod has the field spec.nope", "kubectl edit"},
		{"annotations that a pod may lack", hook(with(registration.Fail, annotation)), report.Warning, "no more than it must have: no such key: annotations", "kubectl edit"},
		{"of usher", ushers(with(registration.Fail, nope)), report.Error, "spec.nope", "--service"},
		{"and Ignore", hook(with(registration.Ignore, nope)), report.Warning, "is not called for it", "kubectl edit"},
		{"annotations, and Ignore", hook(with(registration.Ignore, annotation)), "", "", ""},
		{"a field that is asked for", hook(with(registration.Fail, "has(object.spec.nope) || object.metadata.?labels['a'].orValue('') == ''")), "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := conditionProblems(c.w, &webhookmatch.Matcher{})
			if c.severity == "" {
				expectOne(t, found, "")
				return
			}
			expectOne(t, found, "match-condition-fails", c.says)
			if f := found[0]; f.Severity != c.severity || !strings.Contains(f.Fix+f.Look, c.command) {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestFixesGoTogether: the fixes of two findings about one webhook set the same conditions, so that none undoes another.
func TestFixesGoTogether(t *testing.T) {
	w := hook(func(w *entry) {
		w.Rules = rulesFor("", "v1", "pods", registration.Create, registration.NamespacedScope)
	})
	found := lockOutProblems(w, nil, &snapshot{minor: virtualEnd})
	if len(found) != 2 || found[0].Fix != found[1].Fix || len(lockOutProblems(patched(t, w, found[0].Fix), nil, &snapshot{minor: virtualEnd})) > 0 {
		t.Errorf("%+v", found)
	}
}

// TestFixesAreWords: a name in a file cannot be a command of the shell that a fix is pasted into.
func TestFixesAreWords(t *testing.T) {
	const name = "x; touch 'y'"
	w := hook(func(w *entry) { w.configuration.Name = name })
	service := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "$(id)", Name: name}}
	about := subject{entry: w, Subject: connectivity.Subject{Target: connectivity.Target{Service: types.NamespacedName{Namespace: "$(id)", Name: name}}, Service: service}}
	for _, fix := range []string{w.remove(), w.show(), w.patch(change{"timeoutSeconds", 3}), w.drop(), listPods(about).text, showCalled(about).text} {
		if !strings.Contains(fix, `'x; touch '\''y'\'''`) {
			t.Errorf("the name is not one word: %s", fix)
		}
		if strings.Contains(fix, "-n $(id)") {
			t.Errorf("the namespace is not one word: %s", fix)
		}
	}
}

// TestServiceFixes: what is wrong with a Service is corrected in the registration, or shown.
func TestServiceFixes(t *testing.T) {
	about := hook(nil).about()
	about.Target = connectivity.TargetOf(about.ClientConfig)
	about.Service = corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc"}}
	about.Service.Spec.Selector = map[string]string{"app": "a", "b": "c"}
	if fix := listPods(about); !fix.looks || fix.text != "kubectl -n ns get pods -l app=a,b=c" {
		t.Error(fix)
	}
	if fix := setPort(about); !fix.looks || fix.text != "kubectl -n ns get service svc -o yaml" {
		t.Error(fix)
	}
	about.Port = 8443
	if fix := setPort(about); fix.looks || !strings.Contains(fix.text, `"path":"/webhooks/0/clientConfig/service/port","value":8443`) {
		t.Error(fix)
	}
}

// TestUnreadableConfiguration: a configuration that cannot be decoded is named, and those beside it are looked at.
func TestUnreadableConfiguration(t *testing.T) {
	dir := t.TempDir()
	const one = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: %s}\n" +
		"webhooks: [{name: a.example.com, clientConfig: {url: 'https://a', caBundle: %q}}]\n---\n"
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), fmt.Appendf(nil, one+one, "broken", "%", "fine", "YQ=="), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := reader.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	all := readKind(t.Context(), source, configurationKinds()[1], func(err error, _ string) { said += err.Error() })
	if len(all) != 1 || all[0].configuration.Name != "fine" || !strings.Contains(said, validatingKind+" broken: ") {
		t.Errorf("%d webhooks; %s", len(all), said)
	}
}

// labelled returns a selector for a label.
func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func TestSelectors(t *testing.T) {
	labels := labelled
	namespaces := []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}, {ObjectMeta: metav1.ObjectMeta{Name: "apps", Labels: map[string]string{"a": "b"}}}}
	for _, c := range []struct {
		name       string
		change     func(*entry)
		namespaces []corev1.Namespace
		want       string
		says       []string
	}{
		{"none", nil, namespaces, "", nil},
		{"matches", func(w *entry) { w.NamespaceSelector = labels("a", "b") }, namespaces, "", nil},
		{"unknown namespaces", func(w *entry) { w.NamespaceSelector = labels("a", "c") }, nil, "", nil},
		{"no namespace", func(w *entry) { w.NamespaceSelector = labels("a", "c") }, namespaces, "selector-no-namespace", []string{"2 namespaces", "kubectl get namespaces --show-labels"}},
		{"a label that cannot be set", func(w *entry) { w.NamespaceSelector = labels(corev1.LabelMetadataName, "c") }, namespaces, "selector-no-namespace", []string{"--show-labels"}},
		{"nodes", func(w *entry) {
			w.NamespaceSelector, w.Rules = labels("a", "b"), rulesFor("", "v1", "nodes", registration.Update, registration.AllScopes)
		}, namespaces, "selector-no-effect", nil},
		{"pods as cluster-scoped objects, which are none", func(w *entry) {
			w.NamespaceSelector, w.Rules = labels("a", "b"), rulesFor("", "v1", "pods", registration.Update, registration.ClusterScope)
		}, namespaces, "", nil},
		{"namespaces", func(w *entry) {
			w.NamespaceSelector, w.Rules = labels("a", "b"), rulesFor("", "v1", "namespaces", registration.Update, registration.ClusterScope)
		}, namespaces, "", nil},
		{"binding by labels", func(w *entry) {
			w.ObjectSelector, w.Rules = labels("a", "b"), rulesFor("", "v1", "pods/binding", registration.Create, registration.AllScopes)
		}, namespaces, "object-selector-never", nil},
		{"never", func(w *entry) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		}, namespaces, "object-selector-never", []string{"exclude each other"}},
		{"pods by labels", func(w *entry) {
			w.ObjectSelector, w.Rules = labels("a", "b"), rulesFor("", "v1", "pods", registration.Create, registration.AllScopes)
		}, namespaces, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := hook(c.change)
			expectOne(t, slices.Concat(namespaceProblems(w, c.namespaces, resources.BuiltIn()), objectSelectorProblems(w)), c.want, c.says...)
		})
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*entry)
		want     string
		severity report.Severity
	}{
		{"good", nil, "", ""},
		{"v1beta1", func(w *entry) { w.AdmissionReviewVersions = []string{"v1beta1"} }, "review-version-v1", report.Warning},
		{"v2", func(w *entry) { w.AdmissionReviewVersions = []string{"v2"} }, "review-version-v1", report.Error},
		{"both", func(w *entry) { w.AdmissionReviewVersions = []string{"v1beta1", "v1"} }, "", ""},
		{"side effects", func(w *entry) { w.SideEffects = new(registration.SideEffectClassUnknown) }, "side-effects", report.Warning},
		{"default timeout", func(w *entry) { w.TimeoutSeconds = nil }, "timeout-long", report.Info},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := slices.Concat(settingsProblems(hook(c.change)), timeoutProblems(hook(c.change)))
			expectOne(t, found, c.want)
			if len(found) > 0 && found[0].Severity != c.severity {
				t.Error(found[0].Severity)
			}
		})
	}
}

func TestWayOfAPod(t *testing.T) {
	of := func(kind string, seconds int32, selector *metav1.LabelSelector) entry {
		return hook(func(w *entry) {
			w.kind, w.TimeoutSeconds, w.NamespaceSelector = kind, &seconds, selector
			w.Rules = rulesFor("", "v1", "pods", registration.Create, registration.NamespacedScope)
		})
	}
	only := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}
	}
	ofPods := func(operator metav1.LabelSelectorOperator) entry {
		w := of(mutatingKind, 11, nil)
		w.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "inject", Operator: operator, Values: []string{"true"}}}}
		return w
	}
	never := of(mutatingKind, 11, nil)
	never.MatchConditions = []registration.MatchCondition{{Name: "off", Expression: "false"}}
	namespaces := []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	for i := range namespaces {
		withName(&namespaces[i])
	}
	for _, c := range []struct {
		name string
		all  []entry
		want string
		says []string
	}{
		{"validating at once", []entry{of(validatingKind, 15, nil), of(validatingKind, 15, nil)}, "", nil},
		{"mutating one after the other", []entry{of(mutatingKind, 11, nil), of(mutatingKind, 10, nil)}, "pod-timeouts", []string{"21 s", "kubectl edit"}},
		{"both", []entry{of(mutatingKind, 10, nil), of(validatingKind, 11, nil), of(validatingKind, 3, nil)}, "pod-timeouts", []string{"21 s"}},
		{"in different namespaces", []entry{of(mutatingKind, 11, only("a")), of(mutatingKind, 10, only("b"))}, "", nil},
		{"in one of them", []entry{of(mutatingKind, 11, only("b")), of(mutatingKind, 10, only("b"))}, "pod-timeouts", []string{"in namespace b"}},
		{"for different pods", []entry{ofPods("NotIn"), ofPods("In")}, "", nil},
		{"for the same pods", []entry{ofPods("In"), ofPods("In")}, "pod-timeouts", []string{"22 s"}},
		{"never called", []entry{of(mutatingKind, 11, nil), never}, "", nil},
		{"about something else", []entry{of(mutatingKind, 11, nil), hook(func(w *entry) { w.kind, w.TimeoutSeconds = mutatingKind, new(int32(30)) })}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) { expectOne(t, podProblems(c.all, namespaces), c.want, c.says...) })
	}
}

func TestAmplifiers(t *testing.T) {
	status := rulesFor("", "v1", "nodes/status", registration.Update, registration.AllScopes)
	foreign := hook(func(w *entry) { w.kind, w.Rules = mutatingKind, status })
	own := hook(func(w *entry) {
		w.kind, w.Rules, w.configuration.Name, w.Name = mutatingKind, status, "usher", "mutate-nodes.usher.dev"
	})
	theirs := hook(func(w *entry) {
		w.kind, w.Rules, w.configuration.Name = mutatingKind, status, "koordinator-mutating-webhook-configuration"
	})
	checks := hook(func(w *entry) { w.Rules = status })
	expectOne(t, amplifierProblems([]entry{own, checks, hook(nil)}), "")
	expectOne(t, amplifierProblems([]entry{own, foreign}), "two-amplifiers", "w.example.com", "kubectl edit")
	expectOne(t, amplifierProblems([]entry{own, theirs}), "two-amplifiers", "kubectl edit mutatingwebhookconfiguration koordinator-")
	expectOne(t, koordinatorProblems([]entry{own, theirs}), "koordinator-beside-usher", "nodes/status")
	expectOne(t, koordinatorProblems([]entry{own, foreign}), "")
}

// TestNeverCalled: nothing is refused because of a webhook that no request is sent to.
func TestNeverCalled(t *testing.T) {
	for name, more := range map[string]string{
		"rules":      `rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Cluster}]`,
		"conditions": `rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}], matchConditions: [{name: off, expression: "false"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			const other, hooks = "{apiVersion: v1, kind: Service, metadata: {name: other, namespace: ns}}\n---\n", "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, " +
				"metadata: {name: c}, webhooks: [{name: gone.example.com, clientConfig: {service: {namespace: ns, name: gone}}, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 3, %s}]}"
			if err := os.WriteFile(dir+"/c.yaml", fmt.Appendf(nil, other+hooks, more), 0o600); err != nil {
				t.Fatal(err)
			}
			source, err := reader.Files(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range Examine(t.Context(), source, nil, Usher{})[0].Findings {
				if f.ID == "service-missing" && (f.Severity != report.Warning || !strings.Contains(f.Message, "Nothing is refused for that")) || strings.Contains(f.Message, "are refused") {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// TestRootCauseFirst: what cannot be looked at because of another fault is no finding, and the worst is first.
func TestRootCauseFirst(t *testing.T) {
	dir := t.TempDir()
	const manifest = `
apiVersion: v1
kind: Service
metadata: {name: other, namespace: ns}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: c}
webhooks:
- {name: slow.example.com, clientConfig: {url: "https://example.com/a"}, sideEffects: None, admissionReviewVersions: [v1],
   rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
- {name: gone.example.com, clientConfig: {service: {namespace: ns, name: gone}}, sideEffects: None, admissionReviewVersions: [v1beta1], timeoutSeconds: 3,
   rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
`
	if err := os.WriteFile(dir+"/c.yaml", []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := reader.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	reports := Examine(t.Context(), source, nil, Usher{})
	if len(reports) != 3 {
		t.Fatalf("%d reports", len(reports))
	}
	var ids []string
	for _, r := range reports {
		for _, f := range r.Findings {
			ids = append(ids, string(f.Severity)+" "+f.ID)
		}
	}
	if got, want := strings.Join(ids, ", "), "error service-missing, warning review-version-v1, info timeout-long"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := Summary(reports), "2 webhooks in 1 configuration: 1 error, 1 warning, 1 remark"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Summary(append(reports, reports[:2]...)), "3 webhooks in 1 configuration: 1 error, 1 warning, 1 remark"; got != want {
		t.Errorf("what is printed once: %q, want %q", got, want)
	}
	if report.ExitOf(reports) != report.Refused || reports[0].Verdict != "failed" || reports[1].Verdict != "passed" {
		t.Errorf("%d %+v", report.ExitOf(reports), reports)
	}
}
