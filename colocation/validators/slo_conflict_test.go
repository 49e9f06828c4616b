package validators

import (
	"encoding/json"
	"errors"
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/slo"
)

func nodeWith(t testing.TB, labels map[string]string, deleting bool) *document.Document {
	t.Helper()
	metadata := map[string]any{"name": "n", "labels": labels}
	if deleting {
		metadata["deletionTimestamp"] = "2026-10-02T07:31:09Z"
	}
	raw, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		t.Fatal(err)
	}
	d, err := document.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSLOConflict: the entries that select a node, before and after a change.
func TestSLOConflict(t *testing.T) {
	type labels = map[string]string
	const selectZ = `{"nodeSelector":{"matchLabels":{"z":"1"}}}`
	stored := labels{slo.ColocationKey: nodeConfigs(selectX, selectY, selectZ), slo.SystemKey: `null`, slo.CPUBurstKey: `bad`}
	x, y, xy, xyz := labels{"x": "1"}, labels{"y": "1"}, labels{"x": "1", "y": "1"}, labels{"x": "1", "y": "1", "z": "1"}
	const conflict = "metadata.labels: Forbidden: ConfigMap koordinator-system/slo-controller-config, data key colocation-config: nodeConfigs[0] (x), nodeConfigs[1] (y) select this node"
	const warning = "SLO colocation-config: nodeConfigs[0] (x), nodeConfigs[1] (y) select this node; only the first counts"
	for name, c := range map[string]struct {
		config         map[string]string
		labels, old    labels // nil if the node is created
		deleting       bool
		want, warnings []string
	}{
		"no ConfigMap":                {nil, xy, x, false, nil, nil},
		"all keys unreadable":         {labels{slo.ColocationKey: "bad", slo.SystemKey: "bad"}, xy, x, false, nil, nil},
		"null":                        {labels{slo.ColocationKey: "null"}, xy, x, false, nil, nil},
		"no entries":                  {labels{slo.ColocationKey: `{"nodeConfigs":[]}`}, xy, x, false, nil, nil},
		"created with one":            {stored, x, nil, false, nil, nil},
		"created with both":           {stored, xy, nil, false, nil, []string{warning}},
		"gets one":                    {stored, x, labels{}, false, nil, nil},
		"gets both":                   {stored, xy, labels{}, false, []string{conflict}, nil},
		"gets the other":              {stored, xy, x, false, []string{conflict}, nil},
		"gets the other, is deleted":  {stored, xy, x, true, nil, nil},
		"had both":                    {stored, xy, xy, false, nil, nil},
		"had both, unrelated label":   {stored, labels{"x": "1", "y": "1", "team": "web"}, xy, false, nil, []string{warning}},
		"had both, loses one":         {stored, y, xy, false, nil, nil},
		"had both, gets a third":      {stored, xyz, xy, false, []string{"nodeConfigs[0] (x), nodeConfigs[1] (y), nodeConfigs[2] select"}, nil},
		"had three, loses one":        {stored, xy, xyz, false, nil, []string{warning}},
		"values out of range":         {labels{slo.ColocationKey: `{"degradeTimeMinutes":0,"nodeConfigs":[` + selectX + `,` + selectY + `]}`}, xy, x, false, []string{conflict}, nil},
		"another entry is broken":     {labels{slo.ColocationKey: nodeConfigs(selectX, selectY, `{}`)}, xy, x, false, []string{conflict}, nil},
		"entries of different keys":   {labels{slo.ColocationKey: nodeConfigs(selectX), slo.HostAppKey: nodeConfigs(selectY)}, xy, x, false, nil, nil},
		"in a key that was unchecked": {labels{slo.HostAppKey: nodeConfigs(selectX, selectY)}, xy, x, false, []string{"host-application-config"}, nil},
	} {
		req := &admit.Request{Object: nodeWith(t, c.labels, c.deleting)}
		if c.old != nil {
			req.OldObject = nodeWith(t, c.old, false)
		}
		var config *slo.Config
		if c.config != nil {
			config = slo.Compile(c.config)
		}
		step := sloConflict(sloMap, func() (*slo.Config, error) { return config, nil })
		list, err := step.Run(t.Context(), req, admit.AsNode(req.Object))
		if err != nil {
			t.Fatal(err)
		}
		var problems []string
		for _, p := range list {
			problems = append(problems, p.Error())
		}
		sameParts(t, name+": problems", problems, c.want)
		sameParts(t, name+": warnings", req.Warnings(), c.warnings)
	}
}

// TestSLOConflictNotReady: the configuration is only needed if labels change; without it there is no guess.
func TestSLOConflictNotReady(t *testing.T) {
	step := sloConflict(sloMap, func() (*slo.Config, error) { return nil, admit.ErrNotReady })
	for value, wrong := range map[string]bool{"1": false, "2": true} {
		req := &admit.Request{Object: nodeWith(t, map[string]string{"a": value}, false), OldObject: nodeWith(t, map[string]string{"a": "1"}, false)}
		if _, err := step.Run(t.Context(), req, admit.AsNode(req.Object)); errors.Is(err, admit.ErrNotReady) != wrong {
			t.Errorf("label becomes %s: %v", value, err)
		}
	}
}
