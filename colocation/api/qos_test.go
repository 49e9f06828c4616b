package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// list returns a resource list of alternating names and quantities.
func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func container(requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func pod(containers ...corev1.Container) *corev1.PodSpec {
	return &corev1.PodSpec{Containers: containers}
}

func TestRawQoS(t *testing.T) {
	for label, want := range map[string]QoSClass{
		"LSE": QoSLSE, "LSR": QoSLSR, "LS": QoSLS, "BE": QoSBE, "SYSTEM": QoSSystem,
		"": QoSNone, "be": QoSNone, "System": QoSNone, "BE ": QoSNone, "Guaranteed": QoSNone,
	} {
		if got := RawQoS(label); got != want {
			t.Errorf("%q is %q, want %q", label, got, want)
		}
	}
}

func TestKubernetesQoS(t *testing.T) {
	both, twice := list("cpu", "1", "memory", "1Gi"), list("cpu", "2", "memory", "2Gi")
	guaranteed := container(both, both)
	withInit := func(init corev1.Container) *corev1.PodSpec {
		return &corev1.PodSpec{InitContainers: []corev1.Container{init}, Containers: []corev1.Container{guaranteed}}
	}
	podLevel := func(requests, limits corev1.ResourceList, containers ...corev1.Container) *corev1.PodSpec {
		return &corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: requests, Limits: limits}, Containers: containers}
	}
	for name, c := range map[string]struct {
		spec *corev1.PodSpec
		want corev1.PodQOSClass
		qos  QoSClass
	}{
		"nothing":             {pod(container(nil, nil)), corev1.PodQOSBestEffort, QoSBE},
		"no containers":       {pod(), corev1.PodQOSBestEffort, QoSBE},
		"zeros":               {pod(container(list("cpu", "0"), list("memory", "0"))), corev1.PodQOSBestEffort, QoSBE},
		"other resources":     {pod(container(list("nvidia.com/gpu", "1"), list("nvidia.com/gpu", "1"))), corev1.PodQOSBestEffort, QoSBE},
		"batch resources":     {pod(container(list("kubernetes.io/batch-cpu", "1k"), nil)), corev1.PodQOSBestEffort, QoSBE},
		"equal":               {pod(guaranteed, guaranteed), corev1.PodQOSGuaranteed, QoSLSR},
		"equal, otherwise":    {pod(container(list("cpu", "1000m", "memory", "1024Mi"), both)), corev1.PodQOSGuaranteed, QoSLSR},
		"limits above":        {pod(container(both, twice)), corev1.PodQOSBurstable, QoSLS},
		"limits only":         {pod(container(nil, both)), corev1.PodQOSBurstable, QoSLS},
		"requests only":       {pod(container(both, nil)), corev1.PodQOSBurstable, QoSLS},
		"cpu only":            {pod(container(list("cpu", "1"), list("cpu", "1"))), corev1.PodQOSBurstable, QoSLS},
		"zero memory limit":   {pod(container(list("cpu", "1"), list("cpu", "1", "memory", "0"))), corev1.PodQOSBurstable, QoSLS},
		"one has nothing":     {pod(guaranteed, container(nil, nil)), corev1.PodQOSBurstable, QoSLS},
		"init has nothing":    {withInit(container(nil, nil)), corev1.PodQOSBurstable, QoSLS},
		"init equal":          {withInit(guaranteed), corev1.PodQOSGuaranteed, QoSLSR},
		"totals are equal":    {pod(container(both, twice), container(twice, both)), corev1.PodQOSGuaranteed, QoSLSR}, // as computed by the kubelet
		"pod level equal":     {podLevel(both, both, container(nil, nil)), corev1.PodQOSGuaranteed, QoSLSR},
		"pod level goes over": {podLevel(both, twice, guaranteed), corev1.PodQOSBurstable, QoSLS},
		"pod level empty":     {podLevel(nil, nil, guaranteed), corev1.PodQOSBestEffort, QoSBE},
		"ephemeral": {&corev1.PodSpec{Containers: []corev1.Container{guaranteed}, EphemeralContainers: []corev1.EphemeralContainer{{}}},
			corev1.PodQOSGuaranteed, QoSLSR},
	} {
		if got := kubernetesQoS(c.spec); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := defaultQoS(c.spec); got != c.qos {
			t.Errorf("%s: %s, want %s", name, got, c.qos)
		}
	}
}
