package collections

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/test/clustertest"
)

func TestSampleCluster(t *testing.T) {
	s, c := samples(t, names()...)
	if p := c.Problems(); len(p) != 0 {
		t.Error(p)
	}
	for _, status := range c.Status() {
		want := map[string]int{"namespaces": 3, "priorityclasses": 4, "clustercolocationprofiles": 4, "reservations": 3, "pods": 2, "enhancedrules": 1}[status.Name]
		if status.Objects < want || !status.Synced || status.LastEvent.IsZero() {
			t.Errorf("%v, want at least %d objects", status, want)
		}
	}
	if set, err := s.Profiles(); err != nil || set == nil {
		t.Errorf("Profiles: %v %v", set, err)
	}
	if rules, err := s.LabelRules(); err != nil || len(rules) < 2 || rules[0].Name != "owner" || rules[0].NamespaceWhitelist[0] != "kube-system" {
		t.Errorf("LabelRules: %v %v", rules, err)
	}
	all, err := s.Reservations()
	if err != nil || len(all) != 3 || all[0].Name != "cache-strict" {
		t.Errorf("Reservations: %v %v", all, err)
	}
	for _, r := range all {
		if r.Spec.Template != nil || r.Name == "web-rollout" && len(r.Status.Allocated) != 2 {
			t.Errorf("%+v", r)
		}
	}
}

// TestWatch: what is kept of the objects of an API server.
func TestWatch(t *testing.T) {
	f := clustertest.New(t)
	f.Apply(kind(PriorityClasses), "koord-batch", `{"value":5000,"preemptionPolicy":"Never","globalDefault":true,"description":"d"}`)
	f.Apply(kind(&ColocationProfiles.Collection), "base", `{"metadata":{"uid":"u","finalizers":["f"]},"spec":{"qosClass":"BE","patch":{"spec":{"x":1}}}}`)
	f.Apply(kind(Reservations), "r", `{"metadata":{"uid":"u"},"spec":{"template":"nobody looks at it",
		"owners":[{"labelSelector":{"matchLabels":{"a":"b"}}}]},"status":{"phase":"Available","nodeName":"n1","allocatable":{"cpu":"4"}}}`)
	f.Apply(kind(Nodes), "n1", `{"metadata":{"labels":{"zone":"z"}}}`)
	f.Apply(kind(Pods), "shop/p", `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d","kubectl.kubernetes.io/last-applied-configuration":"{}"}},"spec":{"nodeName":"n"}}`)
	s, c := watching(t, f, keeping("priorityclasses", "clustercolocationprofiles", "reservations", "nodes", "pods"))
	clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
	if value, preemption, known, err := s.PriorityClass("koord-batch"); !known || err != nil || value != 5000 || *preemption != "Never" {
		t.Errorf("PriorityClass: %v %v %v", value, known, err)
	}
	if _, preemption, known, err := s.PriorityClass("typo"); preemption != nil || known || err != nil {
		t.Errorf("a class that is not there: %v %v", known, err)
	}
	profile, known, err := ColocationProfiles.Find(c.Now(), "base")
	if !known || err != nil || profile.Name != "base" || profile.Spec.QoSClass != "BE" || !leftBehind(profile) {
		t.Errorf("%+v %v", profile, err)
	}
	all, err := s.Reservations()
	if err != nil || len(all) != 1 || all[0].Spec.Template != nil || len(all[0].Spec.Owners) != 1 || all[0].Status.NodeName != "n1" || !leftBehind(all[0]) {
		t.Errorf("Reservations: %+v %v", all, err)
	}
	labels, annotations, known, err := s.Pod("shop", "p")
	if !slices.Equal(labels, []string{"a"}) || !slices.Equal(annotations, []string{"c"}) || !known || err != nil {
		t.Errorf("Pod: %v %v %v %v", labels, annotations, known, err)
	}
	if labels, known := s.NodeLabels("n1"); labels["zone"] != "z" || !known {
		t.Errorf("NodeLabels: %v %v", labels, known)
	}
	if _, known := s.NodeLabels("n2"); known {
		t.Error("a node that is not there is known")
	}
	if problems := c.Problems(); len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	f.Set(func() {
		if !strings.Contains(f.Accept["pods"], "as=PartialObjectMetadata") || strings.Contains(f.Accept["reservations"], "as=") {
			t.Errorf("Accept: %v", f.Accept)
		}
	})
}

// leftBehind reports whether nothing is kept of an object that no collection reads.
func leftBehind(o metav1.Object) bool {
	return o.GetManagedFields() == nil && o.GetUID() == "" && o.GetFinalizers() == nil
}

