package admit

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit/document"
)

// shapes are pods and nodes as people and old clients write them.
var shapes = []string{
	`{}`,
	`{"metadata":null,"spec":null,"status":null}`,
	`{"metadata":{},"spec":{"containers":null},"status":{}}`,
	`{"spec":{"affinity":{"podAffinity":{},"nodeAffinity":null}}}`,
	`{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":null}}}}}`,
	`{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
	  {"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]},{"matchExpressions":[{"key":"zone","operator":"Exists"}]},{"matchExpressions":null}]}}}}}`,
	`{"metadata":{"labels":null,"annotations":null},"spec":{"containers":[{}],"tolerations":null},"status":{"allocatable":null}}`,
	`{"metadata":{"labels":{"a/b":"1"},"annotations":{"a/b":"1","c~d":"2"}},"spec":{"tolerations":[{"key":"k"}],"initContainers":[{"name":"i","env":[{"name":"A"}]}],
	  "containers":[{"name":"c","env":null,"resources":{"limits":{"cpu":"1","memory":"2Gi"}}},{"name":"d"}]},"status":{"allocatable":{"cpu":"1","memory":"1Gi"},"capacity":{"cpu":2}}}`,
}

var toleration = corev1.Toleration{Key: "key/~", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}

// podVerbs are the write verbs of a pod, each with the same edit on the typed object.
var podVerbs = map[string]struct {
	view  func(*Pod)
	typed func(*corev1.Pod)
}{
	"SetLabel":         {func(p *Pod) { p.SetLabel("a/b", "ü") }, func(p *corev1.Pod) { set(&p.Labels, "a/b", "ü") }},
	"SetAnnotation":    {func(p *Pod) { p.SetAnnotation("c~d", `{"x":1}`) }, func(p *corev1.Pod) { set(&p.Annotations, "c~d", `{"x":1}`) }},
	"RemoveAnnotation": {func(p *Pod) { p.RemoveAnnotation("a/b") }, func(p *corev1.Pod) { delete(p.Annotations, "a/b") }},
	"AppendToleration": {func(p *Pod) { p.AppendToleration(toleration) }, func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, toleration) }},
	"Container.AddEnv": {addEnv, addEnvTyped},
	"SetSchedulerName": {func(p *Pod) { p.SetSchedulerName("s") }, func(p *corev1.Pod) { p.Spec.SchedulerName = "s" }},
	"SetPriority": {func(p *Pod) { p.SetPriority("koord-batch", 5000, new(corev1.PreemptNever)) }, func(p *corev1.Pod) {
		p.Spec.PriorityClassName, p.Spec.Priority, p.Spec.PreemptionPolicy = "koord-batch", new(int32(5000)), new(corev1.PreemptNever)
	}},
	"SetPriority without policy": {func(p *Pod) { p.SetPriority("zero", 0, nil) }, func(p *corev1.Pod) {
		p.Spec.PriorityClassName, p.Spec.Priority, p.Spec.PreemptionPolicy = "zero", new(int32(0)), nil
	}},
	"AppendNodeTerm":            {func(p *Pod) { p.AppendNodeTerm(term) }, func(p *corev1.Pod) { *termsOf(p) = append(*termsOf(p), term) }},
	"NodeTerm.AppendExpression": {appendExpression, appendExpressionTyped},
	"Overhead.Set":              {func(p *Pod) { p.Overhead().Set("cpu", resource.MustParse("1")) }, func(p *corev1.Pod) { setResource(&p.Spec.Overhead, "cpu", "1") }},
	"Resources.Set":             {setRequests, setRequestsTyped},
	"Resources.Remove":          {removeLimits, removeLimitsTyped},
}

var term = corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{"<a>"}}}}

