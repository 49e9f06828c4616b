package mutators

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/profile"
	"usher.dev/usher/test/amplifytest"

	"usher.dev/usher/test/seed"
	"usher.dev/usher/validators/workload"
)

// colocationOf answers from profiles given as YAML documents, two namespaces and some classes. It ignores problems of
// the profiles.
func colocationOf(t testing.TB, documents ...string) ProfileQuestions {
	t.Helper()
	var list []api.ClusterColocationProfile
	for _, text := range strings.Split(strings.Join(documents, "\n---\n"), "\n---\n") {
		var p api.ClusterColocationProfile
		if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		list = append(list, p)
	}
	set, _ := profile.Compile(list)
	return ProfileQuestions{
		Profiles:        func() (*profile.Set, error) { return set, nil },
		Namespace:       namespaceOf,
		OwnersNamespace: namespaceOf,
		PriorityClass:   priorityClassOf,
		LimitRanges:     noRanges,
	}
}

func noRanges(string) ([]*corev1.LimitRange, error) { return nil, nil }

func namespaceOf(name string) (map[string]string, bool, error) {
	labels, known := map[string]map[string]string{"colocation": {"enable-koordinator-colocation": "true"}, "other": nil}[name]
	return labels, known, nil
}

func priorityClassOf(name string) (int32, *corev1.PreemptionPolicy, bool, error) {
	value, known := map[string]int32{
		"koordinator-batch": 5999, "koord-batch": 5000, "koord-mid": 7000, "koord-free": 3000, "koord-prod": 9000, "koordinator-prod": 9500,
		"odd": 6666, "five": 5500,
	}[name]
	switch name {
	case "koordinator-batch", "koordinator-prod":
		return value, new(corev1.PreemptNever), known, nil
	case "five", "odd":
		return value, nil, known, nil
	}
	return value, new(corev1.PreemptLowerPriority), known, nil
}

// basePod and baseProfile come from the reference's tests.
const basePod = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"colocation","name":"test-pod","labels":{"koordinator-colocation-pod":"true"}},
	"spec":{"initContainers":[{"name":"i","resources":{"limits":{"cpu":"500m","memory":"1Gi"},"requests":{"cpu":"500m","memory":"1Gi"}}}],
	"containers":[{"name":"c","resources":{"limits":{"cpu":"1","memory":"4Gi"},"requests":{"cpu":"1","memory":"4Gi"}}}],
	"overhead":{"cpu":"1","memory":"2Gi"},"schedulerName":"nonExistSchedulerName","priority":5999}}`

const baseProfile = `
metadata: {name: profile, annotations: {}}
spec:
  namespaceSelector: {matchLabels: {enable-koordinator-colocation: "true"}}
  selector: {matchLabels: {koordinator-colocation-pod: "true"}}
  labels: {testLabelA: valueA}
  annotations: {testAnnotationA: valueA}
  schedulerName: koordinator-scheduler
  qosClass: BE
  priorityClassName: koordinator-batch
  koordinatorPriority: 1111
  patch: {metadata: {labels: {test-patch-label: patch-a}, annotations: {test-patch-annotation: patch-b}}}
`

// The outcome of the base case, by parts.
const (
	injected = `labels: koordinator-colocation-pod=true koordinator.sh/priority=1111 koordinator.sh/qosClass=BE test-patch-label=patch-a testLabelA=valueA
annotations: test-patch-annotation=patch-b testAnnotationA=valueA
scheduler: koordinator-scheduler, class: koordinator-batch 5999 Never
`
	untouched = `labels: koordinator-colocation-pod=true
annotations: 
scheduler: nonExistSchedulerName, class:  5999 
`
	batch = `i limits: batch-cpu=500 batch-memory=1Gi, requests: batch-cpu=500 batch-memory=1Gi
c limits: batch-cpu=1k batch-memory=4Gi, requests: batch-cpu=1k batch-memory=4Gi
overhead: cpu=1 memory=2Gi
`
	native = `i limits: cpu=500m memory=1Gi, requests: cpu=500m memory=1Gi
