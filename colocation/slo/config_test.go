package slo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// asJSON converts a configuration from YAML to JSON.
func asJSON(t testing.TB, text string) string {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return string(raw)
}

// errorsOf returns the problems of a configuration as texts, without "data".
func errorsOf(c *Config) (list []string) {
	for _, p := range c.Problems(nil) {
		list = append(list, strings.TrimPrefix(p.Error(), "data"))
	}
	return list
}

func warningsOf(c *Config) (list []string) {
	for _, w := range c.Warnings() {
		list = append(list, strings.TrimPrefix(w.Text, "data"))
	}
	return list
}

// same compares texts with their wanted beginnings.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	matches := slices.EqualFunc(got, want, strings.HasPrefix)
	if !matches {
		t.Errorf("%s:\n got  %s\n want %s", what, strings.Join(got, "\n      "), strings.Join(want, "\n      "))
	}
}

// TestRanges: the ranges of all fields, and the limits of other rules, in the cluster's part and in an entry's.
func TestRanges(t *testing.T) {
	const nodes = `name: pool, nodeSelector: {matchLabels: {a: b}}`
	for _, c := range []struct {
		key, text string
		want      []string // the beginnings of the problems, without the key
	}{
		{ColocationKey, `{}`, nil},
		{ColocationKey, `{metricAggregateDurationSeconds: 30, cpuReclaimThresholdPercent: 70, memoryReclaimThresholdPercent: 80, updateTimeThresholdSeconds: 300, degradeTimeMinutes: 5, resourceDiffThreshold: 0.1, nodeConfigs: [{` + nodes + `, resourceDiffThreshold: 0.1}]}`, nil},
		{ColocationKey, `{memoryReclaimThresholdPercent: 101, resourceDiffThreshold: 1, batchCPUThresholdPercent: 0}`, nil},
		{ColocationKey, `{metricAggregateDurationSeconds: 0, cpuReclaimThresholdPercent: -1, degradeTimeMinutes: 0, updateTimeThresholdSeconds: -1, resourceDiffThreshold: 2, nodeConfigs: [{` + nodes + `, resourceDiffThreshold: -1}]}`, []string{
			".cpuReclaimThresholdPercent: Invalid value: -1: must be at least 0 (percent)", ".degradeTimeMinutes: Invalid value: 0: must be at least 1 (minutes)",
			".metricAggregateDurationSeconds: Invalid value: 0: must be at least 1 (seconds)",
			".nodeConfigs[0].resourceDiffThreshold: Invalid value: -1: must be more than 0 and at most 1", ".resourceDiffThreshold: Invalid value: 2: must be more than 0",
			".updateTimeThresholdSeconds: Invalid value: -1: must be at least 1"}},
		{ColocationKey, `{resourceDiffThreshold: 0}`, []string{".resourceDiffThreshold: Invalid value: 0: must be more than 0"}},
		{ColocationKey, `{midCPUThresholdPercent: 101, midReclaimMode: dynamic, metricAggregatePolicy: {durations: [5m, 5 minutes, 0s, -1m]}}`, []string{
			".metricAggregatePolicy.durations[1]: Invalid value: \"5 minutes\": must be a duration", ".metricAggregatePolicy.durations[2]: Invalid value: \"0s\": must be a duration above 0", ".metricAggregatePolicy.durations[3]: Invalid value: \"-1m\"", ".midCPUThresholdPercent: Invalid value: 101: must be 0 to 100 (percent)",
			".midReclaimMode: Invalid value: \"dynamic\": must be one of static"}},
		{CPUBurstKey, `{clusterStrategy: {cpuBurstPercent: 100, cfsQuotaBurstPercent: 200, cfsQuotaBurstPeriodSeconds: 10000}}`, nil},
		{CPUBurstKey, `{clusterStrategy: {cfsQuotaBurstPeriodSeconds: -1, policy: ""}}`, nil},
		{CPUBurstKey, `{clusterStrategy: {cpuBurstPercent: 0, cfsQuotaBurstPercent: -1, cfsQuotaBurstPeriodSeconds: -2}, nodeStrategies: [{` + nodes + `, cpuBurstPercent: 0, policy: always}]}`, []string{
			".clusterStrategy.cfsQuotaBurstPercent: Invalid value: -1: must be at least 100", ".clusterStrategy.cfsQuotaBurstPeriodSeconds: Invalid value: -2: must be at least -1",
			".clusterStrategy.cpuBurstPercent: Invalid value: 0: must be 1 to 10000", ".nodeStrategies[0].cpuBurstPercent: Invalid value: 0",
			".nodeStrategies[0].policy: Invalid value: \"always\": must be one of none, cpuBurstOnly, cfsQuotaBurstOnly, auto"}},
		{SystemKey, `{clusterStrategy: {minFreeKbytesFactor: 100, watermarkScaleFactor: 150, memcgReapBackGround: 1, totalNetworkBandwidth: 1000M, schedFeatures: {ID: true}}}`, nil},
		{SystemKey, `{clusterStrategy: {minFreeKbytesFactor: -1, watermarkScaleFactor: 0, memcgReapBackGround: -1, totalNetworkBandwidth: 10x, schedFeatures: {ID: 1}}}`, []string{
			".clusterStrategy.memcgReapBackGround: Invalid value: -1: must be 0 to 1", ".clusterStrategy.minFreeKbytesFactor: Invalid value: -1: must be at least 1",
			".clusterStrategy.schedFeatures[ID]: Invalid value: 1: must be true or false", ".clusterStrategy.totalNetworkBandwidth: Invalid value: \"10x\": must be a quantity of bytes per second",
			".clusterStrategy.watermarkScaleFactor: Invalid value: 0: must be 1 to 400"}},
		{SystemKey, `{clusterStrategy: {totalNetworkBandwidth: -1}}`, []string{".clusterStrategy.totalNetworkBandwidth: Invalid value: \"-1\": must not be negative"}},
		{ThresholdKey, `{clusterStrategy: {enable: true, cpuSuppressThresholdPercent: 60}}`, nil},
		{ThresholdKey, `{clusterStrategy: {cpuSuppressThresholdPercent: -1, cpuEvictBESatisfactionUpperPercent: 102, evictEnabledPriorityThreshold: 3000000000, allocatableEvictPriorityThreshold: 8000, cpuEvictTimeWindowSeconds: 0}}`, []string{
			".clusterStrategy.allocatableEvictPriorityThreshold: Invalid value: 8000: must be 0 to 7999", ".clusterStrategy.cpuEvictBESatisfactionUpperPercent: Invalid value: 102",
			".clusterStrategy.cpuEvictTimeWindowSeconds: Invalid value: 0: must be at least 1", ".clusterStrategy.cpuSuppressThresholdPercent: Invalid value: -1",
			".clusterStrategy.evictEnabledPriorityThreshold: Invalid value: 3000000000: must be -2147483648 to 2147483647 (32 bits)"}},
		{QoSKey, `{clusterStrategy: {lsClass: {cpuQOS: {groupIdentity: -1}}}}`, nil},
		{QoSKey, `{clusterStrategy: {lsClass: {cpuQOS: {groupIdentity: 3}}, beClass: {memoryQOS: {oomKillGroup: 3, pageCacheLimitSize: -1}}, cgroupRoot: {memoryQOS: {wmarkMinAdj: -26}}, lsrClass: {resctrlQOS: {catRangeStartPercent: -1}}}, nodeStrategies: [{` + nodes + `, beClass: {resctrlQOS: {catRangeStartPercent: 101}}}]}`, []string{
			".clusterStrategy.beClass.memoryQOS.oomKillGroup: Invalid value: 3: must be 0 to 1", ".clusterStrategy.beClass.memoryQOS.pageCacheLimitSize: Invalid value: -1: must be at least 0 (bytes)", ".clusterStrategy.cgroupRoot.memoryQOS.wmarkMinAdj: Invalid value: -26: must be -25 to 50",
			".clusterStrategy.lsClass.cpuQOS.groupIdentity: Invalid value: 3: must be -1 to 2", ".clusterStrategy.lsrClass.resctrlQOS.catRangeStartPercent: Invalid value: -1",
			".nodeStrategies[0].beClass.resctrlQOS.catRangeStartPercent: Invalid value: 101"}},
		{QoSKey, `{clusterStrategy: {policies: {cpuPolicy: coresched}, beClass: {blkioQOS: {blocks: [{name: d, type: disk, ioCfg: {ioWeightPercent: 1000, readIOPS: -1, readLatency: -1, modelReadBPS: 0}}, {ioCfg: {ioWeightPercent: 60}}]}}}}`, []string{
			".clusterStrategy.beClass.blkioQOS.blocks[0].ioCfg.ioWeightPercent: Invalid value: 1000: must be 1 to 100", ".clusterStrategy.beClass.blkioQOS.blocks[0].ioCfg.modelReadBPS: Invalid value: 0: must be at least 1",
			".clusterStrategy.beClass.blkioQOS.blocks[0].ioCfg.readIOPS: Invalid value: -1: must be at least 0", ".clusterStrategy.beClass.blkioQOS.blocks[0].ioCfg.readLatency: Invalid value: -1: must be at least 0 (microseconds)", ".clusterStrategy.beClass.blkioQOS.blocks[0].type: Invalid value: \"disk\": must be one of device",
			".clusterStrategy.policies.cpuPolicy: Invalid value: \"coresched\": must be one of groupIdentity, coreSched"}},
		{HostAppKey, `{applications: [{name: nginx, priority: koord-prod, qos: LS, cgroupPath: {base: CgroupRoot, parentDir: d/, relativePath: n/}, strategy: {}}], nodeConfigs: [{` + nodes + `, applications: []}]}`, nil},
		{HostAppKey, `{applications: [{name: nginx, priority: prod, qos: ls, cgroupPath: {base: Root}}], nodeConfigs: [{` + nodes + `, applications: {}}, {name: m}]}`, []string{
			".applications[0].cgroupPath.base: Invalid value: \"Root\": must be one of CgroupRoot", ".applications[0].priority: Invalid value: \"prod\": must be one of koord-prod",
			".applications[0].qos: Invalid value: \"ls\": must be one of LSE", ".nodeConfigs[0].applications: Invalid value: must be an array, not an object", ".nodeConfigs[1].nodeSelector: Required value"}},
		{NormalizationKey, `{enable: true, defaultRatio: 1, ratioModel: {"Intel(R) Xeon(R)": {baseRatio: 1.5, hyperThreadTurboEnabledRatio: 5}}}`, nil},
		{NormalizationKey, `{enable: 1, defaultRatio: 0.9, ratioModel: {X Y: {baseRatio: "1.5", turboEnabledRatio: 5.1}}}`, []string{
			".defaultRatio: Invalid value: 0.9: must be at least 1 and at most 5", ".enable: Invalid value: 1: must be true or false, not a number",
			".ratioModel[X Y].baseRatio: Invalid value: \"1.5\": must be a number, not a string", ".ratioModel[X Y].turboEnabledRatio: Invalid value: 5.1"}},
		{AmplificationKey, `{enable: true, resourceAmplificationRatio: {cpu: 1.5, memory: 1}}`, nil},
		{AmplificationKey, `{resourceAmplificationRatio: {cpu: 0.5, memory: -1}, nodeConfigs: [{` + nodes + `, resourceAmplificationRatio: [2]}]}`, []string{
			".nodeConfigs[0].resourceAmplificationRatio: Invalid value: must be an object, not an array", ".resourceAmplificationRatio[cpu]: Invalid value: 0.5: 0.5 is below 1, which would shrink the node; it must be from 1 to 9999", ".resourceAmplificationRatio[memory]: Invalid value: -1"}},
		{AmplificationKey, `{resourceAmplificationRatio: {cpu: 1.0e+300, memory: "2", nvidia.com/gpu: 2, CPU: 3, Memory: null}, nodeConfigs: [{` + nodes + `, resourceAmplificationRatio: {cpu: 10000}}]}`, []string{
			".nodeConfigs[0].resourceAmplificationRatio[cpu]: Invalid value: 10000: 10000 is above 9999", ".resourceAmplificationRatio[CPU]: Invalid value: 3: must be written cpu",
			".resourceAmplificationRatio[Memory]: Invalid value: must be a number, not null", ".resourceAmplificationRatio[cpu]: Invalid value: 1e+300: 1e+300 is above 9999",
			".resourceAmplificationRatio[memory]: Invalid value: \"2\": must be a number, not a string", ".resourceAmplificationRatio[nvidia.com/gpu]: Invalid value: 2: is not amplified: only cpu and memory are"}},
	} {
		for i := range c.want {
			c.want[i] = "[" + c.key + "]" + c.want[i]
		}
		same(t, c.key+" "+c.text, errorsOf(Compile(map[string]string{c.key: asJSON(t, c.text)})), c.want)
	}
}

