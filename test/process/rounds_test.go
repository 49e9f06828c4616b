package process

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/internal/poddefaults"
	"usher.dev/usher/routes"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/test/seed"
	"usher.dev/usher/validators/workload"
)

// roundsCluster has profiles for each class, of which one was stored before usher refused its patch, and what the plug-ins of the API
// server read.
const roundsCluster = `
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: koord-batch}, value: 5000}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: koord-mid}, value: 7000}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: koord-prod}, value: 9000, preemptionPolicy: Never}
---
{apiVersion: config.koordinator.sh/v1alpha1, kind: ClusterColocationProfile, metadata: {name: batch}, spec: {selector: {matchLabels: {kind: batch}}, qosClass: BE, priorityClassName: koord-batch}}
---
{apiVersion: config.koordinator.sh/v1alpha1, kind: ClusterColocationProfile, metadata: {name: mid}, spec: {selector: {matchLabels: {kind: mid}}, qosClass: LS, priorityClassName: koord-mid}}
---
{apiVersion: config.koordinator.sh/v1alpha1, kind: ClusterColocationProfile, metadata: {name: prod}, spec: {selector: {matchLabels: {kind: prod}}, qosClass: LS, priorityClassName: koord-prod}}
---
{apiVersion: config.koordinator.sh/v1alpha1, kind: ClusterColocationProfile, metadata: {name: patch}, spec: {selector: {matchLabels: {kind: patch}}, qosClass: BE, priorityClassName: koord-batch,
  patch: {spec: {overhead: {cpu: 1}, priority: 7, preemptionPolicy: Never, nodeSelector: {pool: batch}, containers: [{name: side, image: i, resources: {limits: {cpu: 300m}}}]}}}}
`

// plugins are the plug-ins of an API server that change pods, as a webhook sees them between its calls.
type plugins struct {
	ranges  map[string][]*corev1.LimitRange // by namespace
	classes map[string]int32
	kata    corev1.PodSpec // what RuntimeClass kata gives
}

// admit returns a pod after the plug-ins. The error is a refusal.
func (p plugins) admit(t *testing.T, namespace string, raw []byte) ([]byte, error) {
	t.Helper()
	d, err := document.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	workload.FillNew(admit.AsPod(d), p.ranges[namespace]) // LimitRanger and DefaultTolerationSeconds
	var pod corev1.Pod
	if err := json.Unmarshal(d.Bytes(), &pod); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	s := &pod.Spec
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} { // ServiceAccount
		for i := range list {
			if !slices.ContainsFunc(list[i].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "kube-api-access" }) {
				list[i].VolumeMounts = append(list[i].VolumeMounts, corev1.VolumeMount{Name: "kube-api-access", MountPath: "/var/run/secrets", ReadOnly: true})
			}
		}
	}
	if !slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool { return v.Name == "kube-api-access" }) {
		s.Volumes = append(s.Volumes, corev1.Volume{Name: "kube-api-access"})
	}
	priority, known := p.classes[s.PriorityClassName] // Priority
	if !known || s.Priority != nil && *s.Priority != priority {
		return nil, fmt.Errorf("class %q with another priority than %d", s.PriorityClassName, priority)
	}
	s.Priority = &priority
	if s.RuntimeClassName != nil { // RuntimeClass
		if s.Overhead != nil && !reflect.DeepEqual(asTree(t, asJSON(t, s.Overhead)), asTree(t, asJSON(t, p.kata.Overhead))) {
			return nil, fmt.Errorf("another overhead than that of the RuntimeClass: %v", s.Overhead)
		}
		if s.Overhead = p.kata.Overhead; s.NodeSelector == nil {
			s.NodeSelector = map[string]string{}
		}
		maps.Copy(s.NodeSelector, p.kata.NodeSelector)
		if !slices.ContainsFunc(s.Tolerations, func(is corev1.Toleration) bool { return is.Key == "kata" }) {
			s.Tolerations = append(s.Tolerations, p.kata.Tolerations...)
		}
	} else if s.Overhead != nil {
		return nil, fmt.Errorf("overhead %v without a RuntimeClass", s.Overhead)
	}
	return asJSON(t, pod), nil
}