func termsOf(p *corev1.Pod) *[]corev1.NodeSelectorTerm {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	if p.Spec.Affinity.NodeAffinity == nil {
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	node := p.Spec.Affinity.NodeAffinity
	if node.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		node.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	}
	return &node.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

func appendExpression(p *Pod) {
	for t := range p.NodeTerms() {
		t.AppendExpression(term.MatchExpressions[0])
	}
}

func appendExpressionTyped(p *corev1.Pod) {
	if a := p.Spec.Affinity; a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return
	}
	for i := range *termsOf(p) {
		t := &(*termsOf(p))[i]
		t.MatchExpressions = append(t.MatchExpressions, term.MatchExpressions[0])
	}
}

func addEnv(p *Pod) {
	for c := range p.Containers() {
		c.AddEnv([]corev1.EnvVar{{Name: "KUBE", Value: "<true>"}})
	}
}

func addEnvTyped(p *corev1.Pod) {
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			list[i].Env = slices.Insert(list[i].Env, 0, corev1.EnvVar{Name: "KUBE", Value: "<true>"})
		}
	}
}

func setRequests(p *Pod) {
	for c := range p.Containers() {
		c.Resources().Requests().Set("kubernetes.io/batch-cpu", resource.MustParse("1k"))
	}
}

func setRequestsTyped(p *corev1.Pod) {
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			setResource(&list[i].Resources.Requests, "kubernetes.io/batch-cpu", "1k")
		}
	}
}

func removeLimits(p *Pod) {
	for c := range p.RegularContainers() {
		c.Resources().Limits().Remove("cpu")
	}
}

func removeLimitsTyped(p *corev1.Pod) {
	for i := range p.Spec.Containers {
		delete(p.Spec.Containers[i].Resources.Limits, "cpu")
	}
}

func set(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

var nodeVerbs = map[string]struct {
	view  func(*Node)
	typed func(*corev1.Node)
}{
	"Allocatable.Set": {func(n *Node) { n.Allocatable().Set("cpu", resource.MustParse("31800m")) }, func(n *corev1.Node) {
		setResource(&n.Status.Allocatable, "cpu", "31800m")
	}},
	"Capacity.Set": {func(n *Node) { n.Capacity().Set("memory", resource.MustParse("64Gi")) }, func(n *corev1.Node) {
		setResource(&n.Status.Capacity, "memory", "64Gi")
	}},
}

func setResource(l *corev1.ResourceList, name corev1.ResourceName, q string) {
	if *l == nil {
		*l = corev1.ResourceList{}
	}
	(*l)[name] = resource.MustParse(q)
}

// TestVerbsDoWhatTheTypedEditDoes: after the patch the document decodes to the result of the typed change.
func TestVerbsDoWhatTheTypedEditDoes(t *testing.T) {
	for _, shape := range shapes {
		for name, verb := range podVerbs {
			compare(t, name, shape, AsPod, verb.view, verb.typed)
		}
		for name, verb := range nodeVerbs {
			compare(t, name, shape, AsNode, verb.view, verb.typed)
		}
	}
}

func compare[V, T any](t *testing.T, name, raw string, as func(*document.Document) *V, edit func(*V), typed func(*T)) {
	t.Helper()
	d := parse(t, raw)
	edit(as(d))
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	var want, got T
	if json.Unmarshal([]byte(raw), &want) != nil {
		t.Fatal(raw)
	}
	typed(&want)
	after := patched(t, d, raw)
	if err := json.Unmarshal(after, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s on %s (-typed +view):\n%s", name, raw, diff)
	}
}

func parse(t *testing.T, raw string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func patched(t *testing.T, d *document.Document, raw string) []byte {
	t.Helper()
	ops, _ := json.Marshal(d.Patch())
	if string(ops) == "null" {
		return []byte(raw)
	}
	patch, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply([]byte(raw))
	if err != nil {
		t.Fatalf("%s does not apply to %s: %v", ops, raw, err)
	}
	return after
}

// TestAsking: Asking agrees with the whole typed spec.
func TestAsking(t *testing.T) {
	full := `{"spec":{"nodeName":"n","overhead":{"cpu":"1"},"resources":{"requests":{"memory":"1Gi"}},"volumes":[{"name":"v"}],
	  "initContainers":[{"name":"i","restartPolicy":"Always","resources":{"requests":{"cpu":1}}},{"name":"j","image":"x"}],
	  "containers":[{"name":"c","env":[{"name":"A"}],"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}}]}}`
	for _, shape := range append(slices.Clone(shapes), full) {
		whole := AsPod(parse(t, shape)).Spec()
		want := corev1.PodSpec{NodeName: whole.NodeName, Overhead: whole.Overhead, Resources: whole.Resources}
		for _, c := range whole.InitContainers {
			want.InitContainers = append(want.InitContainers, corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy})
		}
		for _, c := range whole.Containers {
			want.Containers = append(want.Containers, corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy})
		}
		if diff := cmp.Diff(want, AsPod(parse(t, shape)).Asking()); diff != "" {
			t.Errorf("%s (-whole +part):\n%s", shape, diff)
		}
	}
}

