package validators

import (
	"strings"
	"testing"
)

var deviceShort = strings.NewReplacer("gpu=", "koordinator.sh/gpu=", "shared=", "koordinator.sh/gpu.shared=", "core=", "koordinator.sh/gpu-core=",
	"memory=", "koordinator.sh/gpu-memory=", "ratio=", "koordinator.sh/gpu-memory-ratio=", "npu=", "huawei.com/npu-core=")

// deviceList returns resources in short notation: "gpu=200 shared=2".
func deviceList(short string) string {
	var parts []string
	for _, part := range strings.Fields(deviceShort.Replace(short)) {
		name, amount, _ := strings.Cut(part, "=")
		parts = append(parts, `"`+name+`":"`+amount+`"`)
	}
	return strings.Join(parts, ",")
}

func devicePod(short string) string { return `{"spec":{` + asking(deviceList(short)) + `}}` }

func TestDeviceResource(t *testing.T) {
	at := func(name, kind, rest string) []string {
		return []string{"spec.containers[0].resources.requests[koordinator.sh/" + name + "]: " + kind + `: …container "a": ` + rest}
	}
	var cases []verdictCase
	for short, want := range map[string][]string{
		// The cases of the reference's own tests.
		"gpu=200":                        nil,
		"gpu=70":                         nil,
		"memory=4000 ratio=100 shared=1": at("gpu-memory", "Forbidden", "koordinator.sh/gpu-memory and koordinator.sh/gpu-memory-ratio are two ways"),
		"shared=2":                       at("gpu-memory-ratio", "Forbidden", "gpu.shared needs an amount of memory too; set"),
		"core=101 ratio=100 shared=2":    at("gpu-core", `Invalid value: "101"`, "must be a multiple of koordinator.sh/gpu.shared, 2;"),
		"ratio=101 shared=2":             at("gpu-memory-ratio", `Invalid value: "101"`, "must be a multiple of koordinator.sh/gpu.shared, 2;"),
		"npu=8 shared=1":                 nil,
		// The other rows of its table.
		"gpu=200 shared=2":   at("gpu.shared", "Forbidden", "koordinator.sh/gpu and koordinator.sh/gpu.shared are two ways"),
		"gpu=0":              at("gpu", `Invalid value: "0"`, "must be greater than zero"),
		"gpu=150":            at("gpu", `Invalid value: "150"`, "above 100, one card, must be a multiple of 100"),
		"gpu=100":            nil,
		"gpu=99500m":         at("gpu", `Invalid value: "99500m"`, "must be a whole number, because the API server stores no part of a device; ask for 99 or 100"),
		"gpu=-1":             at("gpu", `Invalid value: "-1"`, "must be 0 or more"),
		"ratio=1m shared=1":  at("gpu-memory-ratio", `Invalid value: "1m"`, "must be a whole number"),
		"shared=0 memory=1":  at("gpu.shared", `Invalid value: "0"`, "must be greater than zero"),
		"shared=0 npu=1":     at("gpu.shared", `Invalid value: "0"`, "must be greater than zero"),
		"shared=1 memory=1":  nil,
		"shared=1 npu=0":     at("gpu-memory-ratio", "Forbidden", "gpu.shared needs"),
		"core=150 ratio=150": nil, // neither gpu nor shared: mutation is off
		"memory=1":           nil,
		"":                   nil,
		// The result of mutating koordinator.sh/gpu.
		"core=200 ratio=200 shared=2": nil,
		"core=70 ratio=70 shared=1":   nil,
		"core=200 ratio=200 shared=4": nil,
		"ratio=150 shared=1":          at("gpu-memory-ratio", `Invalid value: "150"`, "must be at most 100 a card, and koordinator.sh/gpu.shared is 1;"),
		"ratio=100 core=150 shared=1": at("gpu-core", `Invalid value: "150"`, "must be at most 100 a card, and koordinator.sh/gpu.shared is 1;"),
		"core=150 ratio=150 shared=1": append(at("gpu-core", `Invalid value: "150"`, "must be at most 100"), at("gpu-memory-ratio", `Invalid value: "150"`, "must be at most 100")...),
		"ratio=100 shared=1":          nil,
		"ratio=202 shared=2":          at("gpu-memory-ratio", `Invalid value: "202"`, "must be at most 100 a card, and koordinator.sh/gpu.shared is 2;"),
	} {
		cases = append(cases, verdictCase{"create " + short, "", devicePod(short), want})
		if want != nil {
			cases = append(cases, verdictCase{"update leaves " + short, devicePod(short), devicePod(short), nil},
				verdictCase{"update makes it " + short, devicePod("gpu=100"), devicePod(short), want},
				verdictCase{"resize with " + short, strings.Replace(devicePod(short), `"requests":{`, `"requests":{"cpu":"1",`, 1), devicePod(short), nil},
				verdictCase{"update of one being deleted", `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`, devicePod(short), nil})
		}
	}
	runVerdicts(t, deviceResource(), append(cases, []verdictCase{
		{"the second container", "", `{"spec":{` + asking("", deviceList("gpu=150")) + `}}`,
			[]string{`spec.containers[1].resources.requests[koordinator.sh/gpu]: Invalid value: "150": container "b": `}},
		{"an init container", "", `{"spec":{"initContainers":[` + containersAsking("i", []string{deviceList("gpu=150")}) + `]}}`,
			[]string{`spec.initContainers[0].resources.requests[koordinator.sh/gpu]: Invalid value: "150": container "i": `}},
		{"limits only", "", `{"spec":{"containers":[{"name":"a","resources":{"limits":{` + deviceList("gpu=150") + `}}}]}}`,
			[]string{`spec.containers[0].resources.limits[koordinator.sh/gpu]: Invalid value: "150": container "a": `}},
		{"two containers, one old", `{"spec":{` + asking(deviceList("gpu=150")) + `}}`, `{"spec":{` + asking(deviceList("gpu=150"), deviceList("gpu=250")) + `}}`,
			[]string{`spec.containers[1].resources.requests[koordinator.sh/gpu]: Invalid value: "250"`}},
		{"a resource of zero more", devicePod("gpu=100"), devicePod("gpu=100 shared=0"), at("gpu.shared", "Forbidden", "koordinator.sh/gpu and")},
		{"one resource less", devicePod("gpu=150 core=1"), devicePod("gpu=150"), at("gpu", `Invalid value: "150"`, "above 100")},
	}...))
}

func BenchmarkDeviceResource(b *testing.B) {
	b.Run("nothing to do", func(b *testing.B) { benchCheck(b, deviceResource(), benchPod("", "", nativeMembers)) })
	b.Run("at work", func(b *testing.B) {
		benchCheck(b, deviceResource(), benchPod("", "", nativeMembers+","+deviceList("core=200 ratio=200 shared=2")))
	})
}