// lacking returns an amount that a LimitRange demands and a pod lacks, as LimitRanger finds it at the end; "" if there is none.
func lacking(ranges []*corev1.LimitRange, pod corev1.Pod) string {
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for _, r := range ranges {
		for _, item := range r.Spec.Limits {
			without := 0
			for _, c := range containers {
				limits, requests := c.Resources.Limits, c.Resources.Requests
				if !hasAll(limits, item.Max) || !hasAll(requests, item.Min) || !hasAll(limits, item.MaxLimitRequestRatio) || !hasAll(requests, item.MaxLimitRequestRatio) {
					without++
				}
			}
			if without == len(containers) || without > 0 && item.Type == corev1.LimitTypeContainer {
				return fmt.Sprintf("min %v, max %v, ratio %v of each %s", item.Min, item.Max, item.MaxLimitRequestRatio, item.Type)
			}
		}
	}
	return ""
}

func hasAll(list, names corev1.ResourceList) bool {
	for name := range names {
		if _, has := list[name]; !has {
			return false
		}
	}
	return true
}

// randomRange returns a LimitRange. Some pods send its amounts of cpu and memory.
func randomRange(t *testing.T, r *rand.Rand, namespace string) *corev1.LimitRange {
	t.Helper()
	some := func(of string, names ...string) string {
		var all []string
		for _, name := range names {
			if r.IntN(3) == 0 {
				all = append(all, name)
			}
		}
		return of + ": {" + strings.Join(all, ", ") + "}"
	}
	bounds := func(of string) string { // most LimitRanges demand nothing
		return []string{"", "", "", "", ", " + some(of, "cpu: 15", "memory: 15Gi", "kubernetes.io/batch-cpu: 44k")}[r.IntN(5)]
	}
	text := "{metadata: {name: lr, namespace: " + namespace + "}, spec: {limits: [{type: Container, " +
		some("default", "cpu: 150m", "memory: 150Mi", "kubernetes.io/batch-cpu: 40k", "koordinator.sh/gpu: 50") + ", " +
		some("defaultRequest", "cpu: 120m", "memory: 120Mi", "kubernetes.io/mid-memory: 78") + bounds("min") + bounds("max") + "}, {type: Pod" + bounds("max") + bounds("min") + bounds("maxLimitRequestRatio") + "}]}}"
	var is corev1.LimitRange
	if err := yaml.UnmarshalStrict([]byte("{apiVersion: v1, kind: LimitRange, "+text[1:]), &is); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return &is
}

// randomSent returns a pod as a user sends it: amounts in requests, limits or both, under either name.
func randomSent(r *rand.Rand) object {
	kind := []string{"batch", "batch", "mid", "patch", "prod", "none"}[r.IntN(6)]
	spec := object{}
	for _, list := range []string{"initContainers", "containers"} {
		containers := []any{}
		for i := range 1 + r.IntN(2) {
			containers = append(containers, object{"name": fmt.Sprint(list[:1], i), "image": "i", "resources": randomAmounts(r, kind)})
		}
		spec[list] = containers
	}
	if r.IntN(3) == 0 {
		spec["runtimeClassName"] = "kata"
	}
	if r.IntN(4) == 0 {
		spec["priorityClassName"] = "koord-prod"
	}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "sent", "labels": object{"kind": kind, "acme.com/lifespan-requested": "3"}}, "spec": spec}
}

