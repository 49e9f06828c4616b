package collections

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresource "k8s.io/component-helpers/resource"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/test/seed"
)

// TestHeldEqualsComponentHelpers: a pod counts for what the scheduler's own library computes, whether the watch or a
// review delivers it.
func TestHeldEqualsComponentHelpers(t *testing.T) {
	pods, first := seed.Rounds(100_000), seed.Value(t)
	if testing.Short() {
		pods = 5_000
	}
	const shares = 4
	for share := range uint64(shares) {
		t.Run(fmt.Sprint("share ", share), func(t *testing.T) {
			t.Parallel()
			rng, held := rand.New(rand.NewPCG(first, share)), 0
			for range pods / shares {
				if heldAsInTheLibrary(t, rng) {
					held++
				}
			}
			if held < pods/shares/5 || held > pods/shares*4/5 {
				t.Errorf("%d of %d pods are held for something else than their requests: the pods do not show much", held, pods/shares)
			}
		})
	}
}

// heldAsInTheLibrary compares the charge of a random pod, and reports whether the pod is held for something else than
// its requests.
func heldAsInTheLibrary(t *testing.T, rng *rand.Rand) bool {
	t.Helper()
	raw, pod := randomPod(t, rng)
	want := podresource.PodRequests(pod, podresource.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: podresource.IsPodLevelRequestsSet(pod),
	})
	watched := watchedPod(t, raw)
	for way, p := range map[string]*quota.Pod{"watched": watched, "reviewed": reviewedPod(t, raw)} {
		if p.Held != nil {
			p.Held.Unsettled = false // the library does not know generations
		}
		if got := (quota.Counting{Allocated: true}).Charge(p); !quantity.EqualAmounts(got, want) {
			t.Fatalf("%s: %v, want %v:\n%s", way, got, want, raw)
		}
	}
	return watched.Held != nil
}

// watchedPod returns what is kept of a pod.
func watchedPod(t testing.TB, raw []byte) *quota.Pod {
	t.Helper()
	var pod countedPod
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &pod); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return keepPod(&pod)
}

// reviewedPod returns a pod as a review of it is read.
func reviewedPod(t testing.TB, raw []byte) *quota.Pod {
	t.Helper()
	d, err := document.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	view := admit.AsPod(d)
	spec, status := view.Asking(), view.Allocation()
	p := quota.PodOf(&metav1.ObjectMeta{}, &spec, &status)
	if d.Err() != nil {
		t.Fatalf("%v: %s", d.Err(), raw)
	}
	return p
}

// randomPod returns a pod in JSON and as it decodes. About half of them are being resized.
func randomPod(t *testing.T, rng *rand.Rand) (raw []byte, decoded *corev1.Pod) {
	t.Helper()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "ns", "p"
	for i := range rng.IntN(5) {
		pod.Spec.Containers = append(pod.Spec.Containers, randomContainer(rng, fmt.Sprintf("c%d", i)))
	}
	for i := range rng.IntN(4) {
		c := randomContainer(rng, fmt.Sprintf("i%d", i))
		if rng.IntN(2) == 0 {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	if rng.IntN(5) == 0 {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: randomList(rng)}
	}
	if rng.IntN(5) == 0 {
		pod.Spec.Overhead = randomList(rng)
	}
	if rng.IntN(10) > 0 {
		pod.Status = randomStatus(rng, &pod.Spec)
	}
	raw, err := json.Marshal(pod)
	if err == nil {
		err = json.Unmarshal(raw, &decoded) // without empty lists
	}
	if err != nil {
		t.Fatal(err)
	}
	return raw, decoded
}

func randomContainer(rng *rand.Rand, name string) corev1.Container {
	if rng.IntN(50) == 0 {
		name = "c0" // the name of another
	}
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: randomList(rng)}}
}

// randomList returns nil now and then.
func randomList(rng *rand.Rand) corev1.ResourceList {
	if rng.IntN(8) == 0 {
		return nil
	}
	list := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "hugepages-2Mi", "example.com/x"} {
		if rng.IntN(2) == 0 {
			amounts := []string{"0", "100m", "1", "1000m", "1500m", "1e3", "3Gi", "1234567890123.123456789"}
			list[name] = resource.MustParse(amounts[rng.IntN(len(amounts))])
		}
	}
	return list
}

