package collections

import (
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
)

// NodeMetrics are how much of each node was used.
var NodeMetrics = &cluster.Collection[*api.NodeMetric]{
	Name: api.CollectionNodeMetrics, Kind: api.NodeMetricKind, Resource: api.NodeMetricResource.Resource, CRD: true,
	Keep: cluster.Keep(func(o *api.NodeMetric) *api.NodeMetric { return &api.NodeMetric{Status: o.Status} }),
}

// NodeMetric returns what was measured of a node. What is not there, or not yet, is not known: the caller must not wait.
func (q Questions) NodeMetric(node string) (metric *api.NodeMetric, known bool) {
	metric, known, err := NodeMetrics.Find(q.Now(), node)
	return metric, answered(err) && known
}
