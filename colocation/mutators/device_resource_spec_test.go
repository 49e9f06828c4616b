package mutators

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// lists writes resources in short notation: "gpu=200 shared=2" is a JSON object of quantities, "-" is absent.
func lists(short string) string {
	if short == "-" {
		return "null"
	}
	list := map[string]string{}
	for _, part := range strings.Fields(short) {
		name, amount, _ := strings.Cut(part, "=")
		list[shortNames[name]] = amount
	}
	encoded, _ := json.Marshal(list)
	return string(encoded)
}

var shortNames = map[string]string{
	"gpu": "koordinator.sh/gpu", "shared": "koordinator.sh/gpu.shared", "core": "koordinator.sh/gpu-core",
	"memory": "koordinator.sh/gpu-memory", "ratio": "koordinator.sh/gpu-memory-ratio", "cpu": "cpu",
}

// short is the inverse of lists.
func short(list map[string]string) string {
	var parts []string
	for name, long := range shortNames {
		if amount, ok := list[long]; ok {
			parts = append(parts, name+"="+amount)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func TestDeviceResourceSpec(t *testing.T) {
	cases := []struct{ requests, limits, want string }{ // want: both lists afterwards, or the text of the refusal
		// What the reference does with requests that equal the limits.
		{"core=100 memory=4000 ratio=50", "=", "core=100 memory=4000 ratio=50 shared=1"},
		{"core=100 memory=8000 ratio=200", "=", "core=100 memory=8000 ratio=200 shared=2"},
		{"gpu=200", "=", "core=200 ratio=200 shared=2"},
		{"gpu=100 cpu=1", "=", "core=100 cpu=1 ratio=100 shared=1"},
		{"gpu=70", "=", "core=70 ratio=70 shared=1"},
		{"gpu=0", "=", "core=0 ratio=0 shared=1"},
		{"gpu=200 shared=4", "=", "core=200 ratio=200 shared=4"},
		{"core=300 memory=4000", "=", "core=300 memory=4000 shared=3"},
		{"core=300 ratio=150", "=", "core=300 ratio=150 shared=1"},
		{"core=300 ratio=0", "=", "core=300 ratio=0 shared=1"},
		{"core=50", "=", "core=50 shared=1"},
		{"core=150", "=", "core=150 shared=1"},
		{"memory=4Gi", "=", "memory=4Gi shared=1"},
		{"shared=2", "=", "shared=2"},
		{"gpu=100 core=50", "=", "core=100 ratio=100 shared=1"},
		{"gpu=50 core=200 ratio=200 shared=2", "=", "core=200 ratio=200 shared=2"}, // a LimitRange has filled in gpu
		{"gpu=50", "core=200 ratio=200 shared=2", "core=200 ratio=200 shared=2"},
		{"gpu=100 core=50 ratio=50", "=", "core=100 ratio=100 shared=1"},
		{"gpu=100000", "=", "core=100k ratio=100k shared=1k"},
		{"cpu=1", "=", "cpu=1"},
		// Only one of the two lists, or a part of it.
		{"gpu=200", "-", "core=200 ratio=200 shared=2"},
		{"-", "gpu=200", "core=200 ratio=200 shared=2"},
		{"core=100", "-", "core=100 shared=1"},
		{"-", "shared=2 ratio=200", "ratio=200 shared=2"},
		{"cpu=1 gpu=100", "cpu=1", "core=100 cpu=1 ratio=100 shared=1"},
		{"cpu=1", "cpu=1 gpu=100", "core=100 cpu=1 ratio=100 shared=1"},
		{"gpu=100", "shared=2", "core=100 ratio=100 shared=2"},
		{"-", "-", ""},
		{"gpu=100", "gpu=300", `spec.containers[0].resources.limits[koordinator.sh/gpu]: Invalid value: "300": container "c" requests 100`},
		{"shared=1", "shared=2", `spec.containers[0].resources.limits[koordinator.sh/gpu.shared]: Invalid value: "2": container "c" requests 1`},
		{"gpu=150", "=", `spec.containers[0].resources.requests[koordinator.sh/gpu]: Invalid value: "150": container "c": above 100, one card, it must be a multiple of 100`},
		{"gpu=150", "-", `spec.containers[0].resources.requests[koordinator.sh/gpu]: Invalid value: "150"`},
		{"-", "gpu=101", `spec.containers[0].resources.limits[koordinator.sh/gpu]: Invalid value: "101"`},
		{"gpu=150 shared=2", "=", `Invalid value: "150"`},
		{"gpu=99.5", "=", `spec.containers[0].resources.requests[koordinator.sh/gpu]: Invalid value: "99500m": container "c": must be a whole number, because the API server stores no part of a device; ask for 99 or 100`},
		{"-", "gpu=500m", `spec.containers[0].resources.limits[koordinator.sh/gpu]: Invalid value: "500m": container "c": must be a whole number`},
		{"gpu=-100", "=", `spec.containers[0].resources.requests[koordinator.sh/gpu]: Invalid value: "-100": container "c": must be 0 or more`},
		{"memory=4000.5", "-", `spec.containers[0].resources.requests[koordinator.sh/gpu-memory]: Invalid value: "4000500m"`},
		{"gpu=100000m", "=", "core=100 ratio=100 shared=1"},
	}
	for _, c := range cases {
		if c.limits == "=" {
			c.limits = c.requests
		}
		for _, kind := range []string{"containers", "initContainers"} {
			got := devicesAfter(t, kind, `{"requests":`+lists(c.requests)+`,"limits":`+lists(c.limits)+`}`)
			if want := strings.Replace(c.want, "containers[", kind+"[", 1); got != want && !(strings.Contains(want, "Invalid") && strings.Contains(got, want)) {
				t.Errorf("%s: requests %s, limits %s: %s, want %s", kind, c.requests, c.limits, got, want)
			}
		}
	}
}

// devicesAfter returns both lists of a container after the step, or the refusal.
func devicesAfter(t *testing.T, kind, resources string) string {
	t.Helper()
	after := stepTwice(t, deviceResourceSpec(), `{"spec":{"`+kind+`":[{"name":"c","resources":`+resources+`}]}}`)
	type container struct {
		Resources struct{ Requests, Limits map[string]string }
	}
	var pod struct{ Spec map[string][]container }
	if json.Unmarshal([]byte(after), &pod) != nil {
		return after
	}
	r := pod.Spec[kind][0].Resources
	if !maps.Equal(r.Requests, r.Limits) {
		t.Errorf("%s: requests and limits differ: %v, %v", resources, r.Requests, r.Limits)
	}
	return short(r.Requests)
}

// TestDeviceResourceSpecMembers: resources may be missing, or be what the API server would not accept.
func TestDeviceResourceSpecMembers(t *testing.T) {
	for resources, want := range map[string]string{
		`null`: "",
		`{}`:   "",
		`{"requests":{"koordinator.sh/gpu":"200"}}`: "core=200 ratio=200 shared=2",
		`{"limits":{"koordinator.sh/gpu":200}}`:     "core=200 ratio=200 shared=2",
		`{"requests":[]}`:                           "spec.containers[0].resources.requests: Invalid value: must be an object, not an array",
	} {
		if got := devicesAfter(t, "containers", resources); got != want {
			t.Errorf("%s: %s, want %s", resources, got, want)
		}
	}
	for _, same := range []string{`{}`, `{"spec":{"containers":null}}`, `{"spec":{"containers":[{"name":"c"}]}}`,
		`{"spec":{"containers":[{"name":"c","resources":{"requests":{"koordinator.sh/gpu":"many"}}}]}}`,
		`{"spec":{"resources":{"requests":{"koordinator.sh/gpu":"150"}}}}`} {
		if got := stepTwice(t, deviceResourceSpec(), same); got != same {
			t.Errorf("%s became %s", same, got)
		}
	}
}

// TestDeviceResourceSpecKeepsItsHands: other containers and existing pods are not changed.
func TestDeviceResourceSpecPatch(t *testing.T) {
	raw := `{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1"}}},{"name":"b","resources":{"requests":{"koordinator.sh/gpu":"100"}}}]}}`
	want := `[{"op":"remove","path":"/spec/containers/1/resources/requests/koordinator.sh~1gpu"},` +
		`{"op":"add","path":"/spec/containers/1/resources/requests/koordinator.sh~1gpu-core","value":"100"},` +
		`{"op":"add","path":"/spec/containers/1/resources/requests/koordinator.sh~1gpu-memory-ratio","value":"100"},` +
		`{"op":"add","path":"/spec/containers/1/resources/requests/koordinator.sh~1gpu.shared","value":"1"},` +
		`{"op":"add","path":"/spec/containers/1/resources/limits","value":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory-ratio":"100","koordinator.sh/gpu.shared":"1"}}]`
	if got := afterStep(t, deviceResourceSpec(), raw); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	d, _ := document.Parse([]byte(raw))
	err := deviceResourceSpec().Run(t.Context(), &admit.Request{Object: d, Operation: "UPDATE"}, admit.AsPod(d))
	if err != nil || d.Patch() != nil {
		t.Errorf("a pod that exists: %v, %v", err, d.Patch())
	}
}

func TestDeviceResourceSpecWarns(t *testing.T) {
	for list, want := range map[string]string{
		"gpu=100 core=50":                    `container "c": koordinator.sh/gpu-core=50 is replaced by the 100 of koordinator.sh/gpu; set only one of them`,
		"gpu=100 ratio=70":                   `container "c": koordinator.sh/gpu-memory-ratio=70 is replaced by the 100 of koordinator.sh/gpu; set only one of them`,
		"gpu=100 core=100":                   ``,
		"gpu=50 core=200 ratio=200 shared=2": `container "c": koordinator.sh/gpu=50 is dropped, because the amounts that it stands for are set`,
	} {
		d, _ := document.Parse([]byte(`{"spec":{"containers":[{"name":"c","resources":{"requests":` + lists(list) + `}}]}}`))
		req := &admit.Request{Object: d}
		if err := deviceResourceSpec().Run(t.Context(), req, admit.AsPod(d)); err != nil || strings.Join(req.Warnings(), "") != want {
			t.Errorf("%s: %q, %v", list, req.Warnings(), err)
		}
	}
}

func BenchmarkDeviceResourceSpec(b *testing.B) {
	b.Run("nothing to do", func(b *testing.B) { benchStep(b, deviceResourceSpec(), nativeMembers) })
	b.Run("at work", func(b *testing.B) { benchStep(b, deviceResourceSpec(), nativeMembers+`,"koordinator.sh/gpu":"100"`) })
}

// afterStep runs a step on a pod and returns its patch or its refusal.
func afterStep(t *testing.T, step admit.Mutator[admit.Pod], raw string) string {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if err := step.Run(t.Context(), &admit.Request{Object: d}, admit.AsPod(d)); err != nil {
		return err.Error()
	}
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return string(d.PatchJSON())
}