c limits: cpu=1 memory=4Gi, requests: cpu=1 memory=4Gi
overhead: cpu=1 memory=2Gi
`
)

// tell describes what profiles change of a pod.
func tell(raw []byte) string {
	var pod corev1.Pod
	if err := json.Unmarshal(raw, &pod); err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "labels: %s\nannotations: %s\nscheduler: %s, class: %s", tellMap(pod.Labels), tellMap(pod.Annotations),
		pod.Spec.SchedulerName, pod.Spec.PriorityClassName)
	if pod.Spec.Priority != nil {
		fmt.Fprintf(&b, " %d ", *pod.Spec.Priority)
	}
	if pod.Spec.PreemptionPolicy != nil {
		b.WriteString(string(*pod.Spec.PreemptionPolicy))
	}
	b.WriteByte('\n')
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		fmt.Fprintf(&b, "%s limits: %s, requests: %s\n", c.Name, tellList(c.Resources.Limits), tellList(c.Resources.Requests))
	}
	if pod.Spec.Resources != nil {
		fmt.Fprintf(&b, "pod limits: %s, requests: %s\n", tellList(pod.Spec.Resources.Limits), tellList(pod.Spec.Resources.Requests))
	}
	if pod.Spec.Overhead != nil {
		fmt.Fprintf(&b, "overhead: %s\n", tellList(pod.Spec.Overhead))
	}
	return b.String()
}

func tellMap(m map[string]string) string {
	var parts []string
	for _, pair := range profile.Sorted(m) {
		parts = append(parts, pair.Key+"="+pair.Value)
	}
	return strings.Join(parts, " ")
}

func tellList(l corev1.ResourceList) string {
	texts := map[string]string{}
	for name, q := range l {
		texts[strings.TrimPrefix(string(name), "kubernetes.io/")] = q.String()
	}
	return tellMap(texts)
}

// colocate runs the step on a pod of namespace colocation and returns the result. A second run must change nothing.
func colocate(t testing.TB, ask ProfileQuestions, raw string) ([]byte, *admit.Request, error) {
	t.Helper()
	step := colocationProfile(ask, false)
	after, req, err := runOnce(t, step, admit.AsPod, raw)
	if err != nil {
		return nil, req, err
	}
	again, _, err := runOnce(t, step, admit.AsPod, string(after))
	if err != nil || string(again) != string(after) {
		t.Errorf("the second run gives %v\n%s\nand not\n%s", err, again, after)
	}
	return after, req, nil
}

// runOnce runs a step and applies the patch as the API server does.
func runOnce[T any](t testing.TB, step admit.Mutator[T], as func(*document.Document) *T, raw string) ([]byte, *admit.Request, error) {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	req := &admit.Request{Object: d, Namespace: "colocation"}
	if err := d.Try(func() error { return step.Run(t.Context(), req, as(d)) }); err != nil {
		return nil, req, err
	}
	if d.Err() != nil {
		return nil, req, d.Err()
	}
	ops := d.PatchJSON()
	if ops == nil {
		return []byte(raw), req, nil
	}
	patch, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", ops, err)
	}
	return after, req, nil
}

// with replaces a part of a text, which must be present.
func with(t testing.TB, text string, oldNew ...string) string {
	t.Helper()
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(text, oldNew[i]) {
			t.Fatalf("no %q in %s", oldNew[i], text)
		}
		text = strings.ReplaceAll(text, oldNew[i], oldNew[i+1])
	}
	return text
}

// plus adds pairs to a line of tell.
func plus(text, line string, pairs ...string) string {
	before, rest, _ := strings.Cut(text, line)
	all, after, _ := strings.Cut(rest, "\n")
	pairs = append(pairs, strings.Fields(all)...)
	slices.Sort(pairs)
	return before + line + strings.Join(pairs, " ") + "\n" + after
}

func spec(profileText, more string) string { return strings.TrimRight(profileText, "\n") + "\n" + more }

// TestColocationProfile is the table of the reference's own tests, with the outcomes that are better.
func TestColocationProfile(t *testing.T) {
	limits, requests := `"limits":{"cpu":"1","memory":"4Gi"}`, `"requests":{"cpu":"1","memory":"4Gi"}`
	labelled := with(t, basePod, `"koordinator-colocation-pod":"true"`, `"koordinator-colocation-pod":"true","test-label-key":"test-label-value"`)
	annotated := with(t, basePod, `"labels"`, `"annotations":{"from":"value"},"labels"`)
	drawn := admit.Origin{Namespace: "colocation", Kind: "Pod", Name: "test-pod"}.Draw("profile")
	cases := []struct{ name, profile, pod, want string }{
		{"base", baseProfile, basePod, injected + batch},
		{"another namespace label", with(t, baseProfile, `colocation: "true"}}`, `colocation: "yes"}}`), basePod, untouched + native},
		{"another pod label", with(t, baseProfile, `pod: "true"}}`, `pod: "yes"}}`), basePod, untouched + native},
		{"limits only", baseProfile, with(t, basePod, ","+requests, ""), injected + batch},
		{"requests only", baseProfile, with(t, basePod, limits+",", ""), injected + with(t, batch, "c limits: batch-cpu=1k batch-memory=4Gi", "c limits: ")},
		{"probability 100", spec(baseProfile, "  probability: 100"), basePod, injected + batch},
		{"probability 0", spec(baseProfile, "  probability: 0"), basePod, untouched + native},
		{"probability as drawn", spec(baseProfile, fmt.Sprintf("  probability: %d%%", drawn)), basePod, untouched + native},
		{"probability above what is drawn", spec(baseProfile, fmt.Sprintf("  probability: %d", drawn+1)), basePod, injected + batch},
		{"skip-update-resources", with(t, baseProfile, "annotations: {}}", "annotations: {"+api.AnnotationSkipUpdateResources+": ''}}"), basePod, injected + native},
		{"label mapping", spec(baseProfile, "  labelKeysMapping: {test-label-key: new-key}"), labelled,
			plus(injected, "labels: ", "new-key=test-label-value", "test-label-key=test-label-value") + batch},
		{"mapping without source", spec(with(t, baseProfile, "  schedulerName: koordinator-scheduler\n", ""),
			"  labelKeysMapping: {absent: scheduling.koordinator.sh/scheduler-name}"), basePod,
			with(t, injected, "koordinator-scheduler", "nonExistSchedulerName") + batch},
		{"annotation mapping", spec(baseProfile, "  annotationKeysMapping: {from: to, absent: x}"), annotated,
			plus(injected, "annotations: ", "from=value", "to=value") + batch},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			after, _, err := colocate(t, colocationOf(t, c.profile), c.pod)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, tell(after)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLabelSuffixes: a suffix is appended once, to the result of labels and mappings.
func TestLabelSuffixes(t *testing.T) {
	pod := func(labels string) string { return `{"metadata":{"name":"p","labels":{` + labels + `}}}` }
	suffixes := func(name, more string) string {
		return "metadata: {name: " + name + "}\nspec:\n  labelSuffixes: {existing: -1suffix, mapped: suffix-0, absent: -x}" + more
	}
	both := suffixes("a", "\n---\nmetadata: {name: b}\nspec:\n  labelSuffixes: {existing: -two, mapped: suffix-0}")
	long := strings.Repeat("x", 56)
	cases := []struct{ profiles, pod, want string }{
		{suffixes("a", "\n  labels: {existing: label-value}\n  labelKeysMapping: {test-label-key: mapped}"), pod(`"test-label-key":"test-label-value"`),
			"existing=label-value-1suffix mapped=test-label-valuesuffix-0 test-label-key=test-label-value"},
		{suffixes("a", ""), pod(`"existing":"v-1suffix","mapped":""`), "existing=v-1suffix mapped=suffix-0"},
		{both, pod(`"existing":"v","mapped":"m"`), "existing=v-1suffix-two mapped=msuffix-0"},
		{both + "\n  labels: {existing: w}", pod(`"existing":"v"`), "existing=w-two"},
		{both, pod(`"existing":"v-1suffix-1suffix-two"`), "existing=v-1suffix-1suffix-two"},
		{suffixes("a", ""), pod(`"existing":"` + long + `"`), `metadata.labels[existing]: Invalid value: "` + long + `-1suffix": ` +
			`colocation profile a appends "-1suffix" to "` + long + `": must be no more than 63 bytes; ` +
			`shorten the label, or correct the profile's spec.labelSuffixes`},
		{"metadata: {name: a}\nspec: {labelSuffixes: {existing: -}}", pod(`"existing":"v"`), "must start and end with an alphanumeric character"},
	}
	for _, c := range cases {
		after, _, err := colocate(t, colocationOf(t, c.profiles), c.pod)
		got := fmt.Sprint(err)
		if err == nil {
			got = strings.TrimPrefix(strings.Split(tell(after), "\n")[0], "labels: ")
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s on %s: %s, want %s", c.profiles, c.pod, got, c.want)
		}
	}
}

