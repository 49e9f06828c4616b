package mutators

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/mutators"
	"usher.dev/usher/mutators/amplify"
	"usher.dev/usher/test/amplifytest"
	"usher.dev/usher/test/seed"
)

const ratioKey, rawKey = api.AnnotationAmplificationRatio, api.AnnotationRawAllocatable

// koordinated is a fleet of the colocation suite. Every write uses a new step, as after a restart.
type koordinated struct {
	*amplifytest.Node
	policy  *sections.NodeAmplification
	slo     map[string]string // nil: it sets nothing
	metrics map[string]*api.NodeMetric
	now     time.Time
}

func newKoordinated(t *testing.T, ratio string) *koordinated {
	k := &koordinated{Node: amplifytest.NewNode(t, amplify.Keep, "1", mutators.Nodes), now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	k.Steps = func() []admit.Mutator[admit.Node] {
		a := &nodeAmplifier{
			sources: k.policy.Sources(func(map[string]string) (map[string]string, bool) { return k.slo, k.slo != nil }),
			metrics: func(node string) (*api.NodeMetric, bool) { m, ok := k.metrics[node]; return m, ok },
			now:     func() time.Time { return k.now },
		}
		return []admit.Mutator[admit.Node]{a.mutator()}
	}
	k.mark(ratioKey, ratio)
	return k
}

// mark is an administrator's write of `nodes`; empty text removes the annotation.
func (k *koordinated) mark(key, text string) { k.put("annotations", key, text) }

func (k *koordinated) label(key, text string) { k.put("labels", key, text) }

func (k *koordinated) put(list, key, text string) {
	meta := k.Stored["metadata"].(amplifytest.Object)
	if meta[list] == nil {
		meta[list] = amplifytest.Object{}
	}
	meta[list].(amplifytest.Object)[key] = text
	if text == "" {
		delete(meta[list].(amplifytest.Object), key)
	}
}

func (k *koordinated) marked(key string) string {
	annotations, _ := k.Stored["metadata"].(amplifytest.Object)["annotations"].(amplifytest.Object)
	text, _ := annotations[key].(string)
	return text
}

func (k *koordinated) pool(pools ...sections.AmplificationPool) {
	k.policy = &sections.NodeAmplification{Pools: pools, FromSLOConfig: true}
}

type texts = map[corev1.ResourceName]string

func (k *koordinated) wantRaw(when, want string) {
	k.T.Helper()
	if got := k.marked(rawKey); got != want {
		k.T.Fatalf("%s: raw-allocatable is %s, want %s", when, got, want)
	}
}

func (k *koordinated) wantBy(when, by string) {
	k.T.Helper()
	if !strings.Contains(k.Annotation(), `"by":"`+by+`"`) {
		k.T.Fatalf("%s: %s, want it by %s", when, k.Annotation(), by)
	}
}

const bothRaw = `{"cpu":"15900m","memory":"60Gi"}`

func (k *koordinated) measure() { k.Post(amplifytest.Kubelet, "cpu:15900m/16", "memory:60Gi/64Gi") }

// The ratio annotation is raised, lowered and removed, with writes of other clients in between. Capacity never changes.
func TestRatioAnnotation(t *testing.T) {
	k := newKoordinated(t, `{"cpu":1.5}`)
	k.measure()
	k.Want("first", "cpu", "23850m/16")
	k.Want("first", "memory", "60Gi/64Gi")
	k.wantRaw("first", bothRaw)
	for range 3 {
		k.measure()
		k.Echo(amplifytest.Controller)
		k.Echo(amplifytest.Kubelet)
	}
	k.Want("echoes", "cpu", "23850m/16")
	for _, step := range []struct{ ratio, cpu, Annotation string }{
		{`{"cpu":2}`, "31800m/16", "60Gi/64Gi"},
		{`{"cpu":2,"memory":1.25}`, "31800m/16", "75Gi/64Gi"},
		{`{"cpu":1.2,"memory":1.25}`, "19080m/16", "75Gi/64Gi"},
		{`{"memory":1.25}`, "15900m/16", "75Gi/64Gi"},
		{`{"cpu":3e0}`, "47700m/16", "60Gi/64Gi"},
		{`{"cpu":1.00}`, "15900m/16", "60Gi/64Gi"},
		{`{"cpu":1.333333333333}`, "21199m/16", "60Gi/64Gi"},
		{`{}`, "15900m/16", "60Gi/64Gi"},
	} {
		k.mark(ratioKey, step.ratio)
		k.Echo(amplifytest.Controller)
		k.Want(step.ratio, "cpu", step.cpu)
		k.Want(step.ratio, "memory", step.Annotation)
		k.wantRaw(step.ratio, bothRaw)
		k.measure()
		k.Want(step.ratio+", measured", "cpu", step.cpu)
		k.Want(step.ratio+", measured", "memory", step.Annotation)
	}
	k.mark(ratioKey, `{"cpu":2,"memory":2}`)
	k.measure()
	k.mark(ratioKey, "")
	k.Echo(amplifytest.Controller)
	k.Want("switched off", "cpu", "15900m/16")
	k.Want("switched off", "memory", "60Gi/64Gi")
	if k.Annotation()+k.marked(rawKey) != "" {
		t.Errorf("left behind: %s %s", k.Annotation(), k.marked(rawKey))
	}
}

// No content of annotations stops a heartbeat: the resource in question is restored, and the problem is
// reported.
func TestBadRatios(t *testing.T) {
	for ratio, want := range map[string]struct {
		cpu, Annotation, trouble, raw string
	}{
		`{`:                           {"15900m/16", "60Gi/64Gi", "ratio-malformed", ""},
		`null`:                        {"15900m/16", "60Gi/64Gi", "ratio-malformed", ""},
		`[1]`:                         {"15900m/16", "60Gi/64Gi", "ratio-malformed", ""},
		`{"cpu":2,"cpu":3}`:           {"15900m/16", "60Gi/64Gi", "ratio-malformed", ""},
		`{"cpu":"2"}`:                 {"15900m/16", "60Gi/64Gi", "ratio-refused", bothRaw},
		`{"cpu":null,"memory":1.25}`:  {"15900m/16", "75Gi/64Gi", "ratio-refused", bothRaw},
		`{"cpu":0.5}`:                 {"15900m/16", "60Gi/64Gi", "ratio-refused", bothRaw},
		`{"cpu":-2}`:                  {"15900m/16", "60Gi/64Gi", "ratio-refused", bothRaw},
		`{"cpu":0}`:                   {"15900m/16", "60Gi/64Gi", "ratio-refused", bothRaw},
		`{"cpu":1e99}`:                {"15900m/16", "60Gi/64Gi", "ratio-refused", bothRaw},
		`{"cpu":1e999999999}`:         {"15900m/16", "60Gi/64Gi", "ratio-refused", bothRaw},
		`{"cpu":4.01,"memory":1.25}`:  {"15900m/16", "75Gi/64Gi", "ratio-refused", bothRaw},
		`{"eni":2}`:                   {"15900m/16", "60Gi/64Gi", "ratio-foreign", bothRaw},
		`{"CPU":2,"memory":1.25}`:     {"15900m/16", "75Gi/64Gi", "ratio-foreign", bothRaw},
		`{"cpu":{"a":1},"memory":[]}`: {"15900m/16", "60Gi/64Gi", "ratio-refused", bothRaw},
	} {
		k := newKoordinated(t, `{"cpu":2,"memory":2}`)
		k.pool(sections.AmplificationPool{Name: "all", MaxRatios: texts{"cpu": "4"}})
		k.measure()
		k.mark(ratioKey, ratio)
		for _, write := range []func(){func() { k.Echo(amplifytest.Controller) }, k.measure} {
			write()
			k.Want(ratio, "cpu", want.cpu)
			k.Want(ratio, "memory", want.Annotation)
			k.wantRaw(ratio, want.raw)
			if !slices.Contains(k.Tolerated, want.trouble) || len(k.Warnings) == 0 {
				t.Errorf("%s: troubles %v, warnings %v", ratio, k.Tolerated, k.Warnings)
			}
		}
	}
}

// Koordinator's list of originals may be damaged or forged: our own entry counts, and the list is written again.
func TestRawAnnotationIsRepaired(t *testing.T) {
	for _, raw := range []string{"", "null", "{", `{"cpu":"1"}`, `{"cpu":"31800m"}`, `{"cpu":"1e99999999"}`, `{"cpu":7}`, `{"eni":"1"}`} {
		for _, user := range []string{amplifytest.Kubelet, amplifytest.Controller} {
			k := newKoordinated(t, `{"cpu":2}`)
			k.measure()
			k.mark(rawKey, raw)
			k.Echo(user)
			k.Want("raw "+raw, "cpu", "31800m/16")
			k.wantRaw("raw "+raw, bothRaw)
		}
	}
}

// Our entry is missing, but Koordinator's list explains the number, as when usher takes over from Koordinator's
// webhook.
func TestTakesOverFromKoordinator(t *testing.T) {
	k := newKoordinated(t, `{"cpu":2}`)
	k.Away = true
	k.Post(amplifytest.Kubelet, "cpu:31800m/16", "memory:60Gi/64Gi")
	k.mark(rawKey, bothRaw)
	k.Away = false
	k.Echo(amplifytest.Controller)
	k.Want("taken over", "cpu", "31800m/16")
	if len(k.Tolerated) > 0 || !strings.Contains(k.Annotation(), `"15900m"`) {
		t.Fatalf("%v %s", k.Tolerated, k.Annotation())
	}
	k.mark(amplify.AnnotationKey, "")
	k.mark(ratioKey, "")
	k.mark(ratioKey, `{"cpu":2}`)
	k.Echo(amplifytest.Controller)
	k.Want("our memory was lost", "cpu", "31800m/16")
	for raw, noted := range map[string]string{`{"cpu":"31800m"}`: `{"cpu":"31800m","memory":"60Gi"}`,
		`{"cpu":"15901m"}`: `{"cpu":"15901m","memory":"60Gi"}`, `{"cpu":"0"}`: `{"cpu":"0","memory":"60Gi"}`, "": `{"memory":"60Gi"}`} {
		k.mark(amplify.AnnotationKey, "{")
		k.mark(rawKey, raw)
		k.Echo(amplifytest.Controller)
		k.Want("nothing explains the number, raw "+raw, "cpu", "31800m/16")
		if !slices.Contains(k.Tolerated, "original-unknown") {
			t.Errorf("raw %s: troubles %v", raw, k.Tolerated)
		}
		k.wantRaw("what nobody knows stays as it was noted", noted)
		if k.Annotation() != "{" {
			t.Errorf("raw %s: the damaged memory became %q before the kubelet taught anything", raw, k.Annotation())
		}
	}
	k.measure()
	k.Want("the kubelet teaches", "cpu", "31800m/16")
	k.wantRaw("the kubelet teaches", bothRaw)
}

func TestAmplifiedOneResourceChanges(t *testing.T) {
	k := newKoordinated(t, `{"cpu":2,"memory":2}`)
	k.Post(amplifytest.Kubelet, "cpu:4/4", "memory:8Gi/8Gi")
	k.Post(amplifytest.Kubelet, "memory:7Gi/")
	k.Want("only memory in the kubelet's patch", "cpu", "8/4")
	k.Want("only memory in the kubelet's patch", "memory", "14Gi/8Gi")
	k.Post(amplifytest.Controller, "cpu:3/")
	k.Want("only cpu, by another", "cpu", "6/4")
	k.Want("only cpu, by another", "memory", "14Gi/8Gi")
}

func TestAmplifiedWhileAway(t *testing.T) {
	k := newKoordinated(t, `{"cpu":2}`)
	k.measure()
	k.Away = true
	k.Post(amplifytest.Kubelet, "cpu:17900m/18")
	k.mark(ratioKey, `{"cpu":3}`)
	k.Away = false
	k.Echo(amplifytest.Kubelet)
	k.Want("back", "cpu", "53700m/18")
	k.Post(amplifytest.Kubelet, "cpu:/60")
	k.Want("the measured number equals the amplified one: told by capacity", "cpu", "161100m/60")
}

// A kubelet must not amplify its own node by an annotation in a status write; its other changes stay.
func TestKubeletChangesTheRatio(t *testing.T) {
	for _, user := range []string{amplifytest.Kubelet, "system:node:n2"} {
		for _, text := range []string{`{"cpu":4}`, "", "{"} {
			k := newKoordinated(t, `{"cpu":1.5}`)
			k.measure()
			k.Write(user, func(node amplifytest.Object) {
				annotations := node["metadata"].(amplifytest.Object)["annotations"].(amplifytest.Object)
				annotations[ratioKey], annotations["note"] = text, "new"
				if text == "" {
					delete(annotations, ratioKey)
				}
			})
			if k.marked(ratioKey) != `{"cpu":1.5}` || k.marked("note") != "new" || !slices.Contains(k.Tolerated, "ratio-put-back") || len(k.Warnings) == 0 {
				t.Errorf("%s writes %q: %q, %q, %v", user, text, k.marked(ratioKey), k.marked("note"), k.Tolerated)
			}
			k.Want("put back", "cpu", "23850m/16")
		}
	}
	k := newKoordinated(t, "")
	k.Write(amplifytest.Kubelet, func(node amplifytest.Object) {
		node["metadata"].(amplifytest.Object)["annotations"] = amplifytest.Object{ratioKey: `{"cpu":4}`}
		amplifytest.Put(node, "allocatable", "cpu", "15900m")
	})
	k.Want("added", "cpu", "15900m/<nil>")
	if k.marked(ratioKey) != "" {
		t.Error("the annotation stays")
	}
	k.Write("kubernetes-admin", func(node amplifytest.Object) {
		node["metadata"].(amplifytest.Object)["annotations"] = amplifytest.Object{ratioKey: `{"cpu":4}`}
	})
	if k.marked(ratioKey) == "" || len(k.Tolerated) > 1 { // the original is unknown, because the kubelet measured before there was a ratio
		t.Errorf("an administrator's change: %q %v", k.marked(ratioKey), k.Tolerated)
	}
}

// The order of the sources, resource by resource, and every transition between them.
func TestSourcesOfRatios(t *testing.T) {
	const cpuLabel, memoryLabel = api.LabelOvercommitPrefix + "cpu", api.LabelOvercommitPrefix + "memory"
	k := newKoordinated(t, `{"cpu":1.5,"memory":1.5}`)
	k.measure()
	k.wantBy("annotation", sections.ByAnnotation)
	check := func(when, by, cpu, Annotation string) {
		t.Helper()
		k.Echo(amplifytest.Controller)
		k.Want(when, "cpu", cpu)
		k.Want(when, "memory", Annotation)
		k.wantBy(when, by)
	}
	k.label(cpuLabel, "3")
	check("a label", sections.ByLabel, "47700m/16", "90Gi/64Gi")
	k.slo = map[string]string{"cpu": "2"}
	check("the SLO configuration is not asked for", sections.ByLabel, "47700m/16", "90Gi/64Gi")
	k.pool(sections.AmplificationPool{Name: "other", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"no": "node"}}, Ratios: texts{"cpu": "4"}})
	check("the SLO configuration", sections.BySLOConfig, "31800m/16", "90Gi/64Gi")
	k.slo = map[string]string{"cpu": "many"}
	k.Echo(amplifytest.Controller)
	k.Want("it is wrong: nobody else is asked", "cpu", "15900m/16")
	k.pool(sections.AmplificationPool{Name: "p", Ratios: texts{"cpu": "1.25"}})
	check("a pool", "pool p", "19875m/16", "90Gi/64Gi")
	k.pool(sections.AmplificationPool{Name: "p", Ratios: texts{"cpu": "1"}})
	check("a pool says 1", sections.ByAnnotation, "15900m/16", "90Gi/64Gi")
	k.policy, k.slo = nil, nil
	k.label(memoryLabel, "0.5")
	check("the pool is gone, a label is wrong", sections.ByLabel, "47700m/16", "60Gi/64Gi")
	if !slices.Contains(k.Tolerated, "ratio-refused") {
		t.Error(k.Tolerated)
	}
	k.label(cpuLabel, "")
	k.label(memoryLabel, "")
	check("back to the annotation", sections.ByAnnotation, "23850m/16", "90Gi/64Gi")
	k.pool(sections.AmplificationPool{Name: "p", MaxRatios: texts{"cpu": "1.5", "memory": "1.25"}})
	k.Echo(amplifytest.Controller)
	k.Want("at its bound", "cpu", "23850m/16")
	k.Want("above its bound", "memory", "60Gi/64Gi")
}

