package quota

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/colocation/api"
)

func exactly(class string, change func(*resourcev1.ExactDeviceRequest)) resourcev1.DeviceRequest {
	r := &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2}
	if change != nil {
		change(r)
	}
	return resourcev1.DeviceRequest{Name: "r", Exactly: r}
}

func firstOf(classes ...string) resourcev1.DeviceRequest {
	r := resourcev1.DeviceRequest{Name: "r"}
	for _, class := range classes {
		r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{Name: class, DeviceClassName: class})
	}
	return r
}

func claiming(claims []corev1.PodResourceClaim) *corev1.PodSpec {
	return &corev1.PodSpec{ResourceClaims: claims}
}

// TestDevices: what is mapped is counted, or the pod is refused; what is not is named.
func TestDevices(t *testing.T) {
	all := func(r *resourcev1.ExactDeviceRequest) {
		r.AllocationMode, r.Count = resourcev1.DeviceAllocationModeAll, 0
	}
	for _, c := range []struct {
		name     string
		requests []resourcev1.DeviceRequest
		text     string
		unmapped []string
		refused  string
	}{
		{"none", nil, "", nil, ""},
		{"two", []resourcev1.DeviceRequest{exactly("gpu", nil)}, `{"gpus":"2"}`, nil, ""},
		{"no count", []resourcev1.DeviceRequest{exactly("gpu", func(r *resourcev1.ExactDeviceRequest) { r.AllocationMode, r.Count = "", 0 })}, `{"gpus":"1"}`, nil, ""},
		{"two classes of one resource", []resourcev1.DeviceRequest{exactly("gpu", nil), exactly("big-gpu", nil), exactly("nic", nil)}, `{"gpus":"4","nics":"2"}`, nil, ""},
		{"unmapped", []resourcev1.DeviceRequest{exactly("fpga", nil), exactly("fpga", all), firstOf("fpga", "dsp")}, "", []string{"fpga", "dsp"}, ""},
		{"all", []resourcev1.DeviceRequest{exactly("gpu", all)}, "", nil, "allocationMode All"},
		{"a first one", []resourcev1.DeviceRequest{firstOf("fpga", "gpu")}, "", nil, "firstAvailable with device class gpu"},
		{"administrative access", []resourcev1.DeviceRequest{exactly("gpu", func(r *resourcev1.ExactDeviceRequest) { all(r); r.AdminAccess = new(true) })}, "", nil, ""},
		{"of a later Kubernetes", []resourcev1.DeviceRequest{{Name: "r"}}, "", nil, "of a kind that cannot be counted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Devices{Classes: map[string]corev1.ResourceName{"gpu": "gpus", "big-gpu": "gpus", "nic": "nics"},
				Templates: func(context.Context, string, string) (*resourcev1.ResourceClaimSpec, bool, error) {
					return &resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: c.requests}}, true, nil
				}}
			claimed, err := d.Count(t.Context(), "ns", claiming([]corev1.PodResourceClaim{{Name: "a", ResourceClaimTemplateName: new("t")}}))
			if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Fatalf("refused: %v, want %q", err, c.refused)
			}
			if err == nil && (claimed.Text() != c.text || !slices.Equal(claimed.Unmapped, c.unmapped)) {
				t.Errorf("%s, unmapped %q; want %s, %q", claimed.Text(), claimed.Unmapped, c.text, c.unmapped)
			}
		})
	}
}

