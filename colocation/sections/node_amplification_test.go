package sections

import (
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/config"
)

func TestNodeAmplificationProblems(t *testing.T) {
	for text, wants := range map[string][]string{
		`nodeAmplification: {}`: nil,
		`nodeAmplification: {fromSLOConfig: true, pools: [{name: a, ratios: {cpu: "2"}, maxRatios: {cpu: "2", memory: "1.5"}, maxUtilization: {memory: 100}}]}`: nil,
		`nodeAmplification: {pools: [{name: a, selector: {matchLabels: {a: b}}, maxRatios: {memory: "1"}}]}`:                                                    nil,

		`nodeAmplification: {pools: [{ratios: {cpu: "2"}}, {name: a}, {name: a, ratios: {cpu: "2"}, capacity: keep}]}`: {
			`nodeAmplification.pools[0].name: Required`, `nodeAmplification.pools[1].ratios: Required`, `nodeAmplification.pools[2].name: Duplicate`,
			`nodeAmplification.pools[2].capacity: Forbidden: unknown field; the known fields are name, `},
		`nodeAmplification: {pools: [{name: a, ratios: {cpu: "5", gpu: "2"}, maxRatios: {cpu: "4", eni: "2", memory: "0.5"}}]}`: {
			`pools[0].ratios: Unsupported value: "gpu"`, `pools[0].maxRatios: Unsupported value: "eni"`, `pools[0].maxRatios[memory]: Invalid value: "0.5"`,
			`pools[0].ratios[cpu]: Invalid value: "5": is above maxRatios 4`},
		`nodeAmplification: {pools: [{name: a, maxUtilization: {cpu: 0, memory: 101, gpu: 5}}]}`: {
			`maxUtilization[cpu]: Invalid value: 0: must be from 1 to 100`, `maxUtilization[memory]: Invalid value: 101`, `maxUtilization: Unsupported value: "gpu"`},
		`nodeAmplification: {pools: [{name: a, ratios: {cpu: "2"}, selector: {matchExpressions: [{key: a, operator: Is}]}}]}`: {`operator`},
		`nodeAmplification: {pools: [{name: a, ratios: {cpu: 2}}]}`:                                                           {"number"},
	} {
		parsed, problems := config.Parse([]byte(text), config.Schema{BindingSection, NodeAmplificationSection, QuotasSection})
		if (parsed == nil) != (len(wants) > 0) || len(problems) < len(wants) {
			t.Errorf("%s: %v", text, problems)
		}
		for _, want := range wants {
			if !mentioned(problems, want) {
				t.Errorf("%s: no problem says %q: %v", text, want, problems)
			}
		}
	}
}

// Without a policy, labels and annotations are not bounded; without those, no source sets a ratio.
func TestSourcesWithoutPolicy(t *testing.T) {
	var none *NodeAmplification
	for raw, want := range map[string]string{
		`{}`: "", `{"metadata":{"labels":{"a":"b"}}}`: "",
		`{"metadata":{"labels":{"node-restriction.kubernetes.io/overcommit-cpu":"9"}}}`:                   "9 by label",
		`{"metadata":{"annotations":{"node.koordinator.sh/resource-amplification-ratio":"{\"cpu\":7}"}}}`: "7 by annotation",
	} {
		d, err := document.Parse([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		said := none.Sources(nil).For(admit.AsNode(d))
		got := ""
		if w, ok := said.Of["cpu"]; ok {
			got = w.Ratio.String() + " by " + w.By
		}
		if got != want || said.Found != (want != "") {
			t.Errorf("%s: %q, speaks %v", raw, got, said.Found)
		}
	}
}

// The SLO configuration is only read if the policy says so.
func TestSLORatiosAreOffByDefault(t *testing.T) {
	d, _ := document.Parse([]byte(`{}`))
	asked := 0
	slo := func(map[string]string) (map[string]string, bool) { asked++; return map[string]string{"cpu": "2"}, true }
	if said := (&NodeAmplification{}).Sources(slo).For(admit.AsNode(d)); said.Found || asked > 0 {
		t.Errorf("asked %d times: %+v", asked, said)
	}
	if said := (&NodeAmplification{FromSLOConfig: true}).Sources(slo).For(admit.AsNode(d)); said.Of["cpu"].By != BySLOConfig {
		t.Errorf("%+v", said)
	}
}