// used is a metric of node n1; amounts are of cpu.
func (k *koordinated) used(amounts map[string]string) {
	m := &api.NodeMetric{}
	m.Status.UpdateTime = &metav1.Time{Time: k.now}
	for window, amount := range amounts {
		length, _ := time.ParseDuration(window)
		usage := api.AggregatedUsage{Duration: metav1.Duration{Duration: length}}
		usage.Usage.P95.Resources = api.ResourceList{"cpu": resource.MustParse(amount)}
		m.Status.NodeMetric.AggregatedNodeUsages = append(m.Status.NodeMetric.AggregatedNodeUsages, usage)
	}
	k.metrics = map[string]*api.NodeMetric{"n1": m}
}

func TestRatioFollowsUse(t *testing.T) {
	k := newKoordinated(t, "")
	limited := func(ratio string) {
		k.pool(sections.AmplificationPool{Name: "p", Ratios: texts{"cpu": ratio}, MaxUtilization: map[corev1.ResourceName]int{"cpu": 50}})
	}
	limited("2")
	k.Post(amplifytest.Kubelet, "cpu:16/16")
	k.Want("never measured", "cpu", "16/16")
	if k.Annotation() != "" {
		t.Errorf("nothing is effective yet: %s", k.Annotation())
	}
	for _, step := range []struct{ p95, cpu string }{
		{"4", "32/16"},         // 25 %: twice the ratio fits
		{"8", "32/16"},         // just at the bound
		{"8400m", "32/16"},     // 1.90: 5 %, not more
		{"8500m", "30080m/16"}, // 1.88
		{"8600m", "30080m/16"}, // 1.86: about the same
		{"10", "25600m/16"},    // 1.6
		{"16", "16/16"},        // 1
		{"15300m", "16/16"},    // 1.04
		{"15900m", "16/16"},    // 1.00
		{"15", "16960m/16"},    // 1.06
		{"0", "32/16"},
		{"100", "16/16"}, // more than there is
		{"7", "32/16"},
	} {
		k.used(map[string]string{"24h": step.p95, "5m": "1"})
		k.Post(amplifytest.Kubelet, "cpu:16/16")
		k.Want("p95 "+step.p95, "cpu", step.cpu)
		k.Echo(amplifytest.Controller)
		k.Want("p95 "+step.p95+", echo", "cpu", step.cpu)
	}
	k.used(map[string]string{"24h": "10"})
	k.Echo(amplifytest.Controller)
	k.Want("a metric", "cpu", "25600m/16")
	for when, change := range map[string]func(){
		"stale":      func() { k.used(map[string]string{"24h": "1"}); k.now = k.now.Add(metricAge + time.Second) },
		"no p95":     func() { k.used(nil) },
		"never told": func() { k.used(map[string]string{"24h": "1"}); k.metrics["n1"].Status.UpdateTime = nil },
		"negative":   func() { k.used(map[string]string{"24h": "-1"}) },
		"gone":       func() { k.metrics = nil },
		"another node": func() {
			k.used(map[string]string{"24h": "1"})
			k.metrics = map[string]*api.NodeMetric{"n2": k.metrics["n1"]}
		},
	} {
		k.used(map[string]string{"24h": "10"})
		change()
		k.Echo(amplifytest.Controller)
		k.Want(when+": the last ratio stays", "cpu", "25600m/16")
		k.Post(amplifytest.Kubelet, "cpu:16/16")
		k.Want(when+": the last ratio stays", "cpu", "25600m/16")
	}
	k.metrics = nil
	limited("1.2")
	k.Echo(amplifytest.Controller)
	k.Want("the pool wants less", "cpu", "19200m/16")
	limited("3")
	k.Echo(amplifytest.Controller)
	k.Want("the pool wants more, but nobody measures", "cpu", "19200m/16")
	k.used(map[string]string{"24h": "7800m"})
	k.Echo(amplifytest.Controller)
	k.Want("measured", "cpu", "48/16")
	limited("3.06")
	k.Echo(amplifytest.Controller)
	k.Want("another wish is taken up at once", "cpu", "48960m/16")
	k.pool(sections.AmplificationPool{Name: "p", Ratios: texts{"cpu": "2"}})
	k.metrics = nil
	k.Echo(amplifytest.Controller)
	k.Want("use is not looked at any more", "cpu", "32/16")
	k.pool()
	k.Echo(amplifytest.Controller)
	k.Want("the pool is gone", "cpu", "16/16")
}

