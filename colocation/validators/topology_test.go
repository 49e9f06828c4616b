package validators

import (
	"encoding/json"
	"strings"
	"testing"
)

const (
	resourceSpecKey = "scheduling.koordinator.sh/resource-spec"
	numaSpecKey     = "scheduling.koordinator.sh/numa-topology-spec"
)

// topologyPod returns a pod of a QoS class with one annotation.
func topologyPod(qos, key, text string) string {
	annotations, _ := json.Marshal(map[string]string{key: text})
	return `{"metadata":{"labels":{"koordinator.sh/qosClass":"` + qos + `"},"annotations":` + string(annotations) + `}}`
}

func TestTopology(t *testing.T) {
	resourceSpec := func(text string) string { return topologyPod("LSR", resourceSpecKey, text) }
	numa := func(text string) string { return topologyPod("LS", numaSpecKey, text) }
	broken := func(key, rest string) []string {
		return []string{"metadata.annotations[" + key + "]: Invalid value: …" + rest}
	}
	var cases []verdictCase
	for _, value := range []string{"", "Default", "FullPCPUs", "SpreadByPCPUs", "ConstrainedBurst"} {
		cases = append(cases, verdictCase{"required " + value, "", resourceSpec(`{"requiredCPUBindPolicy":"` + value + `"}`), nil},
			verdictCase{"preferred " + value, "", resourceSpec(`{"preferredCPUBindPolicy":"` + value + `"}`), nil})
	}
	for _, value := range []string{"", "None", "PCPULevel", "NUMANodeLevel"} {
		cases = append(cases, verdictCase{"exclusive " + value, "", resourceSpec(`{"preferredCPUExclusivePolicy":"` + value + `"}`), nil})
	}
	for _, value := range []string{"", "BestEffort", "Restricted", "SingleNUMANode"} {
		cases = append(cases, verdictCase{"NUMA " + value, "", numa(`{"numaTopologyPolicy":"` + value + `"}`), nil})
	}
	for _, value := range []string{"", "Preferred", "Required"} {
		cases = append(cases, verdictCase{"single " + value, "", numa(`{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"` + value + `"}`), nil})
	}
	bad := resourceSpec(`{"requiredCPUBindPolicy":"Full"}`)
	cases = append(cases, []verdictCase{
		{"no annotation", "", `{}`, nil},
		{"unknown members", "", resourceSpec(`{"new":{"a":1}}`), nil},
		{"null", "", resourceSpec(`null`), nil},
		{"required unknown", "", bad, broken(resourceSpecKey, `"Full": requiredCPUBindPolicy must be one of Default, FullPCPUs, SpreadByPCPUs, ConstrainedBurst; leave it out`)},
		{"preferred unknown", "", resourceSpec(`{"preferredCPUBindPolicy":"None"}`), broken(resourceSpecKey, `"None": preferredCPUBindPolicy must be one of`)},
		{"exclusive unknown", "", resourceSpec(`{"preferredCPUExclusivePolicy":"Default"}`), broken(resourceSpecKey, `"Default": preferredCPUExclusivePolicy must be one of None, PCPULevel, NUMANodeLevel`)},
		{"two unknown", "", resourceSpec(`{"preferredCPUBindPolicy":"x","requiredCPUBindPolicy":"y"}`), append(broken(resourceSpecKey, `"y"`), broken(resourceSpecKey, `"x"`)...)},
		{"NUMA unknown", "", numa(`{"numaTopologyPolicy":"None"}`), broken(numaSpecKey, `"None": numaTopologyPolicy must be one of BestEffort, Restricted, SingleNUMANode`)},
		{"single unknown", "", numa(`{"singleNUMANodeExclusive":"preferred"}`), broken(numaSpecKey, `"preferred": singleNUMANodeExclusive must be one of Preferred, Required`)},
		{"empty text", "", resourceSpec(``), broken(resourceSpecKey, `write it like {"requiredCPUBindPolicy":"FullPCPUs"}, or remove it`)},
		{"broken text", "", numa(`{"numa`), broken(numaSpecKey, `write it like {"numaTopologyPolicy":"SingleNUMANode"}, or remove it`)},
		{"another type", "", numa(`{"numaTopologyPolicy":1}`), broken(numaSpecKey, `numaTopologyPolicy; write it like`)},
		{"a list", "", resourceSpec(`[]`), broken(resourceSpecKey, `; write it like`)},
		{"a key twice", "", resourceSpec(`{"requiredCPUBindPolicy":"FullPCPUs","requiredCPUBindPolicy":"Default"}`), broken(resourceSpecKey, "duplicate")},
		{"a key in another case", "", resourceSpec(`{"requiredCpuBindPolicy":"Full"}`), broken(resourceSpecKey, "requiredCpuBindPolicy must be written requiredCPUBindPolicy")},
		{"a NUMA key in another case", "", numa(`{"NUMATopologyPolicy":"x"}`), broken(numaSpecKey, "NUMATopologyPolicy must be written numaTopologyPolicy")},
		{"the lowest score", "", topologyPod("LS", "koordinator.sh/oom-score-adj", "-1000"), nil},
		{"a score too low", "", topologyPod("LS", "koordinator.sh/oom-score-adj", "-1001"), broken("koordinator.sh/oom-score-adj", `"-1001": must be a whole number from -1000 to 1000; or remove it`)},
		{"a score too high", "", topologyPod("LS", "koordinator.sh/oom-score-adj", "1001"), broken("koordinator.sh/oom-score-adj", `from -1000`)},
		{"no score", "", topologyPod("LS", "koordinator.sh/oom-score-adj", "5.0"), broken("koordinator.sh/oom-score-adj", `"5.0"`)},
		{"scores", "", topologyPod("LS", "koordinator.sh/oom-score-adj-spec", `{"a":-5,"b":2000}`), append(broken("koordinator.sh/oom-score-adj-spec", `2000: b must be from -1000 to 1000`),
			`annotation koordinator.sh/oom-score-adj-spec: the pod has no container "a"`, `annotation koordinator.sh/oom-score-adj-spec: the pod has no container "b"`)},
		{"broken scores", "", topologyPod("LS", "koordinator.sh/oom-score-adj-spec", `{"a":"5"}`), broken("koordinator.sh/oom-score-adj-spec", `write it like {"app":-500}`)},
		{"an eviction priority", "", topologyPod("LS", "koordinator.sh/eviction-priority", "-2147483648"), nil},
		{"an eviction priority of 64 bits", "", topologyPod("LS", "koordinator.sh/eviction-priority", "2147483648"), broken("koordinator.sh/eviction-priority", `from -2147483648 to 2147483647`)},
		{"an eviction priority that is a name", "", topologyPod("LS", "koordinator.sh/eviction-priority", "high"), broken("koordinator.sh/eviction-priority", `"high"`)},
		{"eviction policies", "", topologyPod("LS", "koordinator.sh/eviction-policy", `["evictByMemoryUsage"]`), nil},
		{"an eviction policy", "", topologyPod("LS", "koordinator.sh/eviction-policy", `evictByMemoryUsage`), broken("koordinator.sh/eviction-policy", `write it like ["evictByMemoryUsage"]`)},
		{"a priority to be taken over", "", topologyPod("LS", "pod.koordinator.sh/pre-allocatable-priority", "2147483648"), nil},
		{"one that is none", "", topologyPod("LS", "pod.koordinator.sh/pre-allocatable-priority", "1e3"), broken("pod.koordinator.sh/pre-allocatable-priority", `"1e3"`)},
		{"a bad score that is kept", topologyPod("LS", "koordinator.sh/oom-score-adj", "x"), topologyPod("LS", "koordinator.sh/oom-score-adj", "x"), nil},
		{"required without effect", "", topologyPod("LS", resourceSpecKey, `{"requiredCPUBindPolicy":"FullPCPUs"}`),
			[]string{"requiredCPUBindPolicy FullPCPUs binds only pods of QoS LSR or LSE; set label koordinator.sh/qosClass"}},
		{"required with LSE", "", topologyPod("LSE", resourceSpecKey, `{"requiredCPUBindPolicy":"SpreadByPCPUs"}`), nil},
		{"required of shared CPUs", "", topologyPod("LS", resourceSpecKey, `{"requiredCPUBindPolicy":"ConstrainedBurst"}`), nil},
		{"required left to the scheduler", "", topologyPod("", resourceSpecKey, `{"requiredCPUBindPolicy":"Default","preferredCPUBindPolicy":"FullPCPUs"}`), nil},
		{"preferred with LS", "", topologyPod("LS", resourceSpecKey, `{"preferredCPUBindPolicy":"FullPCPUs"}`), nil},
		{"a contradiction", "", resourceSpec(`{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUBindPolicy":"SpreadByPCPUs"}`),
			[]string{"preferredCPUBindPolicy SpreadByPCPUs has no effect beside requiredCPUBindPolicy FullPCPUs; remove one"}},
		{"a contradiction of shared CPUs", "", resourceSpec(`{"requiredCPUBindPolicy":"ConstrainedBurst","preferredCPUBindPolicy":"SpreadByPCPUs"}`),
			[]string{"preferredCPUBindPolicy SpreadByPCPUs has no effect beside requiredCPUBindPolicy ConstrainedBurst; remove one"}},
		{"no contradiction", "", resourceSpec(`{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUBindPolicy":"FullPCPUs"}`), nil},
		{"preferred left to the scheduler", "", resourceSpec(`{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUBindPolicy":"Default"}`), nil},
		{"update leaves what is broken", bad, bad, nil},
		{"update leaves what is warned about", topologyPod("LS", resourceSpecKey, `{"requiredCPUBindPolicy":"FullPCPUs"}`), topologyPod("LS", resourceSpecKey, `{"requiredCPUBindPolicy":"FullPCPUs"}`), nil},
		{"update breaks it", resourceSpec(`{}`), bad, broken(resourceSpecKey, `"Full"`)},
		{"update brings it broken", `{}`, numa(``), broken(numaSpecKey, "")},
		{"update brings it empty", `{}`, resourceSpec(``), broken(resourceSpecKey, "")},
		{"update fixes it", bad, resourceSpec(`{}`), nil},
		{"update removes it", bad, `{}`, nil},
	}...)
	runVerdicts(t, topology(), cases)
}