// TestMappings: all values are read before any copy is made, and a missing one is not copied.
func TestMappings(t *testing.T) {
	one := "metadata: {name: a}\nspec: {labelKeysMapping: {a: b, b: c, x: b, yy: z}}"
	step := colocationProfile(colocationOf(t, one), false)
	for range 20 { // with any order of a Go map
		after, _, err := runOnce(t, step, admit.AsPod, `{"metadata":{"labels":{"a":"1","b":"2","z":"3","yy":""}}}`)
		if got := strings.Split(tell(after), "\n")[0]; err != nil || got != "labels: a=1 b=1 c=2 yy= z=" {
			t.Fatalf("%s, %v", got, err)
		}
	}
}

// TestWorkedExample is a complete example, without the annotation of the next step.
func TestWorkedExample(t *testing.T) {
	ask := colocationOf(t, "metadata: {name: a}\nspec: {qosClass: BE, priorityClassName: five}")
	got := afterStep(t, colocationProfile(ask, false),
		`{"metadata":{"labels":{"x":"y"}},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1500m","memory":"1Gi"}}}]}}`)
	want := `[{"op":"add","path":"/metadata/labels/koordinator.sh~1qosClass","value":"BE"},` +
		`{"op":"add","path":"/spec/priorityClassName","value":"five"},{"op":"add","path":"/spec/priority","value":5500},` +
		`{"op":"add","path":"/spec/containers/0/resources/requests","value":{"kubernetes.io/batch-cpu":"1500","kubernetes.io/batch-memory":"1Gi"}},` +
		`{"op":"remove","path":"/spec/containers/0/resources/limits/cpu"},` +
		`{"op":"add","path":"/spec/containers/0/resources/limits/kubernetes.io~1batch-cpu","value":"1500"},` +
		`{"op":"remove","path":"/spec/containers/0/resources/limits/memory"},` +
		`{"op":"add","path":"/spec/containers/0/resources/limits/kubernetes.io~1batch-memory","value":"1Gi"}]`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestWhichPodsAreTranslated: which classes are translated, and from what they follow. The profile requests a class by
// what it sets.
func TestWhichPodsAreTranslated(t *testing.T) {
	const limits = `"resources":{"limits":{"cpu":"1500m","memory":"1Gi","ephemeral-storage":"1Gi"}}`
	pod := func(labels, priority, container, more string) string {
		return `{"metadata":{"labels":{` + labels + `}},"spec":{"priority":` + priority + `,"containers":[{"name":"c"` + container + `}]` + more + `}}`
	}
	cases := []struct{ name, gives, pod, want string }{
		{"batch by range", "priorityClassName: koord-batch", pod(``, "0", ","+limits, ""), "batch"},
		{"batch by range, although LS", "qosClass: LS, priorityClassName: koord-batch", pod(``, "0", ","+limits, ""), "batch"},
		{"mid by range", "priorityClassName: koord-mid", pod(``, "0", ","+limits, ""), "mid"},
		{"prod by range, although BE", "qosClass: BE, priorityClassName: koord-prod", pod(``, "0", ","+limits, ""), "native"},
		{"free by range", "priorityClassName: koord-free", pod(``, "0", ","+limits, ""), "native"},
		{"mid by label", "labels: {koordinator.sh/priority-class: koord-mid}", pod(``, "5500", ","+limits, ""), "mid"},
		{"prod by label over range", "labels: {koordinator.sh/priority-class: koord-prod}", pod(``, "5500", ","+limits, ""), "native"},
		{"an empty class label hides the range, BE remains", "labels: {koordinator.sh/priority-class: ''}", pod(`"koordinator.sh/qosClass":"BE"`, "7500", ","+limits, ""), "batch"},
		{"BE without priority", "qosClass: BE", pod(``, "null", ","+limits, ""), "batch"},
		{"BE out of range", "qosClass: BE, priorityClassName: odd", pod(``, "0", ","+limits, ""), "batch"},
		{"LS without priority", "qosClass: LS", pod(``, "null", ","+limits, ""), "native"},
		{"SYSTEM without priority", "qosClass: SYSTEM", pod(``, "null", ","+limits, ""), "native"},
		{"none, Burstable", "priorityClassName: odd", pod(``, "null", ","+limits, ""), "native"},
		{"status.qosClass is not believed", "priorityClassName: odd", strings.TrimSuffix(pod(``, "null", ","+limits, ""), "}") + `,"status":{"qosClass":"BestEffort"}}`, "native"},
		{"lower case is no QoS", "labels: {koordinator.sh/qosClass: be}", pod(``, "null", ","+limits, ""), "native"},
		{"by patch", "patch: {metadata: {labels: {koordinator.sh/qosClass: BE}}}", pod(``, "null", ","+limits, ""), "batch"},
		{"by patch of the priority", "patch: {spec: {priorityClassName: x, priority: 7100}}", pod(``, "null", ","+limits, ""), "mid"},
		{"by patch of the priority alone", "patch: {spec: {priority: 7100, overhead: {cpu: 1}}}", pod(``, "null", ","+limits, ""), "native"},
		{"by mapping", "labelKeysMapping: {q: koordinator.sh/qosClass}", pod(`"q":"BE"`, "null", ","+limits, ""), "batch"},
		{"nothing asks for the class that the pod has", "labels: {x: y}", pod(`"koordinator.sh/qosClass":"BE"`, "5500", ","+limits, ""), "native"},
		{"what the user wrote himself", "qosClass: BE", pod(``, "null", `,"resources":{"limits":{"kubernetes.io/batch-cpu":7,"cpu":2},"requests":{"kubernetes.io/batch-memory":"1Gi"}}`, ""),
			"c limits: batch-cpu=7, requests: batch-cpu=7 batch-memory=1Gi\n"},
		{"a fraction is rounded up", "qosClass: BE", pod(``, "null", `,"resources":{"requests":{"cpu":"0.0015","memory":"100M"}}`, ""), "c limits: , requests: batch-cpu=2 batch-memory=100M\n"},
		{"a request of its own stays", "qosClass: BE", pod(``, "null", `,"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}`, ""), "c limits: batch-cpu=2k, requests: batch-cpu=1k\n"},
		{"no quantity stays", "qosClass: BE", pod(``, "null", `,"resources":{"requests":{"cpu":"much"}}`, ""), "quantities must match"},
	}
	wants := map[string]string{
		"batch":  "c limits: batch-cpu=1500 batch-memory=1Gi ephemeral-storage=1Gi, requests: batch-cpu=1500 batch-memory=1Gi\n",
		"mid":    "c limits: ephemeral-storage=1Gi mid-cpu=1500 mid-memory=1Gi, requests: mid-cpu=1500 mid-memory=1Gi\n",
		"native": "c limits: cpu=1500m ephemeral-storage=1Gi memory=1Gi, requests: \n",
	}
	for _, c := range cases {
		after, _, err := colocate(t, colocationOf(t, "metadata: {name: a}\nspec: {"+c.gives+"}"), c.pod)
		want, ok := wants[c.want]
		if !ok {
			want = c.want
		}
		if got := tell(after); err != nil || !strings.HasSuffix(got, want) && !strings.HasPrefix(got, want) {
			t.Errorf("%s: %v\n%s", c.name, err, got)
		}
	}
}

// TestSkipIsOfOneProfile: the annotation exempts its own profile, not the requests of others; a gate stops all.
func TestSkipIsOfOneProfile(t *testing.T) {
	skipping := "metadata: {name: a, annotations: {" + api.AnnotationSkipUpdateResources + ": ''}}\nspec: {qosClass: BE}"
	asking := "metadata: {name: b}\nspec: {priorityClassName: koord-batch}"
	other := "metadata: {name: c}\nspec: {schedulerName: s}"
	never := asking + "\n---\n" + with(t, skipping, "spec: {", "spec: {probability: 0, ")
	pod := `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}`
	for profiles, want := range map[string]string{
		skipping + "\n---\n" + asking: "batch-cpu=1k", never: "batch-cpu=1k", skipping + "\n---\n" + other: "cpu=1", skipping: "cpu=1",
	} {
		after, _, err := colocate(t, colocationOf(t, profiles), pod)
		if err != nil || !strings.Contains(tell(after), "requests: "+want) {
			t.Errorf("%s: %v %s", profiles, err, tell(after))
		}
	}
	after, _, err := runOnce(t, colocationProfile(colocationOf(t, asking), true), admit.AsPod, pod)
	if err != nil || !strings.Contains(tell(after), "requests: cpu=1\n") {
		t.Errorf("gate: %v %s", err, tell(after))
	}
}

// TestRefilledAmounts: what has the new name already wins over what a LimitRange has filled in, and is not lost silently.
func TestRefilledAmounts(t *testing.T) {
	for resources, want := range map[string][2]string{
		`"requests":{"kubernetes.io/batch-cpu":"4k","cpu":"100m"},"limits":{"kubernetes.io/batch-cpu":"4k","cpu":"2"}`: {"limits: batch-cpu=4k, requests: batch-cpu=4k",
			"dropped, because the pod asks for koord-batch resources in their place: spec.containers[0].resources.requests.cpu=100m, spec.containers[0].resources.limits.cpu=2"},
		`"requests":{"kubernetes.io/batch-cpu":"4k","cpu":"4"}`:                               {"limits: , requests: batch-cpu=4k", ""},
		`"requests":{"kubernetes.io/batch-cpu":"4k"},"limits":{"cpu":"16"}`:                   {"limits: batch-cpu=16k, requests: batch-cpu=4k", ""},
		`"requests":{"kubernetes.io/batch-cpu":"4k"},"limits":{"cpu":"2"}`:                    {"limits: , requests: batch-cpu=4k", "limits.cpu=2"},
		`"requests":{"cpu":"4"},"limits":{"cpu":"2"}`:                                         {"limits: batch-cpu=2k, requests: batch-cpu=4k", ""}, // the API server refuses it
		`"requests":{"cpu":"2"},"limits":{"kubernetes.io/batch-cpu":"4k"}`:                    {"limits: batch-cpu=4k, requests: batch-cpu=2k", ""},
		`"requests":{"kubernetes.io/batch-memory":"8Gi"},"limits":{"cpu":"1","memory":"4Gi"}`: {"limits: batch-cpu=1k, requests: batch-cpu=1k batch-memory=8Gi", "limits.memory=4Gi"},
	} {
		after, req, err := colocate(t, colocationOf(t, "metadata: {name: a}\nspec: {qosClass: BE}"), `{"spec":{"containers":[{"name":"c","resources":{`+resources+`}}]}}`)
		said := strings.Join(req.Warnings(), "\n")
		if err != nil || !strings.HasSuffix(tell(after), "c "+want[0]+"\n") || !strings.Contains(said, want[1]) || (want[1] == "") != (said == "") {
			t.Errorf("%s: %v, %q\n%s", resources, err, said, tell(after))
		}
	}
}

// TestPatchedAmounts: what a patch sets wins over an amount of the pod.
func TestPatchedAmounts(t *testing.T) {
	for _, container := range []string{"containers", "initContainers"} {
		ask := colocationOf(t, "metadata: {name: a}\nspec: {qosClass: BE, patch: {spec: {"+container+": [{name: x}, {name: c, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]}}}")
		after, req, err := colocate(t, ask, `{"spec":{"`+container+`":[{"name":"c","resources":{"requests":{"kubernetes.io/batch-cpu":"3k"},"limits":{"kubernetes.io/batch-cpu":"4k"}}}]}}`)
		if err != nil || !strings.Contains(tell(after), "c limits: batch-cpu=4k, requests: batch-cpu=2k\n") || len(req.Warnings()) != 1 {
			t.Errorf("%v, %q\n%s", err, req.Warnings(), tell(after))
		}
	}
}

// within returns questions about a namespace with a LimitRange.
func within(t *testing.T, class, items string) ProfileQuestions {
	t.Helper()
	ask := colocationOf(t, "metadata: {name: a}\nspec: {priorityClassName: "+class+"}")
	ask.LimitRanges = func(string) ([]*corev1.LimitRange, error) {
		var lr corev1.LimitRange
		err := yaml.UnmarshalStrict([]byte("metadata: {name: lr}\nspec: {limits: ["+items+"]}"), &lr)
		return []*corev1.LimitRange{&lr}, err
	}
	return ask
}

// TestLimitRangeThatDemands: a pod that could not be stored is refused with the way out, unless it keeps cpu and memory.
func TestLimitRangeThatDemands(t *testing.T) {
	for _, c := range []struct{ class, item, want string }{
		{"koord-batch", "{type: Container, max: {cpu: 16}}", "spec.containers: Forbidden: LimitRange lr has a max of cpu for each Container, and pods of class koord-batch have kubernetes.io/batch-cpu instead; bound that"},
		{"koord-mid", "{type: Pod, min: {memory: 1Gi}}", "LimitRange lr has a min of memory for each Pod, and pods of class koord-mid have kubernetes.io/mid-memory instead"},
		{"koord-batch", "{type: Pod, maxLimitRequestRatio: {cpu: 2}}", "has a maxLimitRequestRatio of cpu for each Pod"},
		{"koord-batch", "{type: Container, default: {cpu: 1}, defaultRequest: {memory: 1Gi}, max: {kubernetes.io/batch-cpu: 4k}}", ""},
		{"koord-batch", "{type: PersistentVolumeClaim, max: {cpu: 1}}", ""},
		{"koord-prod", "{type: Container, max: {cpu: 16}}", ""},
	} {
		_, _, err := runOnce(t, colocationProfile(within(t, c.class, c.item), false), admit.AsPod, `{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1"}}}]}}`)
		if refused, _ := errors.AsType[*field.Error](err); (refused == nil) != (c.want == "") || c.want != "" && !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s, %s: %v, want %q", c.class, c.item, err, c.want)
		}
	}
}