func randomAmounts(r *rand.Rand, kind string) object {
	requests, limits := object{}, object{}
	for _, native := range []string{"cpu", "memory"} {
		asked, limit, own := native, native, 0
		if own = r.IntN(6); kind != "none" && kind != "prod" && own < 3 {
			class := map[bool]string{true: "mid", false: "batch"}[kind == "mid"]
			name := "kubernetes.io/" + class + "-" + native
			if own != 2 { // only the limit
				asked = name
			}
			if own != 1 { // only the request
				limit = name
			}
		}
		amount := func(name string, n int) string {
			return fmt.Sprint(n) + map[string]string{"cpu": "", "memory": "Gi"}[name] + map[bool]string{true: "k"}[strings.HasSuffix(name, "-cpu")] + map[bool]string{true: "Gi"}[strings.HasSuffix(name, "-memory")]
		}
		least := 1 + r.IntN(4)
		if r.IntN(3) > 0 {
			requests[asked] = amount(asked, least)
		}
		if asked == native && limit != native {
			delete(requests, native) // which LimitRanges give as well
		}
		if r.IntN(3) > 0 {
			limits[limit] = amount(limit, least+r.IntN(4))
		}
		if own >= 3 && r.IntN(4) == 0 { // the amounts of LimitRanges
			unit := map[string]string{"cpu": "m", "memory": "Mi"}[native]
			requests[native], limits[native] = "120"+unit, "150"+unit
		}
	}
	if r.IntN(4) == 0 {
		limits["koordinator.sh/gpu"] = fmt.Sprint(100 * (1 + r.IntN(2)))
	}
	return object{"requests": requests, "limits": limits}
}

// lost returns an amount that a container was sent with and does not have, under any of the names that profiles and steps give it.
func lost(sent, is []corev1.Container) string {
	for _, was := range sent {
		i := slices.IndexFunc(is, func(c corev1.Container) bool { return c.Name == was.Name })
		for list, lists := range map[string][2]corev1.ResourceList{"requests": {was.Resources.Requests, is[i].Resources.Requests}, "limits": {was.Resources.Limits, is[i].Resources.Limits}} {
			for name, amount := range lists[0] {
				same := func(as corev1.ResourceName, q resource.Quantity) bool {
					got, has := lists[1][as]
					return has && got.Cmp(q) == 0
				}
				held := same(name, amount) || name == api.ResourceGPU && same(api.ResourceGPUCore, amount) && same(api.ResourceGPUMemoryRatio, amount)
				for _, class := range []api.PriorityClass{api.PriorityBatch, api.PriorityMid} {
					as, translated := api.Translate(class, name)
					held = held || translated && same(as, api.TranslateAmount(name, amount))
				}
				if !held {
					return fmt.Sprintf("%s of %s: %s=%s", list, was.Name, name, &amount)
				}
			}
		}
	}
	return ""
}

// restored returns an object with what it had before: another webhook wants it so. Elements of lists are known by their names.
func restored(before, after any) any {
	if after == nil {
		return before
	}
	switch was := before.(type) {
	case object:
		is, _ := after.(object)
		for key, value := range was {
			is[key] = restored(value, is[key])
		}
	case []any:
		is, _ := after.([]any)
		for _, element := range was {
			if i := indexOf(is, element); i >= 0 {
				is[i] = restored(element, is[i])
			} else if named, _ := element.(object); named["name"] != nil {
				is = append(is, element)
			}
		}
		return is
	}
	return after
}

// indexOf returns the index of the element with the same name, or of an equal one, or -1.
func indexOf(list []any, element any) int {
	return slices.IndexFunc(list, func(other any) bool {
		a, _ := element.(object)
		b, _ := other.(object)
		return a["name"] != nil && a["name"] == b["name"] || reflect.DeepEqual(element, other)
	})
}

// gone returns a place of a value where another has something else, or nothing; "" if there is none.
func gone(was, is any, at string) string {
	switch was := was.(type) {
	case object:
		is, _ := is.(object)
		for _, key := range slices.Sorted(maps.Keys(was)) {
			if place := gone(was[key], is[key], at+"."+key); place != "" && key != "kubernetes.io/limit-ranger" {
				return place
			}
		}
		return ""
	case []any:
		is, _ := is.([]any)
		for _, element := range was {
			i := indexOf(is, element)
			if i < 0 {
				return at + fmt.Sprint(element)
			}
			if place := gone(element, is[i], fmt.Sprintf("%s[%d]", at, i)); place != "" {
				return place
			}
		}
		return ""
	case string:
		var before, now object // JSON text of an annotation
		if is, text := is.(string); text && json.Unmarshal([]byte(was), &before) == nil && json.Unmarshal([]byte(is), &now) == nil {
			return gone(before, now, at)
		}
	}
	if reflect.DeepEqual(was, is) {
		return ""
	}
	return fmt.Sprintf("%s: %v became %v", at, was, is)
}

