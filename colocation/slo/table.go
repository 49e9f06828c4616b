package slo

import (
	"maps"

	"usher.dev/usher/colocation/api"
)

// table describes a data key.
type table struct {
	key      string
	cluster  string // the member with the cluster's strategy; empty: its fields are next to the list
	list     string // the member with the entries
	strategy fields
	pairs    []pair
	all      fields // the whole configuration, built from the other fields
}

// tables are in the order in which problems are reported.
var tables = prepared([]table{
	{key: ColocationKey, list: "nodeConfigs", strategy: colocationStrategy},
	{key: ThresholdKey, cluster: "clusterStrategy", list: "nodeStrategies", strategy: thresholdStrategy, pairs: thresholdPairs},
	{key: QoSKey, cluster: "clusterStrategy", list: "nodeStrategies", strategy: qosStrategy, pairs: qosPairs},
	{key: SystemKey, cluster: "clusterStrategy", list: "nodeStrategies", strategy: systemStrategy},
	{key: CPUBurstKey, cluster: "clusterStrategy", list: "nodeStrategies", strategy: burstStrategy},
	{key: HostAppKey, list: "nodeConfigs", strategy: hostApplications},
	{key: NormalizationKey, list: "nodeConfigs", strategy: normalizationStrategy},
	{key: AmplificationKey, list: "nodeConfigs", strategy: amplificationStrategy},
})

func prepared(list []table) []table {
	for i := range list {
		t := &list[i]
		t.all = t.shape()
	}
	return list
}

// shape builds the rule of the whole configuration.
func (t *table) shape() fields {
	entry := maps.Clone(t.strategy)
	entry["name"], entry["nodeSelector"] = text{}, nodeSelector
	all := fields{t.cluster: t.strategy}
	if t.cluster == "" {
		all = maps.Clone(t.strategy)
	}
	all[t.list] = list{entry}
	return all
}

// read returns the configuration in a text, with its members named as in the tables; nil if there is none.
func (t *table) read(text string, found *finding) map[string]any {
	if text == "" {
		return nil
	}
	folded, warnings := api.Fold(found.path(), text, namesIn(t.all))
	for _, w := range warnings {
		found.warnf("%s", w)
	}
	value, err := api.ParseJSONText[any](folded)
	switch {
	case err != nil:
		found.invalid(found.path(), text, "%v; write a JSON object, or remove the key", err)
		return nil
	case value == nil:
		found.warnf("%s: null is nothing: the defaults count; remove the key", found.path())
		return nil
	}
	t.all.check(found, found.path(), value)
	tree, _ := value.(map[string]any)
	return tree
}

// clusterOf returns the strategy for nodes that no entry selects; nil if there is none.
func (t *table) clusterOf(tree map[string]any) map[string]any {
	if t.cluster == "" {
		return tree
	}
	strategy, _ := tree[t.cluster].(map[string]any)
	return strategy
}