// TestLimitRangeOfBatchResources: what it gives is not the pod's own amount, in two rounds of LimitRanger and the step.
func TestLimitRangeOfBatchResources(t *testing.T) {
	const batch, both, equal = "{type: Container, default: {kubernetes.io/batch-cpu: 16k}, defaultRequest: {kubernetes.io/batch-cpu: 16k}}",
		"{type: Container, default: {cpu: 2, kubernetes.io/batch-cpu: 16k}, defaultRequest: {cpu: 100m, kubernetes.io/batch-cpu: 16k}}",
		"{type: Container, default: {cpu: 2, kubernetes.io/batch-cpu: 16k}, defaultRequest: {cpu: 1, kubernetes.io/batch-cpu: 500}}"
	for _, c := range [][4]string{ // the LimitRange, the container as sent, the result, the warning
		{batch, `"requests":{"cpu":"4"}`, "limits: batch-cpu=16k, requests: batch-cpu=4k"},
		{batch, `"requests":{"cpu":"4","kubernetes.io/batch-cpu":"5k"}`, "limits: batch-cpu=16k, requests: batch-cpu=5k", "requests.cpu=4"},
		{both, `"requests":{"cpu":"4"},"limits":{"cpu":"4"}`, "limits: batch-cpu=4k, requests: batch-cpu=4k"},
		{both, ``, "limits: batch-cpu=16k, requests: batch-cpu=16k"},
		{equal, `"requests":{"cpu":"1"},"limits":{"cpu":"4"}`, "limits: batch-cpu=4k, requests: batch-cpu=1k"},
		{batch, `"requests":{"cpu":"4"},"limits":{"kubernetes.io/batch-cpu":"8k"}`, "limits: batch-cpu=8k, requests: batch-cpu=4k"},
		{"", `"requests":{"cpu":"4"},"limits":{"kubernetes.io/batch-cpu":"8k"}`, "limits: batch-cpu=8k, requests: batch-cpu=4k"},
		{"{type: Container, default: {cpu: 2}, defaultRequest: {cpu: 1}}", `"limits":{"kubernetes.io/batch-cpu":"8k"}`, "limits: batch-cpu=8k, requests: batch-cpu=8k"},
		{"", `"limits":{"kubernetes.io/batch-cpu":"8k","cpu":"4"}`, "limits: batch-cpu=8k, requests: batch-cpu=8k", "limits.cpu=4"},
		{equal, `"requests":{"cpu":"500m"},"limits":{"cpu":"2"}`, "limits: batch-cpu=2k, requests: batch-cpu=500"},
	} {
		after, warnings := twoRounds(t, within(t, "koord-batch", c[0]), c[1])
		if said := strings.Join(warnings, "\n"); !strings.HasSuffix(tell(after), "c "+c[2]+"\n") || !strings.Contains(said, c[3]) || (said == "") != (c[3] == "") {
			t.Errorf("%s: want %s, %q\n%s", c[1], c[2], said, tell(after))
		}
	}
}