// TestAllocation: Allocation agrees with the whole typed status.
func TestAllocation(t *testing.T) {
	full := `{"status":{"phase":"Running","observedGeneration":6,"qosClass":"Burstable","conditions":[{"type":"Ready","status":"True"},
	  {"type":"PodResizePending","status":"True","reason":"Infeasible","observedGeneration":5}],
	  "allocatedResources":{"cpu":"2"},"resources":{"requests":{"cpu":"1"}},
	  "initContainerStatuses":[{"name":"i","allocatedResources":{"cpu":1}}],
	  "containerStatuses":[{"name":"c","ready":true,"state":{"running":{}},"allocatedResources":{"cpu":"2"},"resources":{"requests":{"cpu":"3"}}},{"name":"d"}]}}`
	for _, shape := range append(slices.Clone(shapes), full) {
		whole := AsPod(parse(t, shape)).Object().Status
		want := corev1.PodStatus{Phase: whole.Phase, ObservedGeneration: whole.ObservedGeneration, AllocatedResources: whole.AllocatedResources, Resources: whole.Resources}
		for _, c := range whole.Conditions {
			if c.Type == corev1.PodResizePending {
				want.Conditions = append(want.Conditions, c)
			}
		}
		for _, c := range whole.InitContainerStatuses {
			want.InitContainerStatuses = append(want.InitContainerStatuses,
				corev1.ContainerStatus{Name: c.Name, AllocatedResources: c.AllocatedResources, Resources: c.Resources})
		}
		for _, c := range whole.ContainerStatuses {
			want.ContainerStatuses = append(want.ContainerStatuses,
				corev1.ContainerStatus{Name: c.Name, AllocatedResources: c.AllocatedResources, Resources: c.Resources})
		}
		if diff := cmp.Diff(want, AsPod(parse(t, shape)).Allocation(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-whole +part):\n%s", shape, diff)
		}
	}
}

func TestReads(t *testing.T) {
	p := AsPod(parse(t, shapes[len(shapes)-1]))
	whole := p.Object()
	var names []string
	for c := range p.Containers() {
		names = append(names, c.Name()+" "+c.root.Path().String())
	}
	if want := []string{"i spec.initContainers[0]", "c spec.containers[0]", "d spec.containers[1]"}; !slices.Equal(names, want) {
		t.Errorf("containers %q, want %q", names, want)
	}
	if p.Label("a/b") != "1" || p.Label("none") != "" || len(p.Labels()) != 1 || len(p.Tolerations()) != 1 || len(whole.Spec.Containers) != 2 {
		t.Error("a read is wrong")
	}
	if value, ok := p.Annotation("c~d"); value != "2" || !ok {
		t.Error("Annotation is wrong")
	}
	node := parse(t, shapes[len(shapes)-1])
	n := AsNode(node)
	cpu, ok := n.Capacity().Get("cpu")
	if !ok || cpu.String() != "2" {
		t.Errorf("a bare number reads as %s", cpu.String())
	}
	if _, ok := n.Capacity().Get("memory"); ok {
		t.Error("a missing quantity was found")
	}
	n.Allocatable().Set("memory", resource.MustParse("1024Mi"))
	if len(node.Patch()) > 0 {
		t.Error("the same amount written otherwise is an edit")
	}
}