// randomStatus returns the status of a pod, which is idle for a third of the pods.
func randomStatus(rng *rand.Rand, spec *corev1.PodSpec) (status corev1.PodStatus) {
	idle := rng.IntN(3) == 0
	for _, c := range spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, randomContainerStatus(rng, &c, idle)...)
	}
	for _, c := range spec.InitContainers {
		status.InitContainerStatuses = append(status.InitContainerStatuses, randomContainerStatus(rng, &c, idle)...)
	}
	if idle {
		return status
	}
	if rng.IntN(10) == 0 {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: "unknown", AllocatedResources: randomList(rng)})
	}
	if rng.IntN(3) == 0 {
		status.AllocatedResources = randomList(rng)
	}
	if rng.IntN(3) == 0 {
		status.Resources = &corev1.ResourceRequirements{Requests: randomList(rng)}
	}
	for range rng.IntN(3) {
		reasons := []string{corev1.PodReasonDeferred, corev1.PodReasonInfeasible}
		types := []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress}
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: types[rng.IntN(2)], Reason: reasons[rng.IntN(2)]})
	}
	return status
}

// randomContainerStatus returns the statuses of a container: one, rarely none or two.
func randomContainerStatus(rng *rand.Rand, c *corev1.Container, idle bool) (all []corev1.ContainerStatus) {
	some := 1
	switch rng.IntN(20) {
	case 0:
		some = 0
	case 1:
		some = 2
	}
	for range some {
		status := corev1.ContainerStatus{Name: c.Name}
		for _, list := range []*corev1.ResourceList{&status.AllocatedResources, resourcesOf(&status)} {
			switch {
			case idle || rng.IntN(4) > 0:
				*list = c.Resources.Requests
			case rng.IntN(3) > 0:
				*list = randomList(rng)
			}
		}
		all = append(all, status)
	}
	return all
}

func resourcesOf(status *corev1.ContainerStatus) *corev1.ResourceList {
	status.Resources = &corev1.ResourceRequirements{}
	return &status.Resources.Requests
}

// TestIdlePodCostsNothingMore: a pod that is not being resized is kept in as much memory as before its status was read.
func TestIdlePodCostsNothingMore(t *testing.T) {
	if p := watchedPod(t, idlePod(3)); p.Held != nil || p.Requests.Cpu().String() != "3" {
		t.Errorf("%+v", p)
	}
	if size := reflect.TypeFor[quota.Pod]().Size(); size > 112 {
		t.Errorf("quota.Pod takes %d bytes, more than its size class of 112", size)
	}
}

// idlePod returns the JSON of a running pod, with the status that a kubelet writes.
func idlePod(containers int) []byte {
	var spec, status []string
	for i := range containers {
		const lists = `"requests":{"cpu":"1","memory":"1Gi"}`
		spec = append(spec, fmt.Sprintf(`{"name":"c%d","image":"registry.example/app:1","resources":{"limits":{"cpu":"2"},%s}}`, i, lists))
		status = append(status, fmt.Sprintf(`{"name":"c%d","ready":true,"restartCount":0,"image":"registry.example/app:1","imageID":"sha256:0",`+
			`"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}},"allocatedResources":{"cpu":"1","memory":"1Gi"},"resources":{"limits":{"cpu":"2"},%s}}`, i, lists))
	}
	return fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":"p","uid":"u","resourceVersion":"7","generation":1,"labels":{"app":"a"}},`+
		`"spec":{"nodeName":"n","containers":[%s]},"status":{"phase":"Running","podIP":"10.0.0.1","conditions":[{"type":"Ready","status":"True"}],`+
		`"containerStatuses":[%s],"allocatedResources":{"cpu":"1","memory":"1Gi"},"resources":{"requests":{"cpu":"1","memory":"1Gi"}}}}`,
		strings.Join(spec, ","), strings.Join(status, ","))
}

// BenchmarkKeepPod decodes an event of the watch.
func BenchmarkKeepPod(b *testing.B) {
	raw := idlePod(2)
	b.ReportAllocs()
	for b.Loop() {
		watchedPod(b, raw)
	}
}