// twoRounds runs the step twice on a pod with the resources of a container, each time after LimitRanger. It returns the warnings of both.
func twoRounds(t *testing.T, ask ProfileQuestions, resources string) (after []byte, warnings []string) {
	t.Helper()
	ranges, err := ask.LimitRanges("colocation")
	if err != nil {
		t.Fatal(err)
	}
	after = []byte(`{"spec":{"containers":[{"name":"c","resources":{` + resources + `}}]}}`)
	for range 2 {
		filled := after
		if d, err := document.Parse(after); err != nil {
			t.Fatal(err)
		} else if workload.FillResources(admit.AsPod(d), ranges); d.PatchJSON() != nil {
			filled = slices.Clone(d.Bytes())
		}
		var req *admit.Request
		if after, req, err = colocate(t, ask, string(filled)); err != nil {
			t.Fatal(err)
		}
		warnings = append(warnings, req.Warnings()...)
	}
	return after, warnings
}

// TestOwnedFields: of a stored patch, what plug-ins of the API server own is left out, and so is nothing else.
func TestOwnedFields(t *testing.T) {
	after, req, err := colocate(t, colocationOf(t, "metadata: {name: a}\nspec: {qosClass: BE, patch: {spec: {overhead: {cpu: 1}, preemptionPolicy: Never, schedulerName: s}}}"),
		`{"spec":{"overhead":{"cpu":"250m"},"containers":[]}}`)
	want := []string{"colocation profile a: part of the patch is not applied: spec.patch.spec.overhead: Forbidden: leave it out: the RuntimeClass in spec.runtimeClassName determines it",
		"colocation profile a: part of the patch is not applied: spec.patch.spec.preemptionPolicy: Forbidden: use spec.priorityClassName of the profile, which sets it too",
		"spec.overhead keeps cpu and memory: it must equal the overhead of the RuntimeClass"}
	if diff := cmp.Diff(want, req.Warnings()); err != nil || diff != "" || !strings.HasSuffix(tell(after), "scheduler: s, class: \noverhead: cpu=250m\n") {
		t.Errorf("%v\n%s\n%s", err, diff, tell(after))
	}
}

