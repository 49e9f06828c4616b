package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func sidecar(requests corev1.ResourceList) corev1.Container {
	c := container(requests, nil)
	c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return c
}

func asks(pairs ...string) corev1.Container { return container(list(pairs...), nil) }

func TestPodRequest(t *testing.T) {
	two := []corev1.Container{asks("cpu", "1", "memory", "1Gi"), asks("cpu", "500m", "example.io/x", "3")}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want corev1.ResourceList
	}{
		"nothing":     {corev1.PodSpec{}, list()},
		"sum":         {corev1.PodSpec{Containers: two}, list("cpu", "1500m", "memory", "1Gi", "example.io/x", "3")},
		"limits only": {corev1.PodSpec{Containers: []corev1.Container{container(nil, list("kubernetes.io/batch-cpu", "1k"))}}, list()},
		"init is more": {corev1.PodSpec{Containers: two, InitContainers: []corev1.Container{asks("cpu", "1"), asks("cpu", "4")}},
			list("cpu", "4", "memory", "1Gi", "example.io/x", "3")},
		"sidecars are added": {corev1.PodSpec{Containers: two, InitContainers: []corev1.Container{sidecar(list("cpu", "1"))}},
			list("cpu", "2500m", "memory", "1Gi", "example.io/x", "3")},
		"init after a sidecar": {corev1.PodSpec{Containers: two, InitContainers: []corev1.Container{sidecar(list("cpu", "1")), asks("cpu", "2")}},
			list("cpu", "3", "memory", "1Gi", "example.io/x", "3")},
		"init before a sidecar": {corev1.PodSpec{Containers: two, InitContainers: []corev1.Container{asks("cpu", "2"), sidecar(list("cpu", "1"))}},
			list("cpu", "2500m", "memory", "1Gi", "example.io/x", "3")},
		"overhead": {corev1.PodSpec{Containers: two, Overhead: list("cpu", "100m", "kubernetes.io/batch-cpu", "1k")},
			list("cpu", "1600m", "memory", "1Gi", "example.io/x", "3", "kubernetes.io/batch-cpu", "1k")},
		"pod level": {corev1.PodSpec{Containers: two, Overhead: list("cpu", "1"), Resources: &corev1.ResourceRequirements{
			Requests: list("cpu", "8", "hugepages-2Mi", "4Mi", "example.io/x", "9")}},
			list("cpu", "9", "memory", "1Gi", "hugepages-2Mi", "4Mi", "example.io/x", "3")},
	} {
		if diff := cmp.Diff(c.want, PodRequest(&c.spec)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestPodRequestLeavesThePodAlone: copies of quantities with very many digits share memory. Computing the request
// twice, or changing the result, must not change the pod.
func TestPodRequestLeavesThePodAlone(t *testing.T) {
	const long = "1234567890123.123456789"
	spec := corev1.PodSpec{Containers: []corev1.Container{asks("memory", long)}, Overhead: list("cpu", long, "memory", long),
		Resources: &corev1.ResourceRequirements{Requests: list("cpu", long)}}
	before := spec.DeepCopy()
	first := PodRequest(&spec).DeepCopy()
	for _, q := range PodRequest(&spec) {
		q.Add(resource.MustParse("1"))
	}
	if diff := cmp.Diff(before, &spec); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(first, PodRequest(&spec)); diff != "" {
		t.Error(diff)
	}
	if want := resource.MustParse("2469135780246.246913578"); !first.Cpu().Equal(want) || !first.Memory().Equal(want) {
		t.Error(first)
	}
}

func TestWholeCores(t *testing.T) {
	for text, want := range map[string]bool{
		"1": true, "0": true, "2000m": true, "1.0": true, "1k": true, "9E": true,
		"100m": false, "1.5": false, "1.000000001": false, "1000000u": true, "1234567890123.123456789": false,
	} {
		q := resource.MustParse(text)
		if got := WholeCores(q); got != want || q.Cmp(resource.MustParse(text)) != 0 {
			t.Errorf("%s: %v, want %v; now %s", text, got, want, q.String())
		}
	}
}