// TestPairs: both given, or one against the effective value of the other.
func TestPairs(t *testing.T) {
	const nodes = `nodeSelector: {matchLabels: {a: b}}`
	for _, c := range []struct {
		key, text      string
		want, warnings []string
	}{
		{ThresholdKey, `{clusterStrategy: {memoryEvictThresholdPercent: 70}}`, nil, nil}, // Koordinator's own sample
		{ThresholdKey, `{clusterStrategy: {memoryEvictThresholdPercent: 70, memoryEvictLowerPercent: 69}}`, nil, nil},
		{ThresholdKey, `{clusterStrategy: {memoryEvictThresholdPercent: 70, memoryEvictLowerPercent: 70}}`, []string{
			".clusterStrategy.memoryEvictLowerPercent: Invalid value: 70: must be less than memoryEvictThresholdPercent, which is 70",
			".clusterStrategy.memoryEvictThresholdPercent: Invalid value: 70: must be greater than memoryEvictLowerPercent, which is 70"}, nil},
		{ThresholdKey, `{clusterStrategy: {memoryEvictLowerPercent: 69}}`, nil, nil},
		{ThresholdKey, `{clusterStrategy: {memoryEvictLowerPercent: 70}}`, []string{
			".clusterStrategy.memoryEvictLowerPercent: Invalid value: 70: must be less than memoryEvictThresholdPercent, which is 70 by default"}, nil},
		{ThresholdKey, `{clusterStrategy: {cpuEvictBESatisfactionLowerPercent: 35}}`, nil, []string{".clusterStrategy.cpuEvictBESatisfactionLowerPercent: no effect without cpuEvictBESatisfactionUpperPercent"}},
		{ThresholdKey, `{clusterStrategy: {cpuEvictBESatisfactionLowerPercent: 35, cpuEvictBESatisfactionUpperPercent: 22}}`, []string{
			".clusterStrategy.cpuEvictBESatisfactionLowerPercent: Invalid value: 35: must be less than cpuEvictBESatisfactionUpperPercent, which is 22", ".clusterStrategy.cpuEvictBESatisfactionUpperPercent: Invalid value: 22"}, nil},
		{ThresholdKey, `{clusterStrategy: {memoryEvictThresholdPercent: 80}, nodeStrategies: [{` + nodes + `, memoryEvictLowerPercent: 75}]}`, nil, nil},
		{ThresholdKey, `{clusterStrategy: {memoryEvictLowerPercent: 60}, nodeStrategies: [{` + nodes + `, memoryEvictThresholdPercent: 60}]}`, []string{
			".nodeStrategies[0].memoryEvictThresholdPercent: Invalid value: 60: must be greater than memoryEvictLowerPercent, which is 60 by clusterStrategy"}, nil},
		{ThresholdKey, `{clusterStrategy: {memoryEvictLowerPercent: 90}, nodeStrategies: [{` + nodes + `}]}`, []string{".clusterStrategy.memoryEvictLowerPercent"}, nil},
		{ThresholdKey, `{clusterStrategy: {memoryEvictLowerPercent: -1, memoryEvictThresholdPercent: 101}}`, []string{
			".clusterStrategy.memoryEvictLowerPercent: Invalid value: -1: must be 0 to 100", ".clusterStrategy.memoryEvictThresholdPercent: Invalid value: 101: must be 0 to 100"}, nil},
		{ThresholdKey, `{clusterStrategy: {cpuAllocatableEvictThresholdPercent: 150, cpuAllocatableEvictLowerPercent: 160}}`, []string{".clusterStrategy.cpuAllocatableEvictLowerPercent", ".clusterStrategy.cpuAllocatableEvictThresholdPercent"}, nil},
		{ThresholdKey, `{clusterStrategy: {memoryAllocatableEvictThresholdPercent: 1, memoryAllocatableEvictLowerPercent: 1, cpuEvictThresholdPercent: 1, cpuEvictLowerPercent: 1}}`, []string{
			".clusterStrategy.memoryAllocatableEvictLowerPercent", ".clusterStrategy.memoryAllocatableEvictThresholdPercent", ".clusterStrategy.cpuEvictLowerPercent", ".clusterStrategy.cpuEvictThresholdPercent"}, nil},
		{QoSKey, `{clusterStrategy: {beClass: {resctrlQOS: {catRangeStartPercent: 40}}}}`, []string{
			".clusterStrategy.beClass.resctrlQOS.catRangeStartPercent: Invalid value: 40: must be less than catRangeEndPercent, which is 30 by default"}, nil},
		{QoSKey, `{clusterStrategy: {lsClass: {resctrlQOS: {catRangeStartPercent: 40}}}}`, nil, nil},
		{QoSKey, `{clusterStrategy: {lsrClass: {resctrlQOS: {catRangeEndPercent: 0}}}}`, []string{".clusterStrategy.lsrClass.resctrlQOS.catRangeEndPercent: Invalid value: 0: must be greater than catRangeStartPercent, which is 0 by default"}, nil},
		{QoSKey, `{clusterStrategy: {systemClass: {resctrlQOS: {catRangeEndPercent: 0}}}}`, []string{".clusterStrategy.systemClass.resctrlQOS.catRangeEndPercent: Invalid value: 0: must be greater than catRangeStartPercent, which is 0 by default"}, nil},
		{QoSKey, `{clusterStrategy: {cgroupRoot: {resctrlQOS: {catRangeEndPercent: 0}}}}`, nil, nil},
		{QoSKey, `{clusterStrategy: {beClass: {resctrlQOS: {catRangeEndPercent: 50}}}, nodeStrategies: [{` + nodes + `, beClass: {resctrlQOS: {catRangeStartPercent: 50}}}]}`, []string{
			".nodeStrategies[0].beClass.resctrlQOS.catRangeStartPercent: Invalid value: 50: must be less than catRangeEndPercent, which is 50 by clusterStrategy"}, nil},
	} {
		for i := range c.want {
			c.want[i] = "[" + c.key + "]" + c.want[i]
		}
		for i := range c.warnings {
			c.warnings[i] = "[" + c.key + "]" + c.warnings[i]
		}
		config := Compile(map[string]string{c.key: asJSON(t, c.text)})
		same(t, c.text, errorsOf(config), c.want)
		same(t, c.text, warningsOf(config), c.warnings)
	}
}