func TestPodLevelResources(t *testing.T) {
	after, req, err := colocate(t, colocationOf(t, "metadata: {name: a}\nspec: {qosClass: BE}"),
		`{"spec":{"resources":{"limits":{"cpu":"2","memory":"1Gi","hugepages-2Mi":"2Mi"}},"containers":[{"name":"c"}]}}`)
	want := "pod limits: batch-cpu=2k batch-memory=1Gi hugepages-2Mi=2Mi, requests: batch-cpu=2k batch-memory=1Gi\n"
	if err != nil || !strings.HasSuffix(tell(after), want) || len(req.Warnings()) != 1 {
		t.Errorf("%v, %q\n%s", err, req.Warnings(), tell(after))
	}
}

// TestOrderOfProfiles: all match the pod as submitted, and the last by name wins, in whatever order they are listed.
func TestOrderOfProfiles(t *testing.T) {
	profiles := []string{
		"metadata: {name: b}\nspec: {labels: {x: b}, qosClass: LS, schedulerName: b}",
		"metadata: {name: a}\nspec: {labels: {x: a, z: a}, qosClass: BE, schedulerName: a}",
		"metadata: {name: B}\nspec: {labels: {x: B, z: B}}",
		"metadata: {name: c}\nspec: {selector: {matchLabels: {x: b}}, labels: {seen: c}}",
		"metadata: {name: 0}\nspec: {selector: {matchLabels: {x: pod}}, labels: {seen: '0'}}",
	}
	for _, order := range [][]int{{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 4, 0, 3, 1}} {
		var sorted []string
		for _, i := range order {
			sorted = append(sorted, profiles[i])
		}
		after, _, err := runOnce(t, colocationProfile(colocationOf(t, sorted...), false), admit.AsPod, `{"metadata":{"labels":{"x":"pod"}}}`)
		want := "labels: koordinator.sh/qosClass=LS seen=0 x=b z=a\nannotations: \nscheduler: b"
		if err != nil || !strings.HasPrefix(tell(after), want) {
			t.Errorf("%v: %v %s", order, err, tell(after))
		}
	}
}

