package usage

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/internal/apiserver"
)

// tenants is a tree of two namespaces, as JSON items: org has the least left of memory, and team-a of cpu.
var tenants = map[string][]string{
	"top": {`{"metadata":{"name":"org","namespace":"top","labels":{"quota.scheduling.koordinator.sh/is-parent":"true"}},"spec":{"max":{"cpu":"20","memory":"10Gi"}},
		"status":{"used":{"cpu":"6","memory":"8Gi"},"limit":{"cpu":"20","memory":"10Gi"},"binds":{"cpu":"org","memory":"org"}}}`,
		`{"metadata":{"name":"team-b","namespace":"top","labels":{"quota.scheduling.koordinator.sh/parent":"org"},"annotations":{"quota.scheduling.koordinator.sh/namespaces":"[\"team-b\"]"}},
		"spec":{"max":{"cpu":"4"}}}`},
	"team-a": {`{"metadata":{"name":"team-a","namespace":"team-a","labels":{"quota.scheduling.koordinator.sh/parent":"org"},
		"managedFields":[{"manager":"usher","subresource":"status","time":"2026-11-27T13:00:00Z"}]},"spec":{"max":{"cpu":"8"}},
		"status":{"used":{"cpu":"6","memory":"2Gi"},"reserved":{"cpu":"1"},"limit":{"cpu":"8"},"binds":{"cpu":"team-a","memory":"org"}}}`,
		`{"metadata":{"name":"extra","namespace":"team-a","labels":{"quota.scheduling.koordinator.sh/parent":"org"}},"spec":{"max":{"cpu":"8"}},
		"status":{"used":{"cpu":"6"},"limit":{"cpu":"8"},"binds":{"cpu":"extra","memory":"org"}}}`,
		`{"metadata":{"name":"scheduled","namespace":"team-a"},"spec":{"max":{"cpu":"8"}},"status":{"used":{"cpu":"3"}}}`,
		`{"metadata":{"name":"fresh","namespace":"team-a","labels":{"quota.scheduling.koordinator.sh/parent":"org"}},"spec":{"max":{"cpu":"8"}}}`,
		`{"metadata":{"name":"new","namespace":"team-a"},"spec":{"max":{"cpu":"8"}}}`},
}

// tenantsAnd returns the tenants and one more namespace.
func tenantsAnd(namespace string, items ...string) map[string][]string {
	all := maps.Clone(tenants)
	all[namespace] = items
	return all
}

// seenBy returns the source of a user who may list quotas of the tenants in all namespaces, or in some.
func seenBy(t *testing.T, namespaces ...string) reader.Source {
	t.Helper()
	return seenOf(t, tenants, namespaces...)
}