// The use of a node whose capacity was raised by the core suite, which served it before, is the use of its true size.
func TestUseOfRaisedCapacity(t *testing.T) {
	k := newKoordinated(t, "")
	k.pool(sections.AmplificationPool{Name: "p", Ratios: texts{"cpu": "2"}, MaxUtilization: map[corev1.ResourceName]int{"cpu": 50}})
	k.used(map[string]string{"24h": "10"})
	k.mark(amplify.AnnotationKey, `{"cpu":{"raw":{"allocatable":"16","capacity":"16"},"result":{"allocatable":"48","capacity":"48"},"ratio":"3","by":"pool default"}}`)
	k.Stored["status"] = amplifytest.Object{"allocatable": amplifytest.Object{"cpu": "48"}, "capacity": amplifytest.Object{"cpu": "48"}}
	k.Echo(amplifytest.Controller)
	k.Want("the first write", "cpu", "25600m/16")
	k.Echo(amplifytest.Controller)
	k.Want("the second write", "cpu", "25600m/16")
}

// A kubelet that forges the last effective ratio in its request gains nothing.
func TestLastRatioForged(t *testing.T) {
	k := newKoordinated(t, "")
	k.pool(sections.AmplificationPool{Name: "p", Ratios: texts{"cpu": "2"}, MaxUtilization: map[corev1.ResourceName]int{"cpu": 50}})
	k.used(map[string]string{"24h": "10"})
	k.Post(amplifytest.Kubelet, "cpu:16/16")
	k.Want("measured", "cpu", "25600m/16")
	k.metrics = nil
	k.Write(amplifytest.Kubelet, func(node amplifytest.Object) {
		node["metadata"].(amplifytest.Object)["annotations"].(amplifytest.Object)[amplify.AnnotationKey] =
			`{"cpu":{"raw":{"allocatable":"16","capacity":"16"},"result":{"allocatable":"31520m"},"ratio":"1.97","wanted":"2","by":"pool p"}}`
	})
	k.Want("forged", "cpu", "25600m/16")
}

