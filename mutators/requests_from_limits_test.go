package mutators

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/config"
	"usher.dev/usher/test/seed"
)

// askAbout answers that every namespace has the label tier: batch, and the given LimitRanges.
func askAbout(ranges ...corev1.LimitRangeItem) admit.Questions {
	return admit.Questions{
		Namespace: func(string) (admit.Namespace, bool, error) {
			return admit.Namespace{Labels: map[string]string{"tier": "batch"}}, true, nil
		},
		LimitRanges: func(string) ([]*corev1.LimitRange, error) {
			return []*corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: ranges}}}, nil
		},
	}
}

// resourcesAfter runs the step on a pod with one container, and returns the container's resources in short.
func resourcesAfter(t *testing.T, policy RequestsFromLimits, ask admit.Questions, resources string) string {
	t.Helper()
	d, err := document.Parse([]byte(`{"metadata":{"namespace":"ns"},"spec":{"containers":[{"name":"c","resources":` + resources + `}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	req := &admit.Request{Operation: admissionv1.Create, Namespace: "ns", Object: d}
	if err := requestsFromLimits(policy, ask).Run(t.Context(), req, admit.AsPod(d)); err != nil {
		t.Fatal(err)
	}
	for c := range admit.AsPod(d).Containers() {
		return inShort(c.Resources().Requests()) + " of " + inShort(c.Resources().Limits())
	}
	return ""
}

// TestRequestsFromLimitsOfWholePods: what a pod asks for as a whole bounds its containers, so they are left alone.
func TestRequestsFromLimitsOfWholePods(t *testing.T) {
	const containers = `"containers":[{"resources":{"limits":{"cpu":"2","memory":"4Gi"},"requests":{"cpu":"50m"}}}]`
	step := requestsFromLimits(RequestsFromLimits{{Name: "a", CPURequestToLimitPercent: 50}}, askAbout())
	for pod, want := range map[string]string{
		`{"spec":{"resources":{"requests":{"cpu":"100m"}},` + containers + `}}`: "",
		`{"spec":{"resources":{"limits":{"cpu":"1"}},` + containers + `}}`:      "",
		`{"spec":{"resources":{},` + containers + `}}`:                          `[{"op":"replace","path":"/spec/containers/0/resources/requests/cpu","value":"1"}]`,
	} {
		if got := createPod(t, step, pod); got != want {
			t.Errorf("%s: %s, want %s", pod, got, want)
		}
	}
}

func inShort(r admit.Resources) string {
	var all []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, found := r.Get(name); found {
			all = append(all, q.String())
		} else {
			all = append(all, "-")
		}
	}
	return strings.Join(all, "/")
}

func TestRequestsFromLimits(t *testing.T) {
	quarter := RequestsClass{Name: "a", CPURequestToLimitPercent: 25, MemoryRequestToLimitPercent: 50}
	inProportion := RequestsClass{Name: "a", LimitCPUToMemoryPercent: 200, CPURequestToLimitPercent: 10}
	onlyLimit := RequestsClass{Name: "a", LimitCPUToMemoryPercent: 100}
	withFloors := quarter
	withFloors.Floors = map[corev1.ResourceName]string{"cpu": "100m", "memory": "64Mi"}
	item := func(kind corev1.LimitType, change func(*corev1.LimitRangeItem)) corev1.LimitRangeItem {
		i := corev1.LimitRangeItem{Type: kind}
		change(&i)
		return i
	}
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	floor := item(corev1.LimitTypeContainer, func(i *corev1.LimitRangeItem) { i.Min = list("200m", "1Gi") })
	ratio := item(corev1.LimitTypeContainer, func(i *corev1.LimitRangeItem) { i.MaxLimitRequestRatio = list("3", "1") })
	most := item(corev1.LimitTypeContainer, func(i *corev1.LimitRangeItem) { i.Max = list("3", "8Gi") })
	ofPods := item(corev1.LimitTypePod, func(i *corev1.LimitRangeItem) { i.Min = list("200m", "1Gi") })
	for _, c := range []struct {
		name      string
		class     RequestsClass
		ranges    []corev1.LimitRangeItem
		resources string
		want      string // cpu/memory of requests of limits
	}{
		{"percentages", quarter, nil, `{"limits":{"cpu":"2","memory":"4Gi"}}`, "500m/2Gi of 2/4Gi"},
		{"requests are replaced", quarter, nil, `{"limits":{"cpu":"2","memory":"4Gi"},"requests":{"cpu":"2","memory":"1Gi"}}`, "500m/2Gi of 2/4Gi"},
		{"no limits", quarter, nil, `{"requests":{"cpu":"2"}}`, "2/- of -/-"},
		{"nothing", quarter, nil, `{}`, "-/- of -/-"},
		{"one limit", quarter, nil, `{"limits":{"memory":"1Gi"},"requests":{"cpu":"1"}}`, "1/512Mi of -/1Gi"},
		{"rounded down to milli-cores", quarter, nil, `{"limits":{"cpu":"10m"}}`, "2m/- of 10m/-"},
		{"rounded down to MiB", quarter, nil, `{"limits":{"memory":"101Mi"}}`, "-/50Mi of -/101Mi"},
		{"rounded down to MB", quarter, nil, `{"limits":{"memory":"101M"}}`, "-/50M of -/101M"},
		{"never zero", quarter, nil, `{"limits":{"cpu":"1m","memory":"1Mi"}}`, "1m/1Mi of 1m/1Mi"},
		{"a limit of zero is none", quarter, nil, `{"limits":{"cpu":"0"},"requests":{"cpu":"0"}}`, "0/- of 0/-"},
		{"bare numbers", quarter, nil, `{"limits":{"cpu":2}}`, "500m/- of 2/-"},
		{"cpu in proportion to memory", inProportion, nil, `{"limits":{"memory":"1536Mi"}}`, "300m/- of 3/1536Mi"},
		{"its own cpu limit is replaced", inProportion, nil, `{"limits":{"cpu":"8","memory":"1Gi"}}`, "200m/- of 2/1Gi"},
		{"no memory limit, no proportion", inProportion, nil, `{"limits":{"cpu":"8"}}`, "800m/- of 8/-"},
		{"a tiny memory limit", onlyLimit, nil, `{"limits":{"memory":"1Mi"}}`, "-/- of 1m/1Mi"},
		{"a request above the new limit", onlyLimit, nil, `{"limits":{"memory":"1Gi"},"requests":{"cpu":"4"}}`, "1/- of 1/1Gi"},
		{"floors", withFloors, nil, `{"limits":{"cpu":"200m","memory":"100Mi"}}`, "100m/64Mi of 200m/100Mi"},
		{"floors end at the limit", withFloors, nil, `{"limits":{"cpu":"50m","memory":"10Mi"}}`, "50m/10Mi of 50m/10Mi"},
		{"LimitRange: minimum", quarter, []corev1.LimitRangeItem{floor}, `{"limits":{"cpu":"400m","memory":"1500Mi"}}`, "200m/1Gi of 400m/1500Mi"},
		{"LimitRange: ratio", quarter, []corev1.LimitRangeItem{ratio}, `{"limits":{"cpu":"1","memory":"1Gi"}}`, "334m/1Gi of 1/1Gi"},
		{"LimitRange: maximum", inProportion, []corev1.LimitRangeItem{most}, `{"limits":{"memory":"4Gi"}}`, "300m/- of 3/4Gi"},
		{"LimitRange: of pods", quarter, []corev1.LimitRangeItem{ofPods}, `{"limits":{"cpu":"400m"}}`, "100m/- of 400m/-"},
		{"LimitRanges: the strictest", quarter, []corev1.LimitRangeItem{ratio, floor}, `{"limits":{"cpu":"1","memory":"2Gi"}}`, "334m/2Gi of 1/2Gi"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := resourcesAfter(t, RequestsFromLimits{c.class}, askAbout(c.ranges...), c.resources); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestRequestsFromLimitsSelects: the first entry that selects the pod applies, and no other.
func TestRequestsFromLimitsSelects(t *testing.T) {
	in := func(tier string) config.Selection {
		return config.Selection{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}}}
	}
	policy := RequestsFromLimits{
		{Name: "web", Selection: in("web"), CPURequestToLimitPercent: 80},
		{Name: "batch", Selection: in("batch"), CPURequestToLimitPercent: 10},
		{Name: "others", CPURequestToLimitPercent: 50},
	}
	if got := resourcesAfter(t, policy, askAbout(), `{"limits":{"cpu":"1"}}`); got != "100m/- of 1/-" {
		t.Errorf("got %s", got)
	}
	if got := resourcesAfter(t, policy[:1], askAbout(), `{"limits":{"cpu":"1"}}`); got != "-/- of 1/-" {
		t.Errorf("no entry: got %s", got)
	}
	notYet := askAbout()
	notYet.LimitRanges = func(string) ([]*corev1.LimitRange, error) { return nil, admit.ErrNotReady }
	d, _ := document.Parse([]byte(`{}`))
	req := &admit.Request{Operation: admissionv1.Create, Object: d}
	if err := requestsFromLimits(policy, notYet).Run(t.Context(), req, admit.AsPod(d)); !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("LimitRanges that have not been listed: %v", err)
	}
	req.Operation = admissionv1.Update
	if err := requestsFromLimits(policy, notYet).Run(t.Context(), req, admit.AsPod(d)); err != nil || d.Edits() > 0 {
		t.Errorf("an update: %v", err)
	}
}

// TestRequestsFromLimitsHolds: for random limits, policies and LimitRanges, requests never exceed limits or break the
// LimitRange, and a second run changes nothing.
func TestRequestsFromLimitsHolds(t *testing.T) {
	r := seed.Random(t)
	for n := range 500 {
		class := RequestsClass{Name: "a", CPURequestToLimitPercent: r.IntN(101), MemoryRequestToLimitPercent: r.IntN(101), LimitCPUToMemoryPercent: r.IntN(3) * r.IntN(300)}
		item := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer}
		if r.IntN(2) == 0 {
			item.MaxLimitRequestRatio = corev1.ResourceList{"cpu": *resource.NewMilliQuantity(1000+r.Int64N(5000), resource.DecimalSI)}
		}
		resources := fmt.Sprintf(`{"limits":{"cpu":"%dm","memory":"%d%s"},"requests":{"cpu":"%dm"}}`, 1+r.IntN(9000), 1+r.IntN(5000), []string{"", "Ki", "Mi", "M", "Gi"}[r.IntN(5)], r.IntN(9000))
		ask := askAbout(item)
		d, err := document.Parse([]byte(`{"spec":{"containers":[{"name":"c","resources":` + resources + `}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		step := requestsFromLimits(RequestsFromLimits{class}, ask)
		req := &admit.Request{Operation: admissionv1.Create, Object: d}
		if err := step.Run(t.Context(), req, admit.AsPod(d)); err != nil {
			t.Fatal(err)
		}
		for c := range admit.AsPod(d).Containers() {
			request, _ := c.Resources().Requests().Get("cpu")
			limit, _ := c.Resources().Limits().Get("cpu")
			if class.CPURequestToLimitPercent+class.LimitCPUToMemoryPercent > 0 && request.Cmp(limit) > 0 {
				t.Fatalf("round %d: %+v: %s: request %s of %s", n, class, resources, request.String(), limit.String())
			}
			ratio, bounded := item.MaxLimitRequestRatio["cpu"]
			if class.CPURequestToLimitPercent > 0 && bounded && limit.AsApproximateFloat64()/request.AsApproximateFloat64() > ratio.AsApproximateFloat64()+1e-9 {
				t.Fatalf("round %d: %+v: %s: request %s of %s is above the ratio %s", n, class, resources, request.String(), limit.String(), ratio.String())
			}
		}
		again, err := document.Parse(d.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		req.Object = again
		if err := step.Run(t.Context(), req, admit.AsPod(again)); err != nil || again.Edits() > 0 {
			t.Fatalf("round %d: %+v: %s: again: %v, %s", n, class, resources, err, again.PatchJSON())
		}
	}
}

func BenchmarkRequestsFromLimits(b *testing.B) {
	body, err := os.ReadFile("../samples/reviews/mutate-pods/production-pod.json")
	if err != nil {
		b.Fatal(err)
	}
	step := requestsFromLimits(RequestsFromLimits{{Name: "a", CPURequestToLimitPercent: 25, MemoryRequestToLimitPercent: 50}}, askAbout())
	b.ReportAllocs()
	for b.Loop() {
		d, err := document.Parse(body)
		if err != nil {
			b.Fatal(err)
		}
		object := d.Root().At("request", "object").Sub()
		req := &admit.Request{Operation: admissionv1.Create, Object: object}
		if err := step.Run(b.Context(), req, admit.AsPod(object)); err != nil {
			b.Fatal(err)
		}
		d.Release()
	}
}
