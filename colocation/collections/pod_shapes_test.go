package collections

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/test/seed"
)

// reading returns a function that reads pods in turn, as one cluster does: what is kept of each, or why it is not.
func reading[T any](c *cluster.Collection[T]) func(raw []byte) string {
	read := cluster.Reading(c)
	return func(raw []byte) string {
		kept, err := read(raw)
		switch p := any(kept).(type) {
		case *quota.Pod:
			return fmt.Sprintf("%s %v", inFull(p), err)
		case *PodKeys:
			return fmt.Sprintf("%#v %v", p, err)
		}
		return fmt.Sprint("nothing ", err)
	}
}

// inFull returns all of a pod, with the exact texts of its amounts.
func inFull(p *quota.Pod) string {
	if p == nil {
		return "none"
	}
	text, err := json.Marshal(p)
	return fmt.Sprintf("%s %v held %v %v", text, err, p.Held != nil, p.Gone())
}

// sameAsDecoded compares what is kept of pods that are read in turn with what is kept of each if it is decoded.
type sameAsDecoded struct{ counted, decodedCounted, keys, decodedKeys func([]byte) string }

func newSameAsDecoded() sameAsDecoded {
	counts, keys := *PodRequests, *Pods
	counts.Keep, keys.Keep = cluster.Keep(keepPod), cluster.Keep(keepKeys)
	return sameAsDecoded{reading(PodRequests), reading(&counts), reading(Pods), reading(&keys)}
}

func (s sameAsDecoded) check(t *testing.T, raw []byte) {
	t.Helper()
	if got, want := s.counted(raw), s.decodedCounted(raw); got != want {
		t.Fatalf("counted as\n%s, want\n%s:\n%s", got, want, raw)
	}
	if got, want := s.keys(raw), s.decodedKeys(raw); got != want {
		t.Fatalf("the keys are\n%s, want\n%s:\n%s", got, want, raw)
	}
}

// TestShapes: of random pods, which are damaged now and then, the same is kept whether they are decoded or not.
func TestShapes(t *testing.T) {
	rng, same := rand.New(rand.NewPCG(seed.Value(t), 1)), newSameAsDecoded()
	pods := seed.Rounds(5_000)
	if testing.Short() {
		pods = 1_000
	}
	var last []byte
	for i := range pods {
		_, pod := randomPod(t, rng)
		raw := last // of the same shape
		if rng.IntN(3) > 0 || last == nil {
			raw = furnished(t, rng, pod, i)
		}
		same.check(t, raw)
		last = renamed(raw, i)
		same.check(t, last)
		same.check(t, damaged(rng, raw))
		for _, change := range [][2]string{{`"generation":1`, `"generation":2`}, {`"observedGeneration":1`, `"observedGeneration":2`},
			{`PodResizePending","observedGeneration":1`, `PodResizePending","observedGeneration":2`}, {`"Infeasible"`, `"Deferred"`}} {
			same.check(t, []byte(strings.Replace(string(raw), change[0], change[1], 1)))
		}
	}
}

// renamed returns a pod of the same shape.
func renamed(raw []byte, i int) []byte {
	return []byte(strings.Replace(strings.Replace(string(raw), `"name":"p"`, fmt.Sprintf(`"name":"p-%d"`, i), 1), `"uid":"u`, `"uid":"v`, 1))
}

// furnished returns a random pod with more of the metadata that pods have.
func furnished(t *testing.T, rng *rand.Rand, pod *corev1.Pod, i int) []byte {
	t.Helper()
	pod.UID, pod.ResourceVersion, pod.Generation = "u-1", fmt.Sprint(i), int64(rng.IntN(3))
	pod.CreationTimestamp = metav1.Unix(int64(i), 0)
	pod.Labels = map[string]string{"a": fmt.Sprint(i)}
	pod.Annotations = map[string]string{"b\"": "\u00e4<"}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "o", Controller: new(true)}}
	switch rng.IntN(8) {
	case 0:
		pod.Labels["quota.scheduling.koordinator.sh/name"] = []string{"", "q", "q\u2028"}[rng.IntN(3)]
	case 1:
		pod.Annotations["pod.koordinator.sh/replace-resources"] = []string{"cpu:example.com/x", "memory:", ","}[rng.IntN(3)]
	case 2:
		pod.Annotations["usher.dev/device-claims"] = []string{`{"example.com/gpu":"2"}`, `{"example.com/gpu":"-2"}`, "{"}[rng.IntN(3)]
	case 3:
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.Unix(5000, 0)), new(int64(30))
	case 4:
		pod.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
	}
	if rng.IntN(2) == 0 {
		pod.Spec.NodeName = "n"
	}
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].ObservedGeneration = int64(rng.IntN(3))
	}
	pod.Status.ObservedGeneration = int64(rng.IntN(3))
	pod.Status.Phase = []corev1.PodPhase{corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded}[rng.IntN(4)]
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// damaged returns a pod of which one value is another, or one byte is.
func damaged(rng *rand.Rand, raw []byte) []byte {
	changed := []byte(string(raw))
	if rng.IntN(4) == 0 {
		changed[rng.IntN(len(changed))] = `"{}[]:,\0x `[rng.IntN(11)]
		return changed
	}
	var root any
	if json.Unmarshal(changed, &root) != nil {
		return changed
	}
	others := []any{nil, true, "", "x", "1", "1e3", "9999999999999999999999", -1, 1.5, 1e30, []any{}, []any{nil}, []any{"x"}, map[string]any{}, map[string]any{"cpu": nil}}
	var places []func(any)
	collect(root, func(set func(any)) { places = append(places, set) })
	places[rng.IntN(len(places))](others[rng.IntN(len(others))])
	changed, _ = json.Marshal(root)
	return changed
}