// Without a ratio nothing is read, written or reported, whatever the numbers are.
func TestSilentNode(t *testing.T) {
	k := newKoordinated(t, "")
	k.pool(sections.AmplificationPool{Name: "bounds", MaxRatios: texts{"cpu": "2"}})
	for _, cpu := range []string{"nonsense", "15900m", "63"} {
		k.Post(amplifytest.Kubelet, "cpu:"+cpu+"/16")
		if k.Annotation() != "" || k.marked(rawKey) != "" || len(k.Warnings)+len(k.Tolerated) > 0 {
			t.Errorf("%s: %s %s %v", cpu, k.Annotation(), k.marked(rawKey), k.Tolerated)
		}
	}
}

// On dry run the answer is the same: the step has no side effects.
func TestDryRunIsTheSame(t *testing.T) {
	k := newKoordinated(t, `{"cpu":2}`)
	sent := k.Parse([]byte(`{"metadata":{"name":"n1","annotations":{"` + ratioKey + `":"{\"cpu\":2}"}},"status":{"allocatable":{"cpu":"4"},"capacity":{"cpu":"4"}}}`))
	req := &admit.Request{Object: sent, OldObject: sent, DryRun: true}
	req.UserInfo.Username = amplifytest.Kubelet
	if _, err := admit.Mutate(admit.AsNode, k.Steps()).Run(t.Context(), req, nil); err != nil || len(sent.Patch()) != 3 {
		t.Errorf("%v %v", err, sent.Patch())
	}
}