// TestTexts: invalid and unusual configurations.
func TestTexts(t *testing.T) {
	for _, c := range []struct {
		text           string
		want, warnings []string
	}{
		{``, nil, nil},
		{`null`, nil, []string{": null is nothing"}},
		{` `, []string{": Invalid value: \" \": "}, nil},
		{`invalid_content`, []string{": Invalid value: \"invalid_content\""}, nil},
		{`{} {}`, []string{": Invalid value"}, nil},
		{`[]`, []string{": Invalid value: must be an object, not an array"}, nil},
		{`7`, []string{": Invalid value: 7: must be an object, not a number"}, nil},
		{`{"enable":1,"enable":true}`, nil, []string{".enable: is there twice, and the last one counts; remove the others"}},
		{`{"enable":true,"enable":1}`, []string{".enable: Invalid value: 1"}, []string{".enable: is there twice"}},
		{`{"enable":true,"Enable":1}`, []string{".enable: Invalid value: 1"}, []string{".Enable: is read, but should be written enable", ".Enable: is there twice, and the last one counts"}},
		{`{"nodeConfigs":[{"NAME":"a","nodeSelector":{"matchlabels":{"a":"b","A":"b"}}}]}`, nil, []string{
			".nodeConfigs[0].NAME: is read, but should be written name", ".nodeConfigs[0].nodeSelector.matchlabels: is read, but should be written matchLabels"}},
		{`{"Enable":1}`, []string{".enable: Invalid value: 1"}, []string{".Enable: is read, but should be written enable"}},
		{`{"enable":null,"nodeConfigs":null}`, nil, nil},
		{`{"metricAggregatePolicy":{"durations":[null]}}`, []string{".metricAggregatePolicy.durations[0]: Invalid value: must be a string, not null"}, nil},
		{`{"degradeTimeMinutes":1.0}`, []string{".degradeTimeMinutes: Invalid value: 1: must be a whole number, not a number with a fraction"}, nil},
		{`{"degradeTimeMinutes":99999999999999999999}`, []string{".degradeTimeMinutes: Invalid value: 1e+20: must be a whole number"}, nil},
		{`{"degradeTimeMinutes":"5"}`, []string{".degradeTimeMinutes: Invalid value: \"5\": must be a whole number, not a string"}, nil},
		{`{"cpuReclaimTresholdPercent":900,"colour":1}`, nil, []string{".colour: unknown, so without effect", ".cpuReclaimTresholdPercent: unknown; is it cpuReclaimThresholdPercent?"}},
		{`{"nodeConfigs":[null,7,{}]}`, []string{".nodeConfigs[1]: Invalid value: 7: must be an object", ".nodeConfigs[0].nodeSelector: Required value", ".nodeConfigs[2].nodeSelector: Required value"}, nil},
		{`{"nodeConfigs":[{"nodeSelector":null},{"nodeSelector":{}},{"nodeSelector":{"matchLabels":{},"matchExpressions":[]}},{"nodeSelector":7}]}`, []string{
			".nodeConfigs[3].nodeSelector: Invalid value: 7: must be an object", ".nodeConfigs[0].nodeSelector: Required value", ".nodeConfigs[1].nodeSelector: Required value", ".nodeConfigs[2].nodeSelector: Required value"}, nil},
		{`{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"a b":"1","c":"& *"},"matchExpressions":[{"key":"a","operator":"in","values":["b"]},{"key":"a","operator":"In"},{"key":"a","operator":"Exists","values":["b"]}]}}]}`, []string{
			".nodeConfigs[0].nodeSelector.matchLabels[a b]: Invalid value: \"a b\"", ".nodeConfigs[0].nodeSelector.matchLabels[c]: Invalid value: \"& *\"",
			".nodeConfigs[0].nodeSelector.matchExpressions[0].operator: Invalid value: \"in\": must be In, NotIn, Exists or DoesNotExist",
			".nodeConfigs[0].nodeSelector.matchExpressions[1].values: Required value", ".nodeConfigs[0].nodeSelector.matchExpressions[2].values: Forbidden"}, nil},
		{`{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"a":"1"},"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}}]}`, nil, []string{".nodeConfigs[0].nodeSelector: selects no node: what it asks of label a contradicts itself"}},
		{`{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"a":1}}}]}`, []string{".nodeConfigs[0].nodeSelector.matchLabels[a]: Invalid value: 1: must be a string"}, nil},
	} {
		for i := range c.want {
			c.want[i] = "[colocation-config]" + c.want[i]
		}
		for i := range c.warnings {
			c.warnings[i] = "[colocation-config]" + c.warnings[i]
		}
		config := Compile(map[string]string{ColocationKey: c.text})
		same(t, c.text, errorsOf(config), c.want)
		same(t, c.text, warningsOf(config), c.warnings)
	}
}