// collect passes a function for each value below one, which sets it.
func collect(in any, place func(func(any))) {
	switch in := in.(type) {
	case map[string]any:
		for key, value := range in {
			place(func(other any) { in[key] = other })
			collect(value, place)
		}
	case []any:
		for i, value := range in {
			place(func(other any) { in[i] = other })
			collect(value, place)
		}
	}
}

// FuzzShapes: of every two texts that are read in turn, the same is kept whether they are decoded or not.
func FuzzShapes(f *testing.F) {
	pod := string(idlePod(2))
	for _, other := range []string{
		strings.Replace(pod, `"cpu":"1"`, `"cpu":1`, 1), strings.Replace(pod, `"cpu":"1"`, `"cpu":"1","cpu":"2"`, 1), strings.ReplaceAll(pod, `"name":"c1"`, `"name":"c\u0030"`),
		strings.Replace(pod, `"phase":"Running"`, `"phase":"Failed"`, 1), strings.Replace(pod, `"generation":1`, `"generation":1e0`, 1),
		strings.Replace(pod, `"type":"Ready"`, `"type":"PodResizePending","reason":"Infeasible","observedGeneration":1`, 1),
		strings.Replace(pod, `"status":{`, `"Status":{`, 1), `{"metadata":{"name":"p","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{}}`, `null`, `{"metadata":{"name":"p"},"spec":null}`,
	} {
		f.Add(pod, other)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		same := newSameAsDecoded()
		same.check(t, []byte(first))
		same.check(t, []byte(second))
		same.check(t, renamed([]byte(first), 1))
	})
}

// TestShapesAreShared: pods of the same shape are not decoded, and have the same amounts and keys; those of another are, and
// have not.
func TestShapesAreShared(t *testing.T) {
	read, keys := cluster.Reading(PodRequests), cluster.Reading(Pods)
	raw := string(idlePod(2))
	amounts := func(raw string) uintptr {
		p, err := read([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		return reflect.ValueOf(p.Requests).Pointer()
	}
	first := amounts(raw)
	for what, other := range map[string]string{
		"name": strings.Replace(raw, `"name":"p"`, `"name":"other"`, 1), "node": strings.Replace(raw, `"nodeName":"n"`, `"nodeName":"m"`, 1),
		"condition": strings.Replace(raw, `"status":"True"`, `"status":"False","reason":"x","lastTransitionTime":"2026-01-01T00:00:00Z"`, 1),
		"address":   strings.Replace(raw, "10.0.0.1", "10.0.0.2", 1), "label": strings.Replace(raw, `"app":"a"`, `"app":"b"`, 1),
	} {
		if other == raw || amounts(other) != first {
			t.Errorf("a pod with another %s does not share", what)
		}
	}
	if amounts(strings.Replace(raw, `"cpu":"1"`, `"cpu":"2"`, 1)) == first {
		t.Error("a pod that requests more shares")
	}
	a, err := keys([]byte(raw))
	b, err2 := keys([]byte(strings.Replace(raw, `"app":"a"`, `"app":"b"`, 1)))
	if err != nil || err2 != nil || a != b || len(a.Labels) != 1 {
		t.Errorf("%v %v %v %v", a, b, err, err2)
	}
}

// TestShapesAreBounded: many shapes and names are no more memory than a few, and a long shape is not kept.
func TestShapesAreBounded(t *testing.T) {
	shapes := newPodShapes()
	c := *PodRequests
	c.Keep = cluster.Keep(keepPod).Or(func() cluster.Shortcut[*quota.Pod] { return shapes.read })
	read, raw := cluster.Reading(&c), string(idlePod(1))
	for i := range maxTexts - 10 {
		shapes.texts[fmt.Sprint("node ", i)] = ""
	}
	for i := range maxShapes + 10 {
		other := strings.Replace(strings.Replace(raw, `"cpu":"1"`, fmt.Sprintf(`"cpu":"%d"`, i), 1), `"nodeName":"n"`, fmt.Sprintf(`"nodeName":"n%d"`, i), 1)
		if p, err := read([]byte(other)); err != nil || p.Node != fmt.Sprint("n", i) || p.Requests.Cpu().Value() != int64(i) {
			t.Fatal(i, p, err)
		}
	}
	if len(shapes.counts) > maxShapes || len(shapes.texts) > maxTexts {
		t.Errorf("%d shapes, %d texts", len(shapes.counts), len(shapes.texts))
	}
	before := len(shapes.counts)
	long := strings.Replace(raw, `"cpu":"1"`, `"cpu":"1`+strings.Repeat(" ", maxShape)+`"`, 1)
	if p, err := read([]byte(long)); err != nil || p.Name != "p" || len(shapes.counts) != before || cap(shapes.shape) > 4*maxShape {
		t.Error(p, err, len(shapes.counts))
	}
}