// TestRandomKoordinated chooses the writers and the writes at random. Allocatable never exceeds the largest original
// that the kubelet ever measured × the pool's bound, and the kubelet's own write gives the exact result.
func TestRandomKoordinated(t *testing.T) {
	r := seed.Random(t)
	for n := range 200 {
		k := newKoordinated(t, `{"cpu":2}`)
		k.pool(sections.AmplificationPool{Name: "p", MaxRatios: texts{"cpu": "4"}, MaxUtilization: map[corev1.ResourceName]int{"memory": 60}})
		cores := int64(4 + r.IntN(60))
		largest := cores
		pick := func(list ...string) string { return list[r.IntN(len(list))] }
		post := func() {
			k.Post(amplifytest.Kubelet, fmt.Sprintf("cpu:%dm/%d", cores*1000-100, cores), "memory:8Gi/8Gi")
		}
		annotations := map[string]any{}
		events := []func(){
			func() { k.Echo(amplifytest.Controller) },
			func() { k.Echo(amplifytest.Kubelet) },
			func() {
				k.mark(ratioKey, pick(`{"cpu":2}`, `{"cpu":1.5,"memory":1.2}`, `{"cpu":9}`, `{`, `{}`, ``, `{"cpu":4}`, `{"eni":1}`))
			},
			func() { k.label(api.LabelOvercommitPrefix+"cpu", pick("", "", "3", "x", "1", "1.5")) },
			func() { k.mark(amplify.AnnotationKey, pick("", "{", "{}", k.Annotation())) },
			func() { k.mark(rawKey, pick("", "{", "{}", k.marked(rawKey))) },
			func() { cores = int64(4 + r.IntN(60)); largest = max(largest, cores) },
			post,
			func() { k.Post(amplifytest.Controller, fmt.Sprintf("memory:%dGi/", 1+r.IntN(9))) },
			func() { k.Away = true; post(); k.Away = false },
			func() {
				k.Write(amplifytest.Kubelet, func(node amplifytest.Object) {
					node["metadata"].(amplifytest.Object)["annotations"] = annotations
				})
			},
		}
		for range 60 {
			annotations = amplifytest.Object{ratioKey: pick(`{"cpu":4}`, `{"cpu":100}`), rawKey: pick("", `{"cpu":"1"}`)}
			events[r.IntN(len(events))]()
			if _, wrong := amplify.ReadAnnotation(k.Annotation(), true); wrong {
				post() // as with overcommit: without an entry, the kubelet's next sync follows
			}
			got := resource.MustParse(fmt.Sprint(orZero(k.Stored["status"].(amplifytest.Object)["allocatable"].(amplifytest.Object)["cpu"])))
			if got.MilliValue() > 4*(largest*1000-100) {
				t.Fatalf("case %d: compounded to %s of %d cores, memory %s", n, got.String(), largest, k.Annotation())
			}
		}
		k.mark(ratioKey, `{"cpu":2}`)
		k.label(api.LabelOvercommitPrefix+"cpu", "")
		post()
		k.Want(fmt.Sprintf("case %d: kubelet posts", n), "cpu", fmt.Sprintf("%s/%d", amplifytest.Milli(2*(cores*1000-100)), cores))
		k.wantRaw(fmt.Sprintf("case %d", n), fmt.Sprintf(`{"cpu":"%s","memory":"8Gi"}`, amplifytest.Milli(cores*1000-100)))
		k.mark(ratioKey, "")
		k.Echo(amplifytest.Controller)
		k.Want(fmt.Sprintf("case %d: switched off", n), "cpu", fmt.Sprintf("%s/%d", amplifytest.Milli(cores*1000-100), cores))
	}
}