// TestColocationDenials: the kind of error, and its text.
func TestColocationDenials(t *testing.T) {
	down := errors.New("down")
	broken := colocationOf(t, "metadata: {name: a}\nspec: {namespaceSelector: {matchLabels: {x: y}}, labels: {a: b}}")
	broken.Namespace = func(string) (map[string]string, bool, error) {
		return nil, false, fmt.Errorf("namespaces: %w", admit.ErrNotReady)
	}
	noProfiles := ProfileQuestions{Profiles: func() (*profile.Set, error) { return nil, down }}
	noClass := colocationOf(t, "metadata: {name: a}\nspec: {priorityClassName: koord-mid}")
	noClass.PriorityClass = func(string) (int32, *corev1.PreemptionPolicy, bool, error) { return 0, nil, false, down }
	cases := []struct {
		ask  ProfileQuestions
		pod  string
		want string
		user bool
		is   error
	}{
		{colocationOf(t, "metadata: {name: a}\nspec: {priorityClassName: absent}"), `{}`, `spec.priorityClassName: Invalid value: "absent": ` +
			`colocation profile a gives this PriorityClass, which does not exist; create it, or correct the profile's spec.priorityClassName`, true, nil},
		{colocationOf(t, "metadata: {name: a}\nspec: {patch: {spec: {containers: [{name: c}]}}}"), `{"spec":{"containers":[{"image":"x"}]}}`,
			`spec.patch of colocation profile a does not fit this pod: spec.containers[0] has no name, by which the patch would know it; `, true, nil},
		{colocationOf(t, "metadata: {name: a}\nspec: {labels: {a: b}}"), `{"metadata":{"labels":[]}}`, "metadata.labels: Invalid value: must be an object, not an array", true, nil},
		{broken, `{}`, "not ready yet", false, admit.ErrNotReady},
		{noProfiles, `{}`, "down", false, down},
		{noClass, `{}`, "PriorityClass koord-mid of colocation profile a: down", false, down},
	}
	for _, c := range cases {
		_, _, err := colocate(t, c.ask, c.pod)
		_, user := errors.AsType[*field.Error](err)
		if err == nil || !strings.Contains(err.Error(), c.want) || user != c.user || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v (user %v), want %s", c.pod, err, user, c.want)
		}
	}
}

// TestBrokenProfiles: broken profiles match no pod; the pods that they might match get a warning.
func TestBrokenProfiles(t *testing.T) {
	typo := "metadata: {name: typo}\nspec:\n  selector: {matchExpressions: [{key: a, operator: in, values: [b]}]}\n  qosClass: BE"
	cases := []struct{ profile, pod, warning string }{
		{typo, basePod, "colocation profile typo is broken, not applied: spec.selector.matchExpressions[0].operator: Invalid value"},
		{typo + "\n  namespaceSelector: {matchLabels: {x: y}}", basePod, ""},
		{with(t, typo, "selector", "namespaceSelector") + "\n  selector: {matchLabels: {x: y}}", basePod, ""},
		{baseProfile + "  probability: 101", basePod, "colocation profile profile is broken, not applied: spec.probability: Invalid value: \"101\""},
		{baseProfile + "  probability: 101", `{}`, ""},
		{with(t, baseProfile, "labels: {test-patch-label: patch-a}", "labels: {a: 1}"), basePod, "colocation profile profile is broken, not applied: spec.patch"},
		{with(t, baseProfile, `colocation: "true"}}`, `colocation: "b a d"}}`), basePod, "is broken, not applied: spec.namespaceSelector.matchLabels[enable-"},
	}
	for _, c := range cases {
		after, req, err := colocate(t, colocationOf(t, c.profile), c.pod)
		said := strings.Join(req.Warnings(), "\n")
		if err != nil || string(after) != c.pod || !strings.Contains(said, c.warning) || (c.warning == "") != (said == "") {
			t.Errorf("%s: %v, %q, %s", c.profile, err, said, after)
		}
	}
}

// TestNamespaceIsAskedLate: the namespace is read only if a profile that might match needs it, and at most once.
func TestNamespaceIsAskedLate(t *testing.T) {
	profiles := "metadata: {name: a}\nspec: {selector: {matchLabels: {a: b}}, namespaceSelector: {matchLabels: {c: d}}}\n---\n" +
		"metadata: {name: b}\nspec: {selector: {matchLabels: {a: b}}, namespaceSelector: {matchExpressions: [{key: c, operator: DoesNotExist}]}}\n---\n" +
		"metadata: {name: c}\nspec: {labels: {x: y}}"
	ask, asked := colocationOf(t, profiles), 0
	ask.Namespace = func(name string) (map[string]string, bool, error) {
		asked++
		return nil, name == "colocation", nil
	}
	for pod, want := range map[string]int{`{}`: 0, `{"metadata":{"labels":{"a":"x"}}}`: 0, `{"metadata":{"labels":{"a":"b"},"namespace":"x"}}`: 1} {
		asked = 0
		if _, _, err := runOnce(t, colocationProfile(ask, false), admit.AsPod, pod); err != nil || asked != want {
			t.Errorf("%s: asked %d times, %v", pod, asked, err)
		}
	}
}

// TestUnknownNamespace: an unknown namespace matches no namespaceSelector, not even if it requires a label to be
// absent.
func TestUnknownNamespace(t *testing.T) {
	ask := colocationOf(t, "metadata: {name: a}\nspec: {namespaceSelector: {matchExpressions: [{key: x, operator: DoesNotExist}]}, labels: {a: b}}")
	if after, _, err := colocate(t, ask, `{}`); err != nil || string(after) == `{}` {
		t.Errorf("a namespace without labels: %v %s", err, after)
	}
	ask.Namespace = func(string) (map[string]string, bool, error) { return nil, false, nil }
	if after, _, err := colocate(t, ask, `{}`); err != nil || string(after) != `{}` {
		t.Errorf("a namespace that nobody knows: %v %s", err, after)
	}
}

