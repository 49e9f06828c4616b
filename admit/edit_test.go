package admit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/test/seed"
)

// productionPod returns the pod of a sample, which has some 20 KB without white space.
func productionPod(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile("../samples/reviews/mutate-pods/production-pod.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := document.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, d.Root().At("request", "object").Bytes()); err != nil {
		t.Fatal(err)
	}
	return compact.Bytes()
}

func TestEditOfNothingHasNoPatch(t *testing.T) {
	for _, raw := range append(slices.Clone(shapes), fullPod, string(productionPod(t))) {
		d := parse(t, raw)
		AsPod(d).Edit(func(p *corev1.Pod) {
			p.Spec.Containers = slices.Clone(p.Spec.Containers)
			p.Labels = maps.Clone(p.Labels)
		})
		if ops := d.Patch(); len(ops) > 0 || d.Edits() > 0 {
			t.Errorf("%.200s: %d edits, %v", raw, d.Edits(), ops)
		}
	}
}

var (
	spread   = corev1.TopologySpreadConstraint{MaxSkew: 2, TopologyKey: "host", WhenUnsatisfiable: corev1.ScheduleAnyway}
	affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
	restrict = &corev1.SecurityContext{Privileged: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"NET_RAW"}}}
	probe    = &corev1.Probe{PeriodSeconds: 7, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
	podSec   = &corev1.PodSecurityContext{RunAsUser: new(int64(5)), SupplementalGroups: []int64{2}}
	port     = corev1.ContainerPort{ContainerPort: 80, Name: "http"}
)

// typedEdits change fields that have no view.
var typedEdits = map[string]func(*corev1.Pod){
	"hostNetwork":        func(p *corev1.Pod) { p.Spec.HostNetwork = false },
	"hostPID":            func(p *corev1.Pod) { p.Spec.HostPID = true },
	"serviceAccountName": func(p *corev1.Pod) { p.Spec.ServiceAccountName = "x" },
	"automount":          func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(false) },
	"dnsPolicy":          func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSNone },
	"grace period":       func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(9)) },
	"security":           func(p *corev1.Pod) { p.Spec.SecurityContext = podSec },
	"no security":        func(p *corev1.Pod) { p.Spec.SecurityContext = nil },
	"affinity":           func(p *corev1.Pod) { p.Spec.Affinity = affinity },
	"spread": func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, spread)
	},
	"image":                eachTyped(func(c *corev1.Container) { c.Image = "i" }),
	"imagePullPolicy":      eachTyped(func(c *corev1.Container) { c.ImagePullPolicy = "Never" }),
	"command":              eachTyped(func(c *corev1.Container) { c.Command = []string{"b", "x"} }),
	"no command":           eachTyped(func(c *corev1.Container) { c.Command = nil }),
	"args":                 eachTyped(func(c *corev1.Container) { c.Args = []string{"x"} }),
	"ports":                eachTyped(func(c *corev1.Container) { c.Ports = append(c.Ports, port) }),
	"probe":                eachTyped(func(c *corev1.Container) { c.LivenessProbe = probe }),
	"no probe":             eachTyped(func(c *corev1.Container) { c.StartupProbe = nil }),
	"container's security": eachTyped(func(c *corev1.Container) { c.SecurityContext = restrict }),
}

// TestEditDoesWhatTheTypedEditDoes: also for the typed twins of the verbs.
func TestEditDoesWhatTheTypedEditDoes(t *testing.T) {
	for _, raw := range append(slices.Clone(shapes), fullPod, string(productionPod(t))) {
		for _, verb := range fieldVerbs {
			compare(t, verb.name, raw, AsPod, func(p *Pod) { p.Edit(verb.typed) }, verb.typed)
		}
		for name, verb := range podVerbs {
			compare(t, name, raw, AsPod, func(p *Pod) { p.Edit(verb.typed) }, verb.typed)
		}
		for name, edit := range typedEdits {
			compare(t, name, raw, AsPod, func(p *Pod) { p.Edit(edit) }, edit)
		}
	}
}

