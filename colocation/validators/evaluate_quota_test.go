package validators

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/colocation/quota"
)

// bank is a ledger in memory that records the questions.
type bank struct {
	*ledger.Ledger
	read         []readPod
	judged, held int
}

// readPod holds the pods that a request returns.
type readPod struct{ pod, stored *quota.Pod }

// bankOf returns a bank of quotas, and what pods use in each on top of the use in its descendants.
func bankOf(used map[string]corev1.ResourceList, o ledger.Options, quotas ...*quota.Quota) *bank {
	tree := quota.NewTree(quotas)
	o.Tree = func(context.Context, string) (*quota.Tree, error) { return tree, nil }
	l := ledger.New(o)
	var seen []ledger.Seen
	for name, requests := range used {
		p := &quota.Pod{Namespace: "elsewhere", Name: name, UID: types.UID(name), Label: name, Labelled: true, Requests: requests}
		seen = append(seen, ledger.Seen{Key: "elsewhere/" + name, Version: "1", Object: p})
	}
	l.Pods().Replace(seen, "1")
	return &bank{Ledger: l}
}

func (b *bank) Judge(ctx context.Context, ask quota.Request) (quota.PodVerdict, error) {
	b.judged++
	return b.Ledger.Judge(ctx, b.noting(ask))
}

func (b *bank) Reserve(ctx context.Context, ask quota.Request) (quota.PodVerdict, error) {
	b.held++
	return b.Ledger.Reserve(ctx, b.noting(ask))
}

func (b *bank) noting(ask quota.Request) quota.Request {
	read := ask.Read
	ask.Read = func() (pod, stored *quota.Pod) {
		pod, stored = read()
		b.read = append(b.read, readPod{pod, stored})
		return pod, stored
	}
	return ask
}

func (b *bank) admission() QuotaAdmission { return QuotaAdmission{Ledger: b} }

// brokenLedger always fails.
type brokenLedger struct{ error }

func (l brokenLedger) Judge(context.Context, quota.Request) (quota.PodVerdict, error) {
	return quota.PodVerdict{}, l.error
}

func (l brokenLedger) Reserve(context.Context, quota.Request) (quota.PodVerdict, error) {
	return quota.PodVerdict{}, l.error
}

// limits reads "cpu=4 memory=8Gi".
func limits(short string) corev1.ResourceList { return corev1.ResourceList(list(short)) }

// listed is the inverse of limits, sorted.
func listed(l corev1.ResourceList) string {
	var pairs []string
	for name, amount := range l {
		pairs = append(pairs, fmt.Sprintf("%s=%s", name, &amount))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, " ")
}

// quotaOf returns a quota in kube-system with spec.max and the limits at admission.
func quotaOf(name, most, admission string) *quota.Quota {
	q := &quota.Quota{Namespace: "kube-system", Name: name, Parent: api.RootQuota, Max: limits(most)}
	if admission != "" {
		q.Admission = limits(admission)
	}
	return q
}

// askingPod returns a pod of a quota ("": no label) that requests resources; more is added to its metadata.
func askingPod(label, requests, more string) string {
	labels := `"labels":{}`
	if label != "" {
		labels = fmt.Sprintf(`"labels":{%q:%q}`, api.LabelQuotaName, label)
	}
	var pairs []string
	for _, pair := range strings.Fields(requests) {
		name, amount, _ := strings.Cut(pair, "=")
		pairs = append(pairs, fmt.Sprintf("%q:%q", name, amount))
	}
	return `{"metadata":{"name":"p",` + labels + more + `},"spec":{"containers":[{"name":"c","resources":{"requests":{` + strings.Join(pairs, ",") + `}}}]}}`
}

// evaluated runs the step on a request, and returns its problems and warnings, one per line.
func evaluated(t *testing.T, ask QuotaAdmission, req *admit.Request) string {
	t.Helper()
	problems, err := evaluateQuota(ask).Commit(t.Context(), req, admit.AsPod(req.Object))
	if err != nil || req.Object.Err() != nil {
		t.Fatalf("%v, %v", err, req.Object.Err())
	}
	for _, w := range req.Warnings() {
		if strings.HasSuffix(w, "…") {
			t.Errorf("a warning is cut: %s", w)
		}
	}
	shown := texts(problems)
	if n := len(shown); n > 0 && strings.Contains(shown[0], "Forbidden: quota ") {
		namespace := req.Namespace
		if strings.Contains(shown[0], "(via label)") {
			namespace = "kube-system" // that of the quotas
		}
		hint := "; `kubectl get elasticquotas -n " + namespace + "` shows use and limits"
		if !strings.HasSuffix(shown[n-1], hint) || strings.Count(strings.Join(shown, ""), hint) != 1 {
			t.Errorf("%q: the last one, and no other, names the command", shown)
		}
		shown[n-1] = strings.TrimSuffix(shown[n-1], hint)
	}
	return strings.Join(append(shown, req.Warnings()...), "\n")
}