// TestRandomProfiles: profiles without hazards are idempotent together, independent of their order in the list, and
// unknown fields stay in their object.
func TestRandomProfiles(t *testing.T) {
	first, changed, hazardous := seed.Value(t), 0, 0
	for i := range uint64(2000) {
		r := rand.New(rand.NewPCG(first, i))
		name := fmt.Sprintf("USHER_SEED=%d, case %d", first, i)
		list := make([]api.ClusterColocationProfile, 1+r.IntN(4))
		for n := range list {
			list[n] = randomProfile(r, fmt.Sprint("p", n))
		}
		set, problems := profile.Compile(list)
		if len(problems) > 0 {
			t.Fatalf("%s: %v", name, problems)
		}
		ask := ProfileQuestions{Profiles: func() (*profile.Set, error) { return set, nil }, Namespace: namespaceOf, OwnersNamespace: namespaceOf, PriorityClass: priorityClassOf, LimitRanges: noRanges}
		raw := string(mustJSON(randomColocated(r)))
		after, _, err := runOnce(t, colocationProfile(ask, false), admit.AsPod, raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		set, _ = profile.Compile(list)
		if other, _, _ := runOnce(t, colocationProfile(ask, false), admit.AsPod, raw); string(other) != string(after) {
			t.Fatalf("%s: another order of %s gives another result of %s:\n%s\n%s", name, mustJSON(list), raw, after, other)
		}
		if string(after) != raw {
			changed++
		}
		checkUnknown(t, name, raw, string(after))
		if len(set.Hazards()) > 0 {
			hazardous++
			continue
		}
		if again, _, err := runOnce(t, colocationProfile(ask, false), admit.AsPod, string(after)); err != nil || string(again) != string(after) {
			t.Fatalf("%s: %s twice on %s (%v):\n%s\n%s", name, mustJSON(list), raw, err, after, again)
		}
	}
	if changed < 1000 || hazardous > 1500 {
		t.Errorf("USHER_SEED=%d: %d pods were changed, %d sets were hazardous: the test has lost its point", first, changed, hazardous)
	}
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// checkUnknown checks that each unknown field, whose value is its container's name, is where it was.
func checkUnknown(t *testing.T, name, raw, after string) {
	t.Helper()
	type named struct{ Name, Unknown string }
	var before, now struct {
		Unknown string
		Spec    struct{ Containers []named }
	}
	if json.Unmarshal([]byte(raw), &before) != nil || json.Unmarshal([]byte(after), &now) != nil || now.Unknown != before.Unknown {
		t.Fatalf("%s: %s", name, after)
	}
	for _, c := range before.Spec.Containers {
		if !slices.Contains(now.Spec.Containers, c) {
			t.Fatalf("%s: container %s lost its unknown field: %s", name, c.Name, after)
		}
	}
}

func randomProfile(r *rand.Rand, name string) (p api.ClusterColocationProfile) {
	key := func() string { return string(rune('a' + r.IntN(6))) }
	texts := func(value func() string) map[string]string {
		m := map[string]string{}
		for range r.IntN(3) {
			m[key()] = value()
		}
		return m
	}
	text := map[string]any{"labels": texts(key), "annotations": texts(key), "labelSuffixes": texts(func() string { return "-" + name })}
	if r.IntN(3) == 0 {
		text["labelKeysMapping"] = map[string]string{"source-" + key(): key()}
		text["annotationKeysMapping"] = texts(key)
	}
	if r.IntN(2) == 0 {
		text["selector"] = map[string]any{"matchLabels": map[string]string{"app": key()}}
	}
	if r.IntN(3) == 0 {
		text["probability"] = r.IntN(101)
	}
	if r.IntN(2) == 0 {
		text["qosClass"] = []string{"BE", "LS", "LSR"}[r.IntN(3)]
		text["koordinatorPriority"] = r.IntN(3)
	}
	if r.IntN(2) == 0 {
		text["priorityClassName"] = []string{"koord-batch", "koord-mid", "odd", "koord-prod"}[r.IntN(4)]
	}
	if r.IntN(3) > 0 {
		text["patch"] = map[string]any{"metadata": map[string]any{"labels": texts(key)}, "spec": map[string]any{
			"containers": []any{map[string]any{"name": key(), "resources": map[string]any{"limits": map[string]any{"cpu": "2"}}}, map[string]any{"name": "side"}},
		}}
	}
	if err := json.Unmarshal(mustJSON(map[string]any{"metadata": map[string]any{"name": name}, "spec": text}), &p); err != nil {
		panic(err)
	}
	return p
}

// randomColocated returns a pod with the fields that profiles read, and with unknown fields.
func randomColocated(r *rand.Rand) amplifytest.Object {
	labels, spec := amplifytest.Object{"app": string(rune('a' + r.IntN(6)))}, amplifytest.Object{}
	for range r.IntN(4) {
		labels[string(rune('a'+r.IntN(6)))] = "v"
		labels["source-"+string(rune('a'+r.IntN(6)))] = "w"
	}
	containers := []any{}
	for _, n := range r.Perm(5)[:r.IntN(5)] {
		name := string(rune('a' + n))
		c := amplifytest.Object{"name": name, "unknown": name}
		if r.IntN(2) == 0 {
			c["resources"] = amplifytest.Object{"limits": amplifytest.Object{"cpu": "1", "memory": "1Gi"}, "requests": amplifytest.Object{"cpu": "500m"}}
		}
		containers = append(containers, c)
	}
	if r.IntN(8) > 0 {
		spec["containers"] = containers
	}
	if r.IntN(3) == 0 {
		spec["overhead"] = amplifytest.Object{"cpu": "100m"}
	}
	pod := amplifytest.Object{"metadata": amplifytest.Object{"name": "p", "labels": labels}, "spec": spec, "unknown": "pod"}
	if r.IntN(3) == 0 {
		maps.DeleteFunc(pod["metadata"].(amplifytest.Object), func(key string, _ any) bool { return key == "labels" })
	}
	return pod
}