// TestDataKeys: a misspelt key gets a warning, one of a third party does not.
func TestDataKeys(t *testing.T) {
	c := Compile(map[string]string{"colocation-configs": "{}", "acme-config": "any text", "system-config": "{}"})
	same(t, "keys", warningsOf(c), []string{"[colocation-configs]: unknown; is it colocation-config?"})
	same(t, "keys", errorsOf(c), nil)
}

// TestAllKeys: the problems of all keys are reported at once, in the order of the tables.
func TestAllKeys(t *testing.T) {
	data := map[string]string{}
	var want []string
	for _, key := range Keys() {
		data[key] = "invalid_content"
		want = append(want, "["+key+"]: Invalid value")
	}
	same(t, "all keys", errorsOf(Compile(data)), want)
}

// TestNetwork: percentages and bandwidths, each on its own.
func TestNetwork(t *testing.T) {
	class := func(request any) string {
		raw, _ := json.Marshal(request)
		return fmt.Sprintf(`{"networkQOS":{"ingressRequest":%s}}`, raw)
	}
	cluster := func(lsr, ls any) string {
		return fmt.Sprintf(`"clusterStrategy":{"lsrClass":%s,"lsClass":%s}`, class(lsr), class(ls))
	}
	node := func(lsr, ls any) string {
		return fmt.Sprintf(`"nodeStrategies":[{"nodeSelector":{"matchLabels":{"a":"b"}},"lsrClass":%s,"lsClass":%s}]`, class(lsr), class(ls))
	}
	const (
		total1000M = `{"clusterStrategy":{"totalNetworkBandwidth":"1000M"}}`
		node1000M  = `{"clusterStrategy":{"totalNetworkBandwidth":"1"},"nodeStrategies":[{"nodeSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]},"totalNetworkBandwidth":"1000M"}]}`
		bareNode   = `{"clusterStrategy":{"totalNetworkBandwidth":"1000M"},"nodeStrategies":[{"name":"x","nodeSelector":{"matchLabels":{"a":"b"}}}]}`
		lsrPath    = ".clusterStrategy.lsrClass.networkQOS.ingressRequest: Invalid value: "
	)
	for _, c := range []struct {
		qos, system string
		want        []string
	}{
		{cluster(50, nil), "", nil},
		{cluster(50, nil), `{"clusterStrategy":{}}`, nil},
		{cluster("50m", nil), "", nil},
		{cluster("50M", nil), "", nil},
		{cluster("500M", "500M"), total1000M, nil},
		{cluster(-1, nil), "", []string{lsrPath + "-1: must be 0 to 100 (percent"}},
		{cluster(101, nil), "", []string{lsrPath + "101: must be 0 to 100"}},
		{cluster("50a", nil), "", []string{lsrPath + `"50a": must be a quantity of bytes per second, such as 50M; a percentage is written as a number`}},
		{cluster("50%", nil), "", []string{lsrPath + `"50%": must be a quantity`}},
		{cluster("", nil), "", []string{lsrPath + `"": must be a quantity`}},
		{cluster("-5M", nil), "", []string{lsrPath + `"-5M": must not be negative`}},
		{cluster(50.5, nil), "", []string{lsrPath + `50.5: must be a whole number of percent`}},
		{cluster(50, 60), "", []string{`.clusterStrategy: Invalid value: "110": ingressRequest of lsrClass (50), lsClass (60) must not sum to more than 100 percent`}},
		{cluster(50, 50), total1000M, nil},
		{node(50, 60), "", []string{`.nodeStrategies[0]: Invalid value: "110": ingressRequest of lsrClass (50), lsClass (60) must not sum`}},
		{cluster("500M", "600M"), total1000M, []string{`.clusterStrategy: Invalid value: "1100M": ingressRequest of lsrClass (500M), lsClass (600M) must not sum to more than totalNetworkBandwidth in system-config, which is 1G`}},
		{node("500M", "600M"), total1000M, []string{`.nodeStrategies[0]: Invalid value: "1100M"`}},
		{node("500M", "600M"), node1000M, []string{`.nodeStrategies[0]: Invalid value: "1100M"`}},
		{node("500M", "500M"), node1000M, nil},
		{node("500M", "600M"), strings.Replace(node1000M, `["b"]`, `["c"]`, 1), []string{`.nodeStrategies[0]: Invalid value: "1100M": ingressRequest of lsrClass (500M), lsClass (600M) must not sum to more than totalNetworkBandwidth in system-config, which is 1`}},
		{node("500M", "600M"), strings.Replace(strings.Replace(node1000M, `["b"]`, `["c"]`, 1), `"1"`, `"2G"`, 1), nil}, // another selector's bandwidth
		{node("500M", "600M"), bareNode, []string{`.nodeStrategies[0]: Invalid value: "1100M"`}},
		{node("500M", "600M"), "null", nil},
		{cluster("500M", 50), "", []string{".clusterStrategy: Invalid value: network requests must be all percentages (numbers) or all bandwidths (strings); percentages are lsClass.ingressRequest, bandwidths are lsrClass.ingressRequest"}},
		{node("500M", "60"), total1000M, nil}, // 500 MB/s and 60 bytes per second: a warning
		{cluster(60, nil) + "," + node(nil, 60), "", []string{`.nodeStrategies[0]: Invalid value: "120": ingressRequest of lsrClass (60 by clusterStrategy), lsClass (60) must not sum`}},
		{cluster("50M", nil) + "," + node(nil, 60), "", nil},                                             // only requests of one strategy must have one format
		{cluster(60, 60) + "," + node(nil, nil), "", []string{`.clusterStrategy: Invalid value: "120"`}}, // the entry is not blamed
	} {
		for i := range c.want {
			c.want[i] = "[resource-qos-config]" + c.want[i]
		}
		config := Compile(map[string]string{QoSKey: "{" + c.qos + "}", SystemKey: c.system})
		same(t, c.qos+" "+c.system, errorsOf(config), c.want)
	}
	c := Compile(map[string]string{QoSKey: "{" + cluster("60", nil) + "}"})
	same(t, "60 bytes", warningsOf(c), []string{`[resource-qos-config].clusterStrategy.lsrClass.networkQOS.ingressRequest: "60" is bytes/s; percent has no quotes`})
}