func orZero(v any) any {
	if v == nil {
		return "0"
	}
	return v
}

// FuzzNodeAnnotations: whatever annotations and labels contain, a heartbeat is never refused and never fails, its patch
// applies, and a second run gives none.
func FuzzNodeAnnotations(f *testing.F) {
	f.Add(`{"cpu":1.5}`, `{"cpu":"4"}`, `{"cpu":{"raw":{"allocatable":"4","capacity":"8"},"result":{"allocatable":"6"},"ratio":"1.5","by":"x"}}`, "2", "6", true)
	f.Add(`{"cpu":1e99,"memory":[]}`, `null`, `{`, "x", "1e40", false)
	f.Add(`{"cpu":1.5}`, `{"cpu":"4"}`, ``, "", "6", false)
	f.Fuzz(func(t *testing.T, ratio, raw, remembered, label, cpu string, byKubelet bool) {
		k := newKoordinated(t, ratio)
		k.pool(sections.AmplificationPool{Name: "p", MaxRatios: texts{"cpu": "4"}, MaxUtilization: map[corev1.ResourceName]int{"cpu": 60}})
		k.used(map[string]string{"1h": "3"})
		k.mark(rawKey, raw)
		k.mark(amplify.AnnotationKey, remembered)
		k.label(api.LabelOvercommitPrefix+"cpu", label)
		user := amplifytest.Controller
		if byKubelet {
			user = amplifytest.Kubelet
		}
		k.Post(user, "cpu:"+cpu+"/8")
		k.Echo(amplifytest.Controller)
		k.Post(amplifytest.Kubelet, "cpu:4/8")
	})
}