// seenOf returns the source of a user who may list quotas in all namespaces, or in some.
func seenOf(t *testing.T, quotas map[string][]string, namespaces ...string) reader.Source {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		rest, _ := strings.CutPrefix(r.URL.Path, "/apis/scheduling.sigs.k8s.io/v1alpha1/")
		parts := strings.Split(rest, "/")
		var items []string
		for namespace, list := range quotas {
			if len(namespaces) == 0 && len(parts) == 1 || len(parts) == 3 && parts[1] == namespace && strings.Contains(fmt.Sprint(namespaces), namespace) {
				items = append(items, list...)
			}
		}
		if items == nil {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"kind":"ElasticQuotaList","apiVersion":"v1","items":[%s]}`, strings.Join(items, ","))
	}))
	t.Cleanup(server.Close)
	client, err := apiserver.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return reader.API(client)
}

// pods returns planned pods in a namespace; label names their quota.
func pods(namespace, label, requests string, count int64) PlannedPods {
	list := corev1.ResourceList{}
	for _, pair := range strings.Fields(requests) {
		name, amount, _ := strings.Cut(pair, "=")
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list}}}}}
	if label != "" {
		pod.Labels = map[string]string{api.LabelQuotaName: label}
	}
	return PlannedPods{Of: "Deployment x", Pod: pod, Count: count}
}

func answerTo(t *testing.T, source reader.Source, namespace string, planned ...PlannedPods) Usage {
	t.Helper()
	return answerWith(t, "", source, namespace, planned...)
}

func answerWith(t *testing.T, set string, source reader.Source, namespace string, planned ...PlannedPods) Usage {
	t.Helper()
	gates, err := gate.Parse(set, api.Gates(), nil)
	if err != nil {
		t.Fatal(err)
	}
	u, err := Of(t.Context(), Question{Source: source, Namespace: namespace, Gates: gates, Pods: planned})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// said returns the rows of a quota, such as "cpu 6 1 8 1 team-a (spec.max)".
func said(u Usage, name string) (rows []string) {
	or := func(s *string) string {
		if s == nil {
			return "?"
		}
		return *s
	}
	for _, q := range u.Quotas {
		for _, r := range q.Resources {
			if q.Name == name {
				most := ""
				if r.LeftMost {
					most = "<="
				}
				rows = append(rows, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s%s %s", r.Name, or(r.Used), or(r.Reserved), or(r.Limit), most, or(r.Left), r.By)))
			}
		}
	}
	return rows
}

// TestUsage: an administrator sees what is left on the whole path; a tenant what is left in his own quota, and whose limit it is
// that he may not see. What nobody has written is not known, never zero.
func TestUsage(t *testing.T) {
	all, own := seenBy(t), seenBy(t, "team-a")
	for _, c := range []struct {
		source reader.Source
		quota  string
		want   []string
	}{
		{all, "team-a", []string{"cpu 6 1 8 1 team-a (spec.max)", "memory 2Gi 0 ? 2Gi org (spec.max)"}},
		{own, "team-a", []string{"cpu 6 1 8 1 team-a (spec.max)", "memory 2Gi 0 ? ? org, which this user may not read"}},
		{own, "scheduled", []string{"cpu 3 ? 8 ? scheduled, whose use is not known"}},
		{own, "new", []string{"cpu ? ? 8 ? new, whose use is not known"}},
	} {
		if got := said(answerTo(t, c.source, "team-a"), c.quota); strings.Join(got, "; ") != strings.Join(c.want, "; ") {
			t.Errorf("%s: %q, want %q", c.quota, got, c.want)
		}
	}
	u := answerTo(t, own, "team-a")
	if u.Quotas[0].Name != "team-a" || u.Quotas[0].AsOf == nil || u.Quotas[1].AsOf != nil || u.Quotas[0].Parent != "org" {
		t.Errorf("%+v", u.Quotas)
	}
	if b := answerTo(t, all, "team-b"); len(b.Quotas) != 1 || b.Quotas[0].Name != "team-b" || !strings.Contains(b.Notes[0], "via namespace annotation") {
		t.Errorf("%+v", b)
	}
	if b := answerTo(t, all, "elsewhere"); len(b.Quotas) != 0 || len(b.Unknown) != 0 || !strings.Contains(b.Notes[0], "are not limited") {
		t.Errorf("%+v", b)
	}
}

// TestUsageInCycle: each quota of a cycle is shown as itself.
func TestUsageInCycle(t *testing.T) {
	one := func(name, parent, cpu string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"round","labels":{"quota.scheduling.koordinator.sh/parent":%q}},"spec":{"max":{"cpu":%q}}}`, name, parent, cpu)
	}
	all := tenantsAnd("round", one("a", "b", "1"), one("b", "c", "2"), one("c", "a", "3"))
	u := answerTo(t, seenOf(t, all, "round"), "round", pods("", "c", "cpu=1", 1))
	for i, want := range []string{"a 1", "b 2", "c 3"} {
		if got := u.Quotas[i].Name + " " + *u.Quotas[i].Resources[0].Limit; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestUsageOfDouble: of two quotas of one name, the younger one is named, too.
func TestUsageOfDouble(t *testing.T) {
	all := tenantsAnd("young", `{"metadata":{"name":"team-a","namespace":"young","creationTimestamp":"2026-11-27T13:00:00Z"},"spec":{"max":{"cpu":"1"}}}`)
	u := answerTo(t, seenOf(t, all), "young")
	if len(u.Quotas) != 0 || !strings.Contains(fmt.Sprint(u.Notes), "quota team-a of namespace young does not count: team-a/team-a has the name") {
		t.Errorf("%+v", u)
	}
}

// TestUsageOfReserved: the quotas that limit nothing, which usher does not write, are not unknown.
func TestUsageOfReserved(t *testing.T) {
	all := tenantsAnd("system", `{"metadata":{"name":"koordinator-default-quota","namespace":"system"},"spec":{"max":{"cpu":"1"}}}`)
	u := answerTo(t, seenOf(t, all), "system")
	if len(u.Quotas) != 0 || !strings.Contains(fmt.Sprint(u.Notes), "quota koordinator-default-quota limits nothing") {
		t.Errorf("%+v", u)
	}
}

// TestUsageByLabelOnly: if only a label chooses the quota, nothing limits pods without one, whatever may be elsewhere.
func TestUsageByLabelOnly(t *testing.T) {
	gates, err := gate.Parse(string(api.GateDisableDefaultQuota)+"=true", api.Gates(), nil)
	if err != nil {
		t.Fatal(err)
	}
	u, err := Of(t.Context(), Question{Source: seenBy(t, "team-a"), Namespace: "team-a", Gates: gates,
		Pods: []PlannedPods{pods("", "", "cpu=1", 1), pods("", "org", "cpu=1", 1)}})
	if err != nil || len(u.Takes) != 2 || u.Takes[0].Fits != FitsYes || u.Takes[1].Fits != FitsUnknown || len(u.Unknown) != 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

// TestUsageOfAnotherWriter: what usher wrote before another writer came is not known any more.
func TestUsageOfAnotherWriter(t *testing.T) {
	one := func(name, writes string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"both","managedFields":[{"manager":"usher","subresource":"status","time":"2026-11-27T13:00:00Z"},
			{"manager":"koord-scheduler","fieldsV1":%s}]},"spec":{"max":{"cpu":"8"}},
			"status":{"used":{"cpu":"6"},"reserved":{"cpu":"1"},"limit":{"cpu":"8"},"binds":{"cpu":"x"}}}`, name, writes)
	}
	all := tenantsAnd("both", one("all", `{"f:status":{"f:used":{}}}`), one("annotations", `{"f:metadata":{"f:annotations":{"f:quota.scheduling.koordinator.sh/runtime":{}}}}`))
	u := answerTo(t, seenOf(t, all, "both"), "both")
	for name, want := range map[string]string{"all": "cpu 6 ? 8 ? all, whose use is not known", "annotations": "cpu ? ? 8 ? annotations, whose use is not known"} {
		if got := strings.Join(said(u, name), "; "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if u.Quotas[0].AsOf != nil || !strings.Contains(fmt.Sprint(u.Notes), "koord-scheduler writes the status of all") {
		t.Errorf("%+v", u)
	}
}

// TestUsageUnread: a user who may not list the quotas of his namespace gets an error, and of other namespaces, a doubt.
func TestUsageUnread(t *testing.T) {
	if _, err := Of(t.Context(), Question{Source: seenBy(t, "nowhere"), Namespace: "team-a"}); !reader.IsForbidden(err) {
		t.Error(err)
	}
	all := tenantsAnd("empty", `{"metadata":{"name":"empty-x","namespace":"empty"},"spec":{}}`)
	u := answerTo(t, seenOf(t, all, "empty"), "empty", pods("", "", "cpu=1", 1), pods("", "org", "cpu=1", 1))
	if len(u.Unknown) != 1 || len(u.Takes) != 1 || u.Takes[0].Fits != FitsUnknown || u.Takes[0].Pods != 2 {
		t.Errorf("%+v", u)
	}
}

// TestUsageTakes: what pods would take, whether that fits, and by whose limit.
func TestUsageTakes(t *testing.T) {
	all, own := seenBy(t), seenBy(t, "team-a")
	for _, c := range []struct {
		what   string
		source reader.Source
		pods   []PlannedPods
		want   string
	}{
		{"one fits", all, []PlannedPods{pods("", "", "cpu=500m", 2)}, "2 team-a yes: cpu 1 yes team-a (spec.max)"},
		{"three do not", all, []PlannedPods{pods("", "", "cpu=500m", 3)}, "3 team-a no: cpu 1500m no team-a (spec.max)"},
		{"nor do two objects", own, []PlannedPods{pods("", "", "cpu=1", 1), pods("", "team-a", "cpu=1", 1)}, "2 team-a no: cpu 2 no team-a (spec.max)"},
		{"the parent is full", all, []PlannedPods{pods("", "", "memory=1Gi", 3)}, "3 team-a no: memory 3Gi no org (spec.max)"},
		{"the parent may not be read", own, []PlannedPods{pods("", "", "memory=1Gi cpu=1", 1)},
			"1 team-a not known: cpu 1 yes team-a (spec.max), memory 1Gi not known org, which this user may not read"},
		{"two quotas below a parent that may not be read", own, []PlannedPods{pods("", "", "cpu=1", 1), pods("", "extra", "cpu=2", 1)},
			"1 team-a not known: cpu 1 not known org, which this user may not read; 1 extra not known: cpu 2 not known org, which this user may not read"},
		{"not limited", own, []PlannedPods{pods("", "", "gpu=1", 1)}, "1 team-a yes: gpu 1 yes"},
		{"a parent", all, []PlannedPods{pods("", "org", "cpu=1", 1)}, "1 org no: cpu 1 no"},
		{"no such quota", all, []PlannedPods{pods("", "typo", "cpu=1", 1)}, "1 typo no: cpu 1 no"},
		{"no quota", all, []PlannedPods{pods("free", "", "cpu=1", 1)}, "1  yes: cpu 1 yes"},
		{"not counted", all, []PlannedPods{{Of: "DaemonSet d", Unknown: "a pod on each node"}}, "0  not known:"},
		{"not written", own, []PlannedPods{pods("", "new", "cpu=1", 1)}, "1 new not known: cpu 1 not known new, whose use is not known"},
		{"not written, nor limited by what may be read", own, []PlannedPods{pods("", "fresh", "memory=1Gi", 1)},
			"1 fresh not known: memory 1Gi not known org, which this user may not read"},
		{"very many", all, []PlannedPods{pods("", "", "cpu=1", 2147483647)}, "2147483647 team-a no: cpu 2147483647 no team-a (spec.max)"},
	} {
		var got []string
		for _, take := range answerTo(t, c.source, "team-a", c.pods...).Takes {
			var rows []string
			for _, r := range take.Resources {
				rows = append(rows, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Name, r.Takes, r.Fits, r.By)))
			}
			got = append(got, strings.TrimSpace(fmt.Sprintf("%d %s %s: %s", take.Pods, take.Quota, take.Fits, strings.Join(rows, ", "))))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %s\nwant %s", c.what, text, c.want)
		}
	}
}

// TestUsageOfDevices: whether pods fit that claim devices is not known where these count, unless something else does not fit.
func TestUsageOfDevices(t *testing.T) {
	claiming := func(requests string) PlannedPods {
		p := pods("", "", requests, 1)
		p.Pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "g"}}
		return p
	}
	const on = "QuotaByDeviceClasses=true"
	for _, c := range []struct {
		gates string
		pods  PlannedPods
		want  string
	}{
		{"", claiming("cpu=1"), FitsYes},
		{on, pods("", "", "cpu=1", 1), FitsYes},
		{on, claiming("cpu=1"), FitsUnknown},
		{on, claiming("cpu=2"), FitsNo},
		{on, pods("", "", "deviceclass.resource.kubernetes.io/gpu=1", 1), FitsUnknown},
		{on, pods("free", "", "deviceclass.resource.kubernetes.io/gpu=1", 1), FitsYes},
	} {
		takes := answerWith(t, c.gates, seenBy(t), "team-a", c.pods).Takes
		if len(takes) != 1 || takes[0].Fits != c.want || (takes[0].Why != "") != (c.want == FitsUnknown || takes[0].Quota == "" || c.gates == on && c.want == FitsNo) {
			t.Errorf("%s %v: %+v, want %s", c.gates, c.pods.Pod.Spec, takes, c.want)
		}
	}
}

// TestUsageJSON: what is not known is null, never a number.
func TestUsageJSON(t *testing.T) {
	text, err := json.Marshal(answerTo(t, seenBy(t, "team-a"), "team-a").Quotas[0].Resources[1])
	if want := `{"name":"memory","used":"2Gi","reserved":"0","limit":null,"left":null,"by":"org, which this user may not read"}`; err != nil || string(text) != want {
		t.Errorf("%s\n%v", text, err)
	}
}