const (
	byLabel      = `metadata.labels[quota.scheduling.koordinator.sh/name]: `
	viaLabel     = byLabel + `Forbidden: quota quota1 (via label): `
	unknownQuota = byLabel + `Invalid value: "quota2": no elastic quota has this name; set the label to one that exists, or remove it`
	makeRoom     = `; ask for less, free some of it, or raise the limit`
	askLess      = `; ask for less, or raise the limit`
	fromMax      = ` (spec.max)`
	fromNote     = ` (annotation quota.scheduling.koordinator.sh/admission)`
)

// One quota and a pod that is created, as in the reference.
func TestEvaluateQuota(t *testing.T) {
	const native, batch = "cpu=2 memory=4Gi", "kubernetes.io/batch-cpu=1 kubernetes.io/batch-memory=2Gi"
	for _, c := range []struct {
		name, most, used, admission, label, requests string
		want                                         []string
		holds                                        bool // whether capacity is reserved
	}{
		{"room", "cpu=4 memory=8Gi", "", "", "quota1", native, nil, true},
		{"room beside others", "cpu=4 memory=8Gi", "cpu=2 memory=2Gi", "", "quota1", native, nil, true},
		{"cpu is full", "cpu=4 memory=8Gi", "cpu=4 memory=2Gi", "", "quota1", native, []string{viaLabel + `cpu requested 2, used 4, limit 4` + fromMax + makeRoom}, false},
		{"both are full", "cpu=4 memory=8Gi", "cpu=4 memory=8Gi", "", "quota1", native, []string{
			viaLabel + `cpu requested 2, used 4, limit 4` + fromMax + makeRoom, viaLabel + `memory requested 4Gi, used 8Gi, limit 8Gi` + fromMax + makeRoom}, false},
		{"admission above max", "cpu=4 memory=8Gi", "cpu=4 memory=2Gi", "cpu=8 memory=16Gi", "quota1", native, nil, true},
		{"admission above max, used", "cpu=4 memory=8Gi", "cpu=4 memory=8Gi", "cpu=8 memory=16Gi", "quota1", native, nil, true},
		{"unknown", "cpu=4 memory=8Gi", "", "", "quota2", native, []string{unknownQuota}, false},
		{"batch only, a native pod", "kubernetes.io/batch-cpu=4 kubernetes.io/batch-memory=8Gi", "", "", "quota1", native, nil, false},
		{"batch only, a batch pod", "kubernetes.io/batch-cpu=4 kubernetes.io/batch-memory=8Gi", "kubernetes.io/batch-cpu=4 kubernetes.io/batch-memory=8Gi", "", "quota1", batch, []string{
			viaLabel + `kubernetes.io/batch-cpu requested 1, used 4, limit 4` + fromMax + makeRoom,
			viaLabel + `kubernetes.io/batch-memory requested 2Gi, used 8Gi, limit 8Gi` + fromMax + makeRoom}, false},
		{"larger than the quota", "cpu=1 memory=2Gi", "", "", "quota1", native, []string{
			viaLabel + `cpu requested 2, used 0, limit 1` + fromMax + askLess, viaLabel + `memory requested 4Gi, used 0, limit 2Gi` + fromMax + askLess}, false},
		{"admission of zero", "cpu=4 memory=8Gi", "", "cpu=0 memory=0", "quota1", native, []string{
			viaLabel + `cpu requested 2, used 0, limit 0` + fromNote + askLess, viaLabel + `memory requested 4Gi, used 0, limit 0` + fromNote + askLess}, false},
		{"admission of something else", "cpu=4 memory=8Gi", "", "kubernetes.io/batch-cpu=0", "quota1", native, nil, true},

		{"gpu-core alone", "koordinator.sh/gpu-core=100", "koordinator.sh/gpu-core=50", "", "quota1", "koordinator.sh/gpu-core=100",
			[]string{viaLabel + `koordinator.sh/gpu-core requested 100, used 50, limit 100` + fromMax + makeRoom}, false},
		{"custom, only at admission", "cpu=4", "", "example.com/licence=0", "quota1", "example.com/licence=1",
			[]string{viaLabel + `example.com/licence requested 1, used 0, limit 0` + fromNote + askLess}, false},
		{"nothing asked", "cpu=4", "cpu=4", "", "quota1", "", nil, false},
		{"zero asked", "cpu=4", "cpu=5", "", "quota1", "cpu=0", nil, false},
		{"no limits", "", "", "", "quota1", native, nil, false},
		{"no label: the default quota", "cpu=1", "", "", "", native, nil, false},
		{"the default quota", "cpu=1", "", "", api.DefaultQuota, native, nil, false},
		{"the system quota", "cpu=1", "", "", api.SystemQuota, native, nil, false},
		{"the root quota", "cpu=1", "", "", api.RootQuota, native, nil, false},
	} {
		b := bankOf(map[string]corev1.ResourceList{"quota1": limits(c.used)}, ledger.Options{},
			quotaOf("quota1", c.most, c.admission), quotaOf(api.SystemQuota, "cpu=0", ""))
		got := evaluated(t, b.admission(), requestFor(t, "ns1", askingPod(c.label, c.requests, ""), ""))
		if want := strings.Join(c.want, "\n"); got != want || (b.Stats().Reservations == 1) != c.holds || b.judged > 0 {
			t.Errorf("%s: held %d, %s\nwant %s", c.name, b.Stats().Reservations, got, want)
		}
	}
}