// TestEditKeepsUnknownFields: setting a whole part keeps what its type does not know.
func TestEditKeepsUnknownFields(t *testing.T) {
	d := parse(t, fullPod)
	AsPod(d).Edit(func(p *corev1.Pod) {
		for _, name := range []string{"security", "affinity", "container's security", "probe"} {
			typedEdits[name](p)
		}
	})
	after := string(patched(t, d, fullPod))
	if got, want := strings.Count(after, `"x":`), strings.Count(fullPod, `"x":`)-2; got != want { // the removed httpGet and nodeAffinity
		t.Errorf("%d unknown fields, want %d: %s", got, want, after)
	}
}

// TestRandomEdits: after random changes the patched document decodes to the typed result, and each list element that is
// still there has the field x that the typed pod does not know, with its own value.
func TestRandomEdits(t *testing.T) {
	r := random{seed.Random(t)}
	for n := range 400 {
		raw := r.pod()
		d := parse(t, raw)
		var want, got corev1.Pod
		for range 2 { // the second on the result of the first
			AsPod(d).Edit(func(p *corev1.Pod) {
				r.changeTolerations(p)
				for range r.IntN(5) {
					r.change(p)
				}
				want = *p.DeepCopy()
			})
		}
		after := patched(t, d, raw)
		if err := json.Unmarshal(after, &got); err != nil || d.Err() != nil {
			t.Fatal(n, err, d.Err())
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("case %d (-typed +patched):\n%s\n%s", n, diff, raw)
		}
		if diff := cmp.Diff(unknownOf(want), unknownIn(parse(t, string(after)).Root().Tree())); diff != "" {
			t.Fatalf("case %d, unknown fields (-want +got):\n%s\n%s", n, diff, raw)
		}
	}
}

type random struct{ *rand.Rand }

// pod returns a pod in which every element of a list has a field x, which names it.
func (r random) pod() string {
	var containers []string
	for i := range 1 + r.IntN(4) {
		var env, ports []string
		for j := range r.IntN(4) {
			env = append(env, fmt.Sprintf(`{"name":"e%d","value":"v","x":"c%d e%d"}`, j, i, j))
		}
		for j, protocol := range []string{"UDP", "TCP", "SCTP"}[:r.IntN(4)] {
			ports = append(ports, fmt.Sprintf(`{"containerPort":%d,"protocol":%q,"x":"c%d %s"}`, 53+j/2, protocol, i, protocol))
		}
		containers = append(containers, fmt.Sprintf(`{"name":"c%d","x":"c%d","image":"i","env":[%s],"ports":[%s],
		  "resources":{"limits":{"cpu":"1000m"}}}`, i, i, strings.Join(env, ","), strings.Join(ports, ",")))
	}
	var tolerations []string
	for i := range r.IntN(4) {
		tolerations = append(tolerations, fmt.Sprintf(`{"key":"t%d","x":"t%d"}`, i, i))
	}
	return fmt.Sprintf(`{"metadata":{"labels":{"a":"1","b":"2"}},"spec":{"x":"spec","containers":[%s],"tolerations":[%s],
	  "volumes":[{"name":"v0","x":"v0","emptyDir":{}},{"name":"v1","x":"v1"}]}}`,
		strings.Join(containers, ","), strings.Join(tolerations, ","))
}

// change makes one random change. New elements are named n.
func (r random) change(p *corev1.Pod) {
	spec := &p.Spec
	switch r.IntN(11) {
	case 0:
		spec.Containers = changeList(r, spec.Containers, corev1.Container{Name: "n", Image: "n"})
	case 1:
		spec.Volumes = changeList(r, spec.Volumes, corev1.Volume{Name: "n"})
	case 2:
		spec.SchedulerName = "s"
	case 3:
		p.Labels = map[string]string{"b": fmt.Sprint(r.IntN(4)), "c": "3"}
	case 4:
		spec.HostNetwork, spec.TerminationGracePeriodSeconds = !spec.HostNetwork, new(r.Int64N(3))
	case 5:
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "n"})
	case 6:
		spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(r.Int64N(3))}
	default:
		if len(spec.Containers) > 0 {
			r.changeContainer(&spec.Containers[r.IntN(len(spec.Containers))])
		}
	}
}

// changeTolerations makes one change of a list without merge key: after several, its elements could not be identified.
func (r random) changeTolerations(p *corev1.Pod) {
	switch list := &p.Spec.Tolerations; r.IntN(3) {
	case 0:
		*list = changeList(r, *list, corev1.Toleration{Key: "n"})
	case 1:
		for i := range *list {
			(*list)[i].Value = fmt.Sprint(r.IntN(3))
		}
	}
}