// TestProblemsOfChanged: only changed keys are checked; the bandwidth rule if either of its keys changed.
func TestProblemsOfChanged(t *testing.T) {
	data := map[string]string{
		ColocationKey: `{"degradeTimeMinutes":0}`, ThresholdKey: `{"clusterStrategy":{"cpuSuppressMinPercent":101}}`,
		QoSKey:    `{"clusterStrategy":{"lsClass":{"networkQOS":{"egressRequest":"2G"}},"beClass":{"cpuQOS":{"groupIdentity":3}}}}`,
		SystemKey: `{"clusterStrategy":{"totalNetworkBandwidth":"1G"}}`,
	}
	c := Compile(data)
	for key, want := range map[string]int{ColocationKey: 1, ThresholdKey: 1, QoSKey: 2, SystemKey: 1, HostAppKey: 0} {
		if got := c.Problems(func(k string) bool { return k == key }); len(got) != want {
			t.Errorf("%s changed: %v, want %d", key, got, want)
		}
	}
	changed := Changed(data, map[string]string{ColocationKey: "{ \"degradeTimeMinutes\" :0}", QoSKey: "{}", SystemKey: "", HostAppKey: "{}"})
	for key, want := range map[string]bool{ColocationKey: false, ThresholdKey: false, QoSKey: true, SystemKey: false, HostAppKey: true} {
		if changed(key) != want {
			t.Errorf("%s changed: %v", key, !want)
		}
	}
	for _, c := range [][2]string{{"null", "broken"}, {"broken", "null"}, {"bad", "broken"}, {`{"a":1}`, `{"a":1.0}`}} {
		if !Changed(map[string]string{SystemKey: c[0]}, map[string]string{SystemKey: c[1]})(SystemKey) {
			t.Errorf("%s and %s: not changed", c[0], c[1])
		}
	}
}