func TestLabelRules(t *testing.T) {
	f := clustertest.New(t)
	s, c := watching(t, f, keeping("enhancedrules", "nodes"))
	clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
	steps := []struct {
		name, data string
		want       string // the names of the rules
		problem    string
	}{
		{"not there", ``, "", ""},
		{"on", `{"enable":" TRUE\n","rules":"[{\"name\":\"a\",\"requiredLabels\":[\"l\"],\"namespaceWhitelist\":[\"\",\"n\"]}]"}`, "a(n)", ""},
		{"broken, and off", `{"enable":"false","rules":"[{"}`, "a(n)", "the rules in force stay"},
		{"empty text", `{"enable":"true","rules":""}`, "a(n)", "the rules in force stay"},
		{"a key twice", `{"enable":"true","rules":"[{\"name\":\"a\",\"name\":\"b\",\"requiredLabels\":[\"l\"]}]"}`, "b()", "data[rules][0].name: is there twice, and the last one counts"},
		{"in another case", `{"enable":"true","rules":"[{\"Name\":\"a\",\"requiredlabels\":[\"l\"],\"namespacewhitelist\":[\"n\"]}]"}`, "a(n)",
			"data[rules][0].requiredlabels: is read, but should be written requiredLabels"},
		{"once in another case", `{"enable":"true","rules":"[{\"name\":\"a\",\"requiredLabels\":[\"l\"],\"namespaceWhitelist\":[\"n\"],\"NamespaceWhitelist\":[\"m\"]}]"}`, "a(m)",
			"data[rules][0].NamespaceWhitelist: is there twice, and the last one counts"},
		{"two", `{"enable":"true","rules":"[{\"name\":\"b\",\"requiredLabels\":[\"l\"]},{\"name\":\"b\",\"requiredLabels\":[\"l\"]}]"}`, "b() b()", ""},
		{"off", `{"enable":"no","rules":"[{\"name\":\"b\",\"requiredLabels\":[\"l\"]}]"}`, "", ""},
		{"asks for nothing", `{"enable":"true","rules":"[{\"name\":\"c\"}]"}`, "c()", "rule 1 (c) requires no labels"},
		{"no rules", `{"enable":"true"}`, "", ""},
		{"no enable", `{"rules":"[{\"name\":\"d\",\"requiredLabels\":[\"l\"]}]"}`, "", ""},
		{"on again", `{"enable":"true","rules":"[{\"name\":\"e\",\"requiredLabels\":[\"l\"]}]"}`, "e()", ""},
		{"gone", ``, "", ""},
	}
	for _, step := range steps {
		object := ""
		if step.data != "" {
			object = `{"data":` + step.data + `}`
		}
		f.Apply(kind(&LabelRules.Collection), "koordinator-system/pod-enhanced-validator-config", object)
		clustertest.Eventually(t, fmt.Sprintf("%s: %s, problem %q", step.name, step.want, step.problem), func() bool {
			rules, err := s.LabelRules()
			var got []string
			for _, r := range rules {
				got = append(got, r.Name+"("+strings.Join(r.NamespaceWhitelist, ",")+")")
			}
			problems := fmt.Sprint(c.Problems())
			return err == nil && strings.Join(got, " ") == step.want && strings.Contains(problems, step.problem) && (step.problem != "" || problems == "[]")
		})
	}
}

// TestEveryQuestionIsLimited: no query of the suite answers a step that does not declare what it needs.
func TestEveryQuestionIsLimited(t *testing.T) {
	_, c := samples(t, names()...)
	for _, need := range append(names(), "") {
		s := Questions{c.Reader(slices.DeleteFunc(names(), func(name string) bool { return need == "" || name == need }))}
		answers := map[string]bool{}
		noteError := func(name string, err error) { answers[name] = answers[name] || err == nil }
		noteKnown := func(name string, ask func() bool) { // these panic
			defer func() { answers[name] = answers[name] || recover() == nil }()
			if !ask() {
				t.Errorf("%s: the answer is hidden, not refused", name)
			}
		}
		_, _, _, err := s.PriorityClass("koord-batch")
		noteError("priorityclasses", err)
		_, err = s.Profiles()
		noteError("clustercolocationprofiles", err)
		_, err = s.Reservations()
		noteError("reservations", err)
		_, _, _, err = s.Pod("apps", "p")
		noteError("pods", err)
		_, err = s.AllNodes()
		noteError("nodes", err)
		noteKnown("nodes", func() bool { _, known := s.NodeLabels("worker-a"); return known })
		_, err = s.LabelRules()
		noteError("enhancedrules", err)
		_, err = s.SLOConfig()
		noteError("sloconfig", err)
		noteKnown("sloconfig", func() bool { s.SLORatios(map[string]string{}); return true })
		noteKnown("nodemetrics", func() bool { _, known := s.NodeMetric("node-1"); return known })
		noteKnown("podrequests", func() bool { _, known := s.NodeRequests("node-1"); return known })
		_, err = s.QuotaTree()
		noteError("elasticquotas", err)
		_, err = s.QuotaProfiles()
		noteError("elasticquotaprofiles", err)
		_, _, err = s.NamedNamespace("apps")
		noteError("namespaces", err)
		for name, answered := range answers {
			if want := need != "" && name != need; answered != want {
				t.Errorf("without %q: %s are known: %v", need, name, answered)
			}
		}
		if _, err := s.QuotasWithPods(); (err == nil) != (need != "" && need != "elasticquotas" && need != "podrequests") {
			t.Errorf("without %q: quotas with pods: %v", need, err)
		}
	}
}