// departments makes a parent with two teams; own is the use of the pods in each quota itself.
func departments(own map[string]corev1.ResourceList, o ledger.Options) *bank {
	company, teamA, teamB := quotaOf("company", "cpu=101 memory=200Gi", ""), quotaOf("team-a", "cpu=8 memory=16Gi", ""), quotaOf("team-b", "cpu=4", "")
	parent := quotaOf("departments", "cpu=12 memory=20Gi", "")
	company.IsParent, parent.IsParent, parent.Parent, teamA.Parent, teamB.Parent = true, true, "company", "departments", "departments"
	teamA.Namespaces = []string{"team-a"}
	return bankOf(own, o, company, parent, teamA, teamB)
}

// busyDepartments are almost full, and have a reservation for a pod of team-a that has not been observed.
func busyDepartments(t testing.TB) *bank {
	b := departments(map[string]corev1.ResourceList{
		"company": limits("cpu=90"), "departments": limits("memory=1Gi"), "team-a": limits("cpu=7"), "team-b": limits("cpu=2"),
	}, ledger.Options{})
	p := &quota.Pod{Namespace: "team-a", Name: "waiting", UID: "waiting", Requests: limits("cpu=1")}
	verdict, err := b.Ledger.Reserve(t.Context(), quota.Request{Key: p.BindingKey(), Read: func() (pod, stored *quota.Pod) { return p, nil }})
	if err != nil || verdict.Excess != nil {
		t.Fatal(verdict, err)
	}
	return b
}