// TestMegabyte: hostile texts of 1 MiB get a short answer.
func TestMegabyte(t *testing.T) {
	many := func(entry string) string {
		var b strings.Builder
		b.WriteString(`{"nodeConfigs":[`)
		for i := 0; b.Len() < 1<<20-200; i++ {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(strings.ReplaceAll(entry, "#", fmt.Sprint(i)))
		}
		return b.String() + "]}"
	}
	for name, text := range map[string]string{
		"no selectors":        many(`{}`),
		"all absent":          many(`{"nodeSelector":{"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}}`),
		"all different":       many(`{"nodeSelector":{"matchLabels":{"a":"#"}}}`),
		"all except":          many(`{"nodeSelector":{"matchExpressions":[{"key":"a","operator":"NotIn","values":["#"]}]}}`),
		"one common":          many(`{"nodeSelector":{"matchLabels":{"a":"1","b":"#"}}}`),
		"any of two keys":     many(`{"nodeSelector":{"matchLabels":{"k#":"1"},"matchExpressions":[{"key":"a","operator":"Exists"}]}}`),
		"many unknown names":  `{"nodeConfigs":[{` + strings.Repeat(`"cpuReclaimTreshold0":1,"cpuReclaimTreshold1":1},{`, 20000) + `}]}`,
		"unknown names":       `{"x":{` + strings.Repeat(`"y":{`, 9000) + strings.Repeat("}", 9000) + `}}`,
		"a long string":       `{"cpuCalculatePolicy":"` + strings.Repeat("é", 1<<19) + `"}`,
		"a long name":         `{"` + strings.Repeat("é", 1<<19) + `":1}`,
		"a wide selector":     many(`{"nodeSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["#","x"]},{"key":"b","operator":"In","values":["#","x"]}]}}`),
		"not JSON":            strings.Repeat("[", 1<<20),
		"megabytes of braces": strings.Repeat(`{"a":`, 1<<17),
	} {
		config := Compile(map[string]string{ColocationKey: text})
		problems := config.Problems(nil)
		size := 0
		for _, p := range problems {
			size += len(p.Error())
		}
		if got := len(config.Warnings()); got > maxWarnings {
			t.Errorf("%s: %d warnings", name, got)
		}
		if len(problems) > maxProblems+1 || size > 200_000 {
			t.Errorf("%s: %d problems, %d bytes", name, len(problems), size)
		}
	}
}