// The heartbeats of a node of 30 KB, from the bytes of the review to the patch; "read" is the cost of reading alone.
func BenchmarkHeartbeats(b *testing.B) {
	const mem = `{"cpu":{"raw":{"allocatable":"15900m","capacity":"16"},"result":{"allocatable":"31800m"},"ratio":"2","by":"annotation"}}`
	marks := amplifytest.Object{ratioKey: `{"cpu":2}`, rawKey: bothRaw, amplify.AnnotationKey: mem}
	steps := []admit.Mutator[admit.Node]{nodeAmplification(&sections.NodeAmplification{Pools: []sections.AmplificationPool{
		{Name: "batch", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "batch"}}, Ratios: texts{"cpu": "2"}},
		{Name: "all", MaxRatios: texts{"cpu": "4"}},
	}}, nil, nil)}
	for _, c := range []struct {
		name, now   string
		annotations amplifytest.Object
		chain       admit.Chain
	}{
		{"read", "31800m", marks, admit.Chain{}},
		{"no-annotation", "15900m", amplifytest.Object{}, admit.Mutate(admit.AsNode, steps)},
		{"unchanged", "31800m", marks, admit.Mutate(admit.AsNode, steps)},
		{"amplified", "15900m", marks, admit.Mutate(admit.AsNode, steps)},
	} {
		body, _ := json.Marshal(amplifytest.Object{"object": heartbeatOf(c.now, c.annotations), "oldObject": heartbeatOf("31800m", c.annotations)})
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				review, err := document.Parse(body)
				if err != nil {
					b.Fatal(err)
				}
				req := &admit.Request{Object: review.Root().Get("object").Sub(), OldObject: review.Root().Get("oldObject").Sub(), Review: review}
				req.UserInfo.Username = amplifytest.Kubelet
				if _, err := c.chain.Run(b.Context(), req, nil); err != nil {
					b.Fatal(err)
				}
				if patched := req.Object.PatchJSON() != nil; patched != (c.name == "amplified") {
					b.Fatalf("patched: %v", patched)
				}
				req.Release()
			}
		})
	}
}

// heartbeatOf returns a node of 30 KB, most of it images.
func heartbeatOf(cpu string, annotations amplifytest.Object) amplifytest.Object {
	var images []any
	for i := range 170 {
		images = append(images, amplifytest.Object{"sizeBytes": 98765432 + i, "names": []any{
			fmt.Sprintf("registry.example.com/team-%d/service@sha256:29c34ae123ffc298fb3a8fed72acd1117d177d3eeb29b5bbbc2d5cf0a3c4b592", i),
			fmt.Sprintf("registry.example.com/team-%d/service:v1", i)}})
	}
	return amplifytest.Object{
		"kind": "Node", "apiVersion": "v1",
		"metadata": amplifytest.Object{"name": "n1", "annotations": annotations, "labels": amplifytest.Object{"kubernetes.io/os": "linux", "zone": "a"}},
		"status": amplifytest.Object{"images": images, "allocatable": amplifytest.Object{"cpu": cpu, "memory": "60Gi", "pods": "110"},
			"capacity": amplifytest.Object{"cpu": "16", "memory": "64Gi", "pods": "110"}},
	}
}