// TestDevicesOfClaims: claims that cannot be counted are the user's to change, and a failure is ours; without a mapping nothing is asked.
func TestDevicesOfClaims(t *testing.T) {
	ours := errors.New("ours")
	claim := func(name string) []corev1.PodResourceClaim {
		return []corev1.PodResourceClaim{{Name: "ok"}, {Name: "a", ResourceClaimTemplateName: &name}}
	}
	d := Devices{Classes: map[string]corev1.ResourceName{"gpu": "gpus"}, Templates: func(_ context.Context, _, name string) (*resourcev1.ResourceClaimSpec, bool, error) {
		return nil, false, map[string]error{"failing": ours}[name]
	}}
	_, err := d.Count(t.Context(), "ns", claiming(claim("failing")))
	if _, user := errors.AsType[*field.Error](err); user || !errors.Is(err, ours) {
		t.Errorf("a failure: %v", err)
	}
	for at, claims := range map[string][]corev1.PodResourceClaim{
		"spec.resourceClaims[1].resourceClaimTemplateName": claim("unknown"),
		"spec.resourceClaims[0].resourceClaimName":         {{Name: "a", ResourceClaimName: new("shared")}},
	} {
		_, err := d.Count(t.Context(), "ns", claiming(claims))
		if user, ok := errors.AsType[*field.Error](err); !ok || user.Field != at {
			t.Errorf("%v, want one at %s", err, at)
		}
		if _, err := (Devices{}).Count(t.Context(), "ns", claiming(claims)); err != nil {
			t.Errorf("without a mapping: %v", err)
		}
	}
}

// TestDevicesRequested: devices that containers request as resources by the name of their class count like those of claims, and once.
func TestDevicesRequested(t *testing.T) {
	const implicit = "deviceclass.resource.kubernetes.io/"
	asks := func(list corev1.ResourceList) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}
	}
	spec := claiming([]corev1.PodResourceClaim{{Name: "a", ResourceClaimTemplateName: new("t")}})
	spec.InitContainers = []corev1.Container{asks(corev1.ResourceList{implicit + "gpu": resource.MustParse("2")})}
	spec.Containers = []corev1.Container{
		asks(corev1.ResourceList{implicit + "gpu": resource.MustParse("3"), implicit + "own": resource.MustParse("5"), "gpu": resource.MustParse("7")}),
		asks(corev1.ResourceList{implicit + "gpu": resource.MustParse("4"), implicit + "fpga": resource.MustParse("1"), implicit + "none": {}}),
	}
	d := Devices{Classes: map[string]corev1.ResourceName{"gpu": "gpus", "own": implicit + "own"}, Templates: func(context.Context, string, string) (*resourcev1.ResourceClaimSpec, bool, error) {
		return &resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{exactly("gpu", nil)}}}, true, nil
	}}
	claimed, err := d.Count(t.Context(), "ns", spec)
	if err != nil || claimed.Text() != `{"gpus":"9"}` || !slices.Equal(claimed.Unmapped, []string{"fpga"}) {
		t.Errorf("%s, unmapped %q, %v", claimed.Text(), claimed.Unmapped, err)
	}
}

// TestDevicesCount: with the gate a pod counts for its devices, beside all else, until it has ended; without it, or by a text that
// usher does not write, it counts for none.
func TestDevicesCount(t *testing.T) {
	for _, c := range []struct {
		text  string
		count bool
		ended corev1.PodPhase
		want  string
	}{
		{`{"gpus":"2","cpu":"1"}`, true, "", "cpu=3 gpus=2"},
		{`{"gpus":"2","cpu":"1"}`, false, "", "cpu=2 gpus=0"},
		{`{"gpus":"2"}`, true, corev1.PodSucceeded, "cpu=0 gpus=0"},
		{`{"gpus":"-2"}`, true, "", "cpu=2 gpus=0"},
		{`gpus`, true, "", "cpu=2 gpus=0"},
	} {
		meta := &metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationDeviceClaims: c.text}}
		spec := &corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}}}}}
		p := PodOf(meta, spec, &corev1.PodStatus{Phase: c.ended})
		for range 2 { // charging changes no pod
			charge := (Counting{Devices: c.count}).Charge(p)
			cpu, gpus := charge["cpu"], charge["gpus"]
			if got := "cpu=" + cpu.String() + " gpus=" + gpus.String(); got != c.want {
				t.Errorf("%s, gate %v: %s, want %s", c.text, c.count, got, c.want)
			}
		}
	}
}