// Every quota on the path, why the pod belongs there, and where to change the limit.
func TestEvaluateQuotaPath(t *testing.T) {
	const bound = `spec.containers: Forbidden: quota team-a (via namespace annotation): `
	for _, c := range []struct{ name, namespace, label, requests, want string }{
		{"own", "team-a", "", "cpu=500m memory=1Gi", bound + `cpu requested 500m, used 7, reserved 1, limit 8` + fromMax + makeRoom},
		{"all", "team-a", "", "cpu=3", bound + `cpu requested 3, used 7, reserved 1, limit 8` + fromMax + makeRoom + "\n" +
			`spec.containers: Forbidden: quota departments, parent of team-a (via namespace annotation): cpu requested 3, used 9, reserved 1, limit 12` + fromMax + makeRoom + "\n" +
			`spec.containers: Forbidden: quota company, above team-a (via namespace annotation): cpu requested 3, used 99, reserved 1, limit 101` + fromMax + makeRoom},
		{"the parent's, by label", "ns1", "team-b", "memory=20Gi", byLabel + `Forbidden: quota departments, parent of team-b (via label): memory requested 20Gi, used 1Gi, limit 20Gi` + fromMax + makeRoom},
		{"room", "ns1", "team-b", "cpu=1", ""},
	} {
		got := evaluated(t, busyDepartments(t).admission(), requestFor(t, c.namespace, askingPod(c.label, c.requests, ""), ""))
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// Which requests are evaluated: updates as in the reference, resizes, and those that need nothing.
func TestEvaluateQuotaWhen(t *testing.T) {
	const small, large = "cpu=1", "cpu=3"
	ended := func(pod, phase string) string {
		return strings.TrimSuffix(pod, "}") + `,"status":{"phase":"` + phase + `"}}`
	}
	deleted := func(pod string) string {
		return strings.Replace(pod, `"metadata":{`, `"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z",`, 1)
	}
	pod := func(label, requests string) string { return askingPod(label, requests, "") }
	const full = byLabel + `Forbidden: quota team-b (via label): cpu requested 3, used 2, limit 4` + fromMax + makeRoom
	for _, c := range []struct {
		name, operation, sub string
		onUpdate             bool
		old, pod             string
		counts               bool // whether it requests more than before
		want                 string
	}{
		{"move, gate off", "UPDATE", "", false, pod("team-a", large), pod("team-b", large), false, ""},
		{"same quota, gate on", "UPDATE", "", true, pod("team-b", small), pod("team-b", "cpu=1000m"), false, ""},
		{"move with room", "UPDATE", "", true, pod("team-a", small), pod("team-b", small), true, ""},
		{"move to a full one", "UPDATE", "", true, pod("team-a", large), pod("team-b", large), true, full},
		{"move from none", "UPDATE", "", true, pod("", large), pod("team-b", large), true, full},
		{"move to none", "UPDATE", "", true, pod("team-b", large), pod("", large), false, ""},
		{"move to default", "UPDATE", "", true, pod("team-b", large), pod(api.DefaultQuota, large), false, ""},
		{"move to unknown", "UPDATE", "", true, pod("team-b", large), pod("quota2", large), false, unknownQuota},
		{"unknown before", "UPDATE", "", true, pod("quota2", large), pod("quota2", large), false, ""},
		{"from none to the default by name", "UPDATE", "", true, pod("", large), pod(api.DefaultQuota, large), false, ""},

		{"resize", "UPDATE", "resize", false, pod("team-b", small), pod("team-b", large), true, full},
		{"resize before Kubernetes 1.32", "UPDATE", "", false, pod("team-b", small), pod("team-b", large), true, full},
		{"resize before Kubernetes 1.32 with room", "UPDATE", "", false, pod("team-b", small), pod("team-b", "cpu=2"), true, ""},
		{"resize before Kubernetes 1.32 down", "UPDATE", "", false, pod("team-b", large), pod("team-b", small), false, ""},
		{"resize with room", "UPDATE", "resize", false, pod("team-b", small), pod("team-b", "cpu=2"), true, ""},
		{"resize down", "UPDATE", "resize", false, pod("team-b", "cpu=4"), pod("team-b", large), false, ""},
		{"resize to the same", "UPDATE", "resize", false, pod("team-b", large), pod("team-b", "cpu=3000m"), false, ""},
		{"resize one up, one down", "UPDATE", "resize", false, pod("team-b", "cpu=3 memory=1"), pod("team-b", "cpu=1 memory=2"), true, ""},
		{"resize, a new resource", "UPDATE", "resize", false, pod("team-b", ""), pod("team-b", "cpu=1"), true, ""},
		{"resize of no quota", "UPDATE", "resize", false, pod("", small), pod("", large), false, ""},
		{"resize of unknown", "UPDATE", "resize", false, pod("quota2", small), pod("quota2", large), false, unknownQuota},
		{"resize of unknown down", "UPDATE", "resize", false, pod("quota2", large), pod("quota2", small), false, ""},
		{"resize of one that is being deleted", "UPDATE", "resize", false, deleted(pod("team-b", small)), deleted(pod("team-b", large)), true, full},
		{"resize of one that is over", "UPDATE", "resize", false, pod("team-b", small), ended(pod("team-b", large), "Failed"), false, ""},

		{"update of one that failed", "UPDATE", "", true, pod("team-a", large), ended(pod("team-b", large), "Failed"), false, ""},

		{"status", "UPDATE", "status", true, ended(pod("team-b", large), "Pending"), ended(pod("team-b", large), "Running"), false, ""},
		{"move by status, gate off", "UPDATE", "status", false, pod("team-a", large), pod("team-b", large), false, ""},
		{"move by status", "UPDATE", "status", true, pod("team-a", large), pod("team-b", large), true, full},
		{"end by status", "UPDATE", "status", true, pod("team-a", large), ended(pod("team-b", large), "Failed"), false, ""},
		{"from one end to the other", "UPDATE", "status", true, ended(pod("team-b", large), "Failed"), ended(pod("team-b", large), "Succeeded"), false, ""},
		{"revival", "UPDATE", "status", false, ended(pod("team-b", large), "Succeeded"), ended(pod("team-b", large), "Running"), true, full},
		{"revival with room", "UPDATE", "status", false, ended(pod("team-b", small), "Failed"), ended(pod("team-b", small), "Pending"), true, ""},
		{"revival without a phase", "UPDATE", "status", false, ended(pod("team-b", large), "Failed"), pod("team-b", large), true, full},
		{"revival elsewhere", "UPDATE", "status", false, ended(pod("team-a", large), "Failed"), ended(pod("team-b", large), "Running"), true, full},
		{"revival of no quota", "UPDATE", "status", false, ended(pod("", large), "Failed"), ended(pod("", large), "Running"), false, ""},
		{"revival of one that is being deleted", "UPDATE", "status", false, deleted(ended(pod("team-b", large), "Failed")), deleted(ended(pod("team-b", large), "Running")), true, full},
		{"ephemeral containers", "UPDATE", "ephemeralcontainers", true, pod("team-b", large), pod("team-b", large), false, ""},
		{"move of one that is being deleted", "UPDATE", "", true, deleted(pod("team-a", large)), deleted(pod("team-b", large)), true, full},
		{"a finalizer of one that is being deleted", "UPDATE", "", true, deleted(pod("team-b", large)), deleted(pod("team-b", large)), false, ""},
		{"update of one that is over", "UPDATE", "", true, pod("team-a", large), ended(pod("team-b", large), "Succeeded"), false, ""},
		{"update of one that runs", "UPDATE", "", true, pod("team-a", large), ended(pod("team-b", large), "Running"), true, full},
		{"create", "CREATE", "", false, "", pod("team-b", large), true, full},
		{"create one that is over", "CREATE", "", false, "", ended(pod("team-b", large), "Succeeded"), false, ""},
		{"create a subresource", "CREATE", "eviction", false, "", pod("team-b", large), false, ""},
		{"an update without the old object", "UPDATE", "resize", true, "", pod("team-b", large), false, ""},
		{"delete", "DELETE", "", true, pod("team-b", large), pod("team-b", large), false, ""},
	} {
		b := departments(map[string]corev1.ResourceList{"team-b": limits("cpu=2")}, ledger.Options{})
		ask := b.admission()
		ask.OnUpdate = c.onUpdate
		req := requestFor(t, "ns1", c.pod, c.old)
		req.Operation, req.SubResource = admissionv1.Operation(c.operation), c.sub
		if got := evaluated(t, ask, req); got != c.want || (b.Stats().Reservations == 1) != (c.counts && c.want == "") {
			t.Errorf("%s: held %d, %s\nwant %s", c.name, b.Stats().Reservations, got, c.want)
		}
	}
}

// Which updates are evaluated because of what the node holds, or of what the pod counts for. Pod p of team-b, which uses
// 2 of 4 without it, is stored with 1 by spec while its node holds 2.
func TestEvaluateQuotaHeld(t *testing.T) {
	const team, by = "team-b", byLabel + `Forbidden: quota team-b (via label): `
	status := func(pod, allocated string) string {
		return strings.TrimSuffix(pod, "}") + `,"status":{"containerStatuses":[{"name":"c","allocatedResources":{"cpu":"` + allocated + `"}}]}}`
	}
	pod := func(requests string) string { return askingPod(team, requests, "") }
	infeasible := func(pod string, generation int) string { // of which the first was refused, and the second is the deletion
		pod = strings.Replace(pod, `"metadata":{`, fmt.Sprintf(`"metadata":{"generation":%d,"deletionTimestamp":"2026-01-01T00:00:00Z",`, generation), 1)
		return strings.Replace(status(pod, "2"), `"status":{`, `"status":{"conditions":[{"type":"PodResizePending","reason":"Infeasible","observedGeneration":1}],`, 1)
	}
	const note = `,"annotations":{"` + api.AnnotationReplaceResources + `":"cpu:"}`
	all := quota.Counting{Allocated: true, Replace: true}
	for _, c := range []struct {
		name, sub string
		counting  quota.Counting
		old, pod  string
		reserves  bool
		want      string
	}{
		{"status that allocates more", "status", all, status(pod("cpu=1"), "2"), status(pod("cpu=1"), "3"), true,
			by + `cpu requested 3 (1 by spec), used 2, limit 4` + fromMax + makeRoom},
		{"status that allocates more, with room", "status", all, status(pod("cpu=1"), "1"), status(pod("cpu=1"), "2"), true, ""},
		{"status that allocates more, gate off", "status", quota.Counting{}, status(pod("cpu=1"), "2"), status(pod("cpu=1"), "3"), false, ""},
		{"status that allocates less", "status", all, status(pod("cpu=1"), "3"), status(pod("cpu=1"), "2"), false, ""},
		{"resize up to what is held", "resize", all, status(pod("cpu=1"), "2"), status(pod("cpu=2"), "2"), false, ""},
		{"resize above what is held", "resize", all, status(pod("cpu=1"), "2"), status(pod("cpu=3"), "2"), true,
			by + `cpu requested 3, used 2, limit 4` + fromMax + makeRoom},
		{"resize, with a status in the object alone", "resize", all, status(pod("cpu=1"), "2"), status(pod("cpu=1"), "9"), false, ""},
		{"resize down", "resize", all, status(pod("cpu=2"), "2"), status(pod("cpu=1"), "2"), false, ""},
		{"resize of an infeasible one that is being deleted", "resize", all, infeasible(pod("cpu=100"), 2), infeasible(pod("cpu=3"), 3), true,
			by + `cpu requested 3, used 2, limit 4` + fromMax + makeRoom},
		{"annotation removed", "", all, askingPod(team, "cpu=3", note), pod("cpu=3"), true, by + `cpu requested 3, used 2, limit 4` + fromMax + makeRoom},
		{"annotation removed through the status", "status", all, askingPod(team, "cpu=3", note), pod("cpu=3"), true,
			by + `cpu requested 3, used 2, limit 4` + fromMax + makeRoom},
		{"annotation removed, with room", "", all, askingPod(team, "cpu=1", note), pod("cpu=1"), true, ""},
		{"annotation removed, gates off", "", quota.Counting{Allocated: true}, askingPod(team, "cpu=3", note), pod("cpu=3"), false, ""},
		{"annotation added", "", all, pod("cpu=3"), askingPod(team, "cpu=3", note), false, ""},
	} {
		b := departments(map[string]corev1.ResourceList{team: limits("cpu=2")}, ledger.Options{Counting: c.counting})
		ask := b.admission()
		ask.Counting = c.counting
		req := requestFor(t, "ns1", c.pod, c.old)
		req.Operation, req.SubResource = admissionv1.Update, c.sub
		if got := evaluated(t, ask, req); got != c.want || (b.Stats().Reservations == 1) != (c.reserves && c.want == "") {
			t.Errorf("%s: held %d, %s\nwant %s", c.name, b.Stats().Reservations, got, c.want)
		}
	}
}

// Another label that leads to the same quota does not move the pod, and an update that keeps the label does not wait
// for the quotas.
func TestEvaluateQuotaStays(t *testing.T) {
	b := departments(nil, ledger.Options{})
	evaluated(t, QuotaAdmission{Ledger: b, OnUpdate: true}, requestFor(t, "team-a", askingPod("team-a", "cpu=9", ""), askingPod("", "cpu=9", "")))
	if b.held != 1 || b.Stats().Reservations > 0 {
		t.Errorf("asked %d, held %d", b.held, b.Stats().Reservations)
	}
	evaluated(t, QuotaAdmission{Ledger: brokenLedger{admit.ErrNotReady}, OnUpdate: true}, requestFor(t, "team-a", askingPod("team-a", "cpu=9", ""), askingPod("team-a", "cpu=9", "")))
}

// What the ledger receives: the pod with its identity and namespace, its quota, and what it counts for.
func TestEvaluateQuotaQuestion(t *testing.T) {
	const uid = `,"uid":"own","namespace":"ignored"`
	replaced := askingPod("quota1", "cpu=2 memory=4Gi example.io/gpu=1", `,"annotations":{"pod.koordinator.sh/replace-resources":"cpu:example.io/cpu,memory:"}`)
	heavy := strings.Replace(askingPod("quota1", "cpu=2", ""), `"spec":{`, `"spec":{"overhead":{"cpu":"250m"},`, 1)
	for _, c := range []struct {
		name, pod string
		counting  quota.Counting
		uid       string
		charge    string
		want      string
	}{
		{"a review without an identity", askingPod("quota1", "example.io/cpu=2", ""), quota.Counting{}, "review", "example.io/cpu=2", ""},
		{"a pod with one", askingPod("quota1", "example.io/cpu=2", uid), quota.Counting{}, "own", "example.io/cpu=2", ""},
		{"replaced", replaced, quota.Counting{Replace: true}, "review", "example.io/cpu=2k example.io/gpu=1", ""},
		{"replaced, gates off", replaced, quota.Counting{}, "review", "cpu=2 example.io/gpu=1 memory=4Gi", viaLabel + `memory requested 4Gi, used 0, limit 0` + fromMax + askLess},
		{"overhead", heavy, quota.Counting{}, "review", "cpu=2250m", viaLabel + `cpu requested 2250m, used 0, limit 2` + fromMax + askLess},
		{"overhead ignored", heavy, quota.Counting{IgnoreOverhead: true}, "review", "cpu=2", ""},
	} {
		b := bankOf(nil, ledger.Options{Counting: c.counting}, quotaOf("quota1", "cpu=2 memory=0 example.io/cpu=4k example.io/gpu=3", ""))
		req := requestFor(t, "ns1", c.pod, "")
		req.UID = "review"
		sent := string(req.Object.Bytes())
		if got := evaluated(t, b.admission(), req); got != c.want || len(b.read) != 1 {
			t.Errorf("%s: asked %d, %s\nwant %s", c.name, len(b.read), got, c.want)
			continue
		}
		asked := b.read[0].pod
		if asked.UID != types.UID(c.uid) || asked.Namespace != "ns1" || asked.Name != "p" || asked.Label != "quota1" || b.read[0].stored != nil {
			t.Errorf("%s: asked about %+v", c.name, asked)
		}
		if got := listed(c.counting.Charge(asked)); got != c.charge {
			t.Errorf("%s: charged %s, want %s", c.name, got, c.charge)
		}
		if string(req.Object.Bytes()) != sent {
			t.Errorf("%s: the object was changed", c.name)
		}
	}
}

// For an existing pod the ledger may read what is stored; for a pod without a quota it reads nothing.
func TestEvaluateQuotaStored(t *testing.T) {
	for _, c := range []struct{ name, sub, old, pod, want string }{
		{"create", "", "", askingPod("team-b", "cpu=1", ""), "none"},
		{"create in none", "", "", askingPod("", "cpu=1", ""), "not read"},
		{"move", "", askingPod("team-a", "cpu=1", ""), askingPod("team-b", "cpu=1", ""), "team-a: cpu=1"},
		{"move to none", "", askingPod("team-a", "cpu=1", ""), askingPod("", "cpu=1", ""), "not read"},
		{"move from none", "", askingPod("", "cpu=1", ""), askingPod("team-b", "cpu=1", ""), ": cpu=1"},
		{"move from unknown", "", askingPod("quota2", "cpu=1", ""), askingPod("team-b", "cpu=1", ""), "quota2: cpu=1"},
		{"resize", "resize", askingPod("team-b", "cpu=1", ""), askingPod("team-b", "cpu=1500m", ""), "team-b: cpu=1"},
	} {
		b := departments(nil, ledger.Options{})
		req := requestFor(t, "ns1", c.pod, c.old)
		req.SubResource = c.sub
		evaluated(t, QuotaAdmission{Ledger: b, OnUpdate: true}, req)
		got := "not read"
		if len(b.read) == 1 {
			if got = "none"; b.read[0].stored != nil {
				got = b.read[0].stored.Label + ": " + listed(b.read[0].stored.Requests)
			}
		}
		if got != c.want || b.held != 1 {
			t.Errorf("%s: %s, want %s; asked %d", c.name, got, c.want, b.held)
		}
	}
}

// Only Commit reserves.
func TestEvaluateQuotaJudges(t *testing.T) {
	b := departments(nil, ledger.Options{})
	for requests, want := range map[string]int{"cpu=3": 0, "cpu=102": 3} {
		req := requestFor(t, "ns1", askingPod("team-b", requests, ""), "")
		problems, err := evaluateQuota(b.admission()).Run(t.Context(), req, admit.AsPod(req.Object))
		if len(problems) != want || err != nil || b.judged == 0 || b.held != 0 || b.Stats().Writes > 0 {
			t.Errorf("%s: %v, %v, judged %d, held %d, %+v", requests, problems, err, b.judged, b.held, b.Stats())
		}
	}
}

// The chain runs Commit, Run or neither, depending on dry run and on earlier checks.
func TestEvaluateQuotaInAChain(t *testing.T) {
	denies := admit.Validator[admit.Pod]{Name: "no", Run: func(context.Context, *admit.Request, *admit.Pod) (field.ErrorList, error) {
		return field.ErrorList{field.Forbidden(admit.NamePath, "no")}, nil
	}}
	for _, c := range []struct {
		name         string
		dry          bool
		checks       []admit.Validator[admit.Pod]
		judged, held int
	}{{"real", false, nil, 0, 1}, {"dry run", true, nil, 1, 0}, {"refused before", false, []admit.Validator[admit.Pod]{denies}, 0, 0}} {
		b := departments(nil, ledger.Options{})
		chain := admit.Validate(admit.AsPod, append(c.checks, evaluateQuota(b.admission())))
		req := requestFor(t, "ns1", askingPod("team-b", "cpu=1", ""), "")
		req.DryRun = c.dry
		if _, err := chain.Run(t.Context(), req, nil); err != nil || b.judged != c.judged || b.held != c.held || b.Stats().Reservations != c.held {
			t.Errorf("%s: %v, judged %d, held %d", c.name, err, b.judged, b.held)
		}
	}
}

// An annotation that does not parse counts as missing, and the author of the pod is warned.
func TestEvaluateQuotaBrokenAnnotation(t *testing.T) {
	broken := &api.ElasticQuota{}
	broken.Namespace, broken.Name = "kube-system", "quota1"
	broken.Annotations = map[string]string{api.AnnotationQuotaAdmission: "junk", api.AnnotationQuotaGuaranteed: "junk", api.AnnotationQuotaNamespaces: "junk"}
	broken.Spec.Max = list("cpu=2")
	other := *broken
	other.Name, other.Annotations = "quota2", map[string]string{api.AnnotationQuotaGuaranteed: "junk"} // does not concern pods
	const warning = "elastic quota quota1: annotation quota.scheduling.koordinator.sh/admission is not valid and is ignored; only spec.max applies"
	for _, c := range []struct{ label, requests, want string }{
		{"quota1", "cpu=2", warning},
		{"quota1", "cpu=3", viaLabel + `cpu requested 3, used 0, limit 2` + fromMax + askLess + "\n" + warning},
		{"quota2", "cpu=2", ""},
	} {
		b := bankOf(nil, ledger.Options{}, quota.Of(broken), quota.Of(&other))
		if got := evaluated(t, b.admission(), requestFor(t, "ns1", askingPod(c.label, c.requests, ""), "")); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// Internal errors stay internal errors, with their cause.
func TestEvaluateQuotaFails(t *testing.T) {
	late := fmt.Errorf("a cause: %w", admit.ErrNotReady)
	notReady := ledger.New(ledger.Options{Tree: func(context.Context, string) (*quota.Tree, error) { return nil, late }})
	for name, ask := range map[string]QuotaAdmission{"quotas": {Ledger: notReady}, "ledger": {Ledger: brokenLedger{late}}} {
		req := requestFor(t, "ns1", askingPod("team-b", "cpu=3", ""), "")
		if problems, err := evaluateQuota(ask).Commit(t.Context(), req, admit.AsPod(req.Object)); !errors.Is(err, admit.ErrNotReady) || len(problems) > 0 {
			t.Errorf("%s: %v, %v", name, problems, err)
		}
	}
	req := requestFor(t, "ns1", askingPod("team-b", "cpu=3", ""), "")
	if problems, err := evaluateQuota(QuotaAdmission{}).Commit(t.Context(), req, admit.AsPod(req.Object)); err != nil || len(problems) > 0 {
		t.Errorf("no quotas: %v, %v", problems, err)
	}
}

// Only with the gate does an empty or missing label mean that there is no quota.
func TestEvaluateQuotaLabelOnly(t *testing.T) {
	for labelOnly, want := range map[bool]int{false: 1, true: 0} {
		b := departments(nil, ledger.Options{LabelOnly: labelOnly})
		if evaluated(t, b.admission(), requestFor(t, "team-a", askingPod("", "cpu=100m memory=1", ""), "")); b.Stats().Reservations != want {
			t.Errorf("LabelOnly %v: held %d", labelOnly, b.Stats().Reservations)
		}
	}
}

func BenchmarkEvaluateQuota(b *testing.B) {
	ledger := busyDepartments(b)
	for name, labels := range map[string]string{"no quota": "", "a quota": fmt.Sprintf("%q:%q,", api.LabelQuotaName, "team-b")} {
		b.Run(name, func(b *testing.B) {
			pod := benchPod(labels, "", nativeMembers)
			b.ReportAllocs()
			for b.Loop() {
				d, err := document.Parse([]byte(pod))
				if err != nil {
					b.Fatal(err)
				}
				req := &admit.Request{Object: d, Operation: "CREATE", Namespace: "ns1"}
				if _, err := evaluateQuota(ledger.admission()).Run(b.Context(), req, admit.AsPod(d)); err != nil {
					b.Fatal(err)
				}
				ledger.read = nil
				d.Release()
			}
		})
	}
}