func asTree(t *testing.T, raw []byte) (tree any) {
	t.Helper()
	if err := json.Unmarshal(raw, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// mutating is a sequence of routes, with all of their steps or one.
type mutating struct {
	name   string
	routes []admit.Route
}

// mutatings returns every route that changes pods or their templates, each of its steps alone, and the routes of both suites together.
func mutatings(routes []admit.Route) (all []mutating) {
	var both []admit.Route
	for _, r := range routes {
		if !r.Chain.Mutates() || !slices.Contains([]string{"/mutate-pods", "/mutate-pod", "/mutate-reservation"}, r.Path) {
			continue
		}
		all = append(all, mutating{r.Path, []admit.Route{r}})
		if r.Path != "/mutate-reservation" {
			both = append(both, r)
		}
		for _, only := range r.Chain.Steps() {
			others := admit.Modes{}
			for _, s := range r.Chain.Steps() {
				if s.Name != only.Name {
					others[s.Name] = admit.Off
				}
			}
			alone := r
			alone.Chain = r.Chain.WithModes(others)
			all = append(all, mutating{r.Path + " " + only.Name, []admit.Route{alone}})
		}
	}
	return append(all, mutating{"both suites", both})
}

// run returns an object after the routes, or their refusal.
func (m mutating) run(t *testing.T, mux http.Handler, namespace string, raw []byte) (after []byte, refusal string) {
	t.Helper()
	for _, r := range m.routes {
		answer := reviewed(t, mux, strings.TrimPrefix(r.Path, "/"), namespace, raw)
		if !answer.Allowed {
			return nil, answer.Result.Message
		}
		if len(answer.Patch) > 0 {
			raw = harness.ApplyPatch(t, raw, answer.Patch)
		}
	}
	return raw, ""
}

// TestRounds: the API server's mutating phase has rounds. What a step has made of a pod stays when the plug-ins of the API server, and
// another webhook that restores what was removed, have their turn before it is called again. No amount that a user sent is lost, no
// plug-in refuses what usher has made, and what LimitRanger would refuse at the end is refused with the way out.
func TestRounds(t *testing.T) {
	random := seed.Random(t)
	p := plugins{map[string][]*corev1.LimitRange{}, map[string]int32{"": 0, "koord-batch": 5000, "koord-mid": 7000, "koord-prod": 9000}, corev1.PodSpec{
		Overhead:     corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("160Mi")},
		NodeSelector: map[string]string{"runtime": "kata"}, Tolerations: []corev1.Toleration{{Key: "kata", Operator: corev1.TolerationOpExists}},
	}}
	manifests := roundsCluster
	for i := range 12 {
		name := fmt.Sprint("ns-", i)
		limits := randomRange(t, random, name)
		manifests += fmt.Sprintf("---\n{apiVersion: v1, kind: Namespace, metadata: {name: %s}}\n---\n%s\n", name, asJSON(t, limits))
		poddefaults.LimitRange(limits)
		p.ranges[name] = []*corev1.LimitRange{limits}
	}
	suites := routes.Suites()
	gates, err := suites.ParseGates(strings.TrimSpace(harness.ReadFile(t, "samples/feature-gates")) + ",QuotaByDeviceClasses=true")
	if err != nil {
		t.Fatal(err)
	}
	instance, err := suite.Load(suite.Setup{Suites: suites, Policy: harness.Together(t, suites), Gates: gates, Cluster: suite.Source{Manifests: map[string][]byte{"all.yaml": []byte(manifests)}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutatings(instance.Routes()) {
		t.Run(strings.TrimPrefix(m.name, "/"), func(t *testing.T) {
			mux := harness.DefaultServer().Serve(m.routes)
			admitted := 0
			for range 100 {
				if p.checkRounds(t, random, m, mux) {
					admitted++
				}
			}
			if admitted == 0 {
				t.Error("every pod was refused: the test has lost its point")
			}
		})
	}
}

// checkRounds sends a random pod, or a reservation for it, through three rounds. It reports whether the object was admitted.
func (p plugins) checkRounds(t *testing.T, r *rand.Rand, m mutating, mux http.Handler) bool {
	t.Helper()
	namespace, sent := fmt.Sprint("ns-", r.IntN(len(p.ranges))), randomSent(r)
	between := func(raw []byte) []byte {
		after, err := p.admit(t, namespace, raw)
		if err != nil {
			t.Fatalf("%s: the API server refuses: %v\nsent %s\nnow  %s", namespace, err, asJSON(t, sent), raw)
		}
		return after
	}
	pod := func(raw []byte) (pod corev1.Pod) { _ = json.Unmarshal(raw, &pod); return pod }
	object, ranges := asJSON(t, sent), p.ranges[namespace]
	if strings.Contains(m.name, "reservation") {
		between = func(raw []byte) []byte { return raw }
		pod = func(raw []byte) (pod corev1.Pod) { return reserved(t, raw) }
		object, ranges, namespace = asJSON(t, reservationOf(sent)), nil, ""
	}
	asSent, arrived := pod(object), between(object)
	fail := func(what string, raw []byte) {
		t.Helper()
		t.Fatalf("%s: %s\nsent %s\nnow  %s\nLimitRanges %s", namespace, what, object, raw, asJSON(t, ranges))
	}
	first, refusal := m.run(t, mux, namespace, arrived)
	if refusal != "" {
		if !strings.Contains(refusal, "LimitRange lr has a ") || !strings.Contains(refusal, "; bound that in the LimitRange") {
			fail("refused: "+refusal, arrived)
		}
		return false
	}
	before, now := arrived, first
	for round := 2; round <= 3; round++ {
		again := now
		if r.IntN(2) == 0 {
			again = asJSON(t, restored(asTree(t, before), asTree(t, now)))
		}
		again = between(again)
		next, refusal := m.run(t, mux, namespace, again)
		if refusal != "" {
			fail(fmt.Sprintf("refused in round %d: %s", round, refusal), again)
		}
		if place := gone(asTree(t, now), asTree(t, next), ""); place != "" {
			fail(fmt.Sprintf("round %d does not keep %s\nof   %s", round, place, now), next)
		}
		before, now = again, next
	}
	all := func(pod corev1.Pod) []corev1.Container {
		return slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	}
	if amount := lost(all(asSent), all(pod(now))); amount != "" && !slices.ContainsFunc(m.routes, computesRequests) {
		fail("lost "+amount, now)
	}
	if name := above(all(pod(now))); name != "" && above(all(pod(arrived))) == "" {
		fail("the API server refuses a request above the limit of "+name, now)
	}
	if missing := lacking(ranges, pod(now)); missing != "" && lacking(ranges, pod(arrived)) == "" {
		fail("LimitRanger refuses it: "+missing, now)
	}
	return true
}

// above returns a resource that a container requests more of than its limit; "" if there is none.
func above(containers []corev1.Container) string {
	for _, c := range containers {
		for name, limit := range c.Resources.Limits {
			if request := c.Resources.Requests[name]; request.Cmp(limit) > 0 {
				return string(name)
			}
		}
	}
	return ""
}

// computesRequests reports whether a route has a step that sets other amounts than the user.
func computesRequests(r admit.Route) bool {
	return slices.ContainsFunc(r.Chain.Steps(), func(s admit.Step) bool { return s.Name == "requests-from-limits" && s.Mode != admit.Off })
}

// reservationOf returns a reservation for a pod.
func reservationOf(pod object) object {
	return object{"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": pod["metadata"],
		"spec": object{"owners": []any{object{"labelSelector": object{}}}, "template": object{"spec": pod["spec"]}}}
}

// reserved returns the pod of a reservation.
func reserved(t *testing.T, raw []byte) (pod corev1.Pod) {
	t.Helper()
	var is struct{ Spec struct{ Template corev1.Pod } }
	if err := json.Unmarshal(raw, &is); err != nil {
		t.Fatal(err)
	}
	return is.Spec.Template
}