func FuzzTopology(f *testing.F) {
	for _, seed := range []string{"", "{}", "null", "[]", `"x"`, `{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUBindPolicy":"SpreadByPCPUs"}`,
		`{"REQUIREDCPUBINDPOLICY":"x"}`, `{"numaTopologyPolicy":"Restricted","a":{"b":[1e999]}}`, `{"numaTopologyPolicy":"a","numaTopologyPolicy":"b"}`,
		`{"ſingleNUMANodeExclusive":"x"}`, strings.Repeat("[", 100)} {
		f.Add(seed)
	}
	known := map[string]bool{"": true, "Default": true, "FullPCPUs": true, "SpreadByPCPUs": true, "ConstrainedBurst": true}
	f.Fuzz(func(t *testing.T, text string) {
		pod := topologyPod("LS", resourceSpecKey, text)
		got := judge(t, topology(), "", pod)
		// encoding/json matches names like Koordinator: what is accepted here must be known to it.
		var spec struct{ RequiredCPUBindPolicy string }
		sent, _ := json.Marshal(map[string]string{resourceSpecKey: text}) // invalid UTF-8 is replaced in transit
		var annotations map[string]string
		_ = json.Unmarshal(sent, &annotations)
		err := json.Unmarshal([]byte(annotations[resourceSpecKey]), &spec)
		if !strings.Contains(got, "metadata.") && (err != nil || !known[spec.RequiredCPUBindPolicy]) {
			t.Errorf("%q passes: %v, %v", text, spec, err)
		}
		judge(t, topology(), "", topologyPod("LS", numaSpecKey, text))
		if again := judge(t, topology(), pod, pod); again != "" {
			t.Errorf("%q, unchanged: %s", text, again)
		}
	})
}

func BenchmarkTopology(b *testing.B) {
	b.Run("nothing to do", func(b *testing.B) { benchCheck(b, topology(), benchPod("", "", nativeMembers)) })
	b.Run("at work", func(b *testing.B) {
		benchCheck(b, topology(), benchPod(`"koordinator.sh/qosClass":"LSR",`, `"`+resourceSpecKey+`":"{\"requiredCPUBindPolicy\":\"FullPCPUs\"}",`, nativeMembers))
	})
}