func (r random) changeContainer(c *corev1.Container) {
	switch r.IntN(6) {
	case 0:
		c.Env = changeList(r, c.Env, corev1.EnvVar{Name: "n", Value: "n"})
	case 1:
		c.Ports = changeList(r, c.Ports, corev1.ContainerPort{ContainerPort: 99, Name: "n"})
	case 2:
		cpu := resource.NewQuantity(r.Int64N(3), resource.DecimalSI)
		c.Resources.Limits = corev1.ResourceList{"cpu": *cpu, "memory": resource.MustParse("1Gi")}
	case 3:
		c.Command = append(c.Command, "a")
	case 4:
		socket := &corev1.TCPSocketAction{Port: intstr.FromInt32(r.Int32N(3))}
		c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: socket}}
	default:
		for i := range c.Env {
			c.Env[i].Value = fmt.Sprint(r.IntN(3))
		}
	}
}

// changeList removes an element, inserts one, or changes the order.
func changeList[T any](r random, list []T, element T) []T {
	if len(list) == 0 {
		return []T{element}
	}
	at := r.IntN(len(list))
	switch r.IntN(3) {
	case 0:
		return slices.Delete(list, at, at+1)
	case 1:
		return slices.Insert(list, at, element)
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// unknownOf returns the fields x that the document of a typed pod must have.
func unknownOf(p corev1.Pod) []string {
	all := []string{"spec"}
	add := func(name, x string) {
		if name != "n" {
			all = append(all, x)
		}
	}
	for _, c := range p.Spec.Containers {
		add(c.Name, c.Name)
		for _, e := range c.Env {
			add(e.Name, c.Name+" "+e.Name)
		}
		for _, port := range c.Ports {
			add(port.Name, c.Name+" "+string(port.Protocol))
		}
	}
	for _, t := range p.Spec.Tolerations {
		add(t.Key, t.Key)
	}
	for _, v := range p.Spec.Volumes {
		add(v.Name, v.Name)
	}
	slices.Sort(all)
	return all
}

// unknownIn returns the fields x in a decoded document. An x in the wrong element is marked.
func unknownIn(tree any) (all []string) {
	switch tree := tree.(type) {
	case []any:
		for _, element := range tree {
			all = append(all, unknownIn(element)...)
		}
	case map[string]any:
		if x, ok := tree["x"].(string); ok {
			for _, key := range []string{"name", "key", "protocol"} {
				if name, ok := tree[key].(string); ok && !strings.HasSuffix(x, name) {
					x += " in " + name
				}
			}
			all = append(all, x)
		}
		for _, member := range tree {
			all = append(all, unknownIn(member)...)
		}
	}
	slices.Sort(all)
	return all
}

// TestEditIsUndone: Try drops the edits of Edit like any others.
func TestEditIsUndone(t *testing.T) {
	r := random{seed.Random(t)}
	for n := range 50 {
		raw := r.pod()
		d := parse(t, raw)
		_ = d.Try(func() error {
			AsPod(d).Edit(func(p *corev1.Pod) { r.change(p); r.change(p) })
			return errDropped
		})
		var want, got any
		if json.Unmarshal([]byte(raw), &want) != nil || json.Unmarshal(d.Bytes(), &got) != nil || d.Edits() > 0 || len(d.Patch()) > 0 {
			t.Fatalf("case %d: %d edits, %s", n, d.Edits(), d.Bytes())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("case %d (-sent +after):\n%s", n, diff)
		}
	}
}

// BenchmarkEdit compares Edit with a view, for the same change of a pod of 20 KB.
func BenchmarkEdit(b *testing.B) {
	raw := productionPod(b)
	for _, way := range []struct {
		name string
		do   func(*Pod)
	}{
		{"view", func(p *Pod) { p.SetSchedulerName("x") }},
		{"edit", func(p *Pod) { p.Edit(func(p *corev1.Pod) { p.Spec.SchedulerName = "x" }) }},
		{"nothing", func(*Pod) {}},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				d, err := document.Parse(raw)
				if err != nil {
					b.Fatal(err)
				}
				way.do(AsPod(d))
				d.PatchJSON()
				d.Release()
			}
		})
	}
}
