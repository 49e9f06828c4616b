package collections

import (
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
)

// NodeMetrics holds the measured usage of all nodes.
var NodeMetrics = &cluster.Collection[*api.NodeMetric]{
	Name: api.CollectionNodeMetrics, Kind: api.NodeMetricKind, Resource: api.NodeMetricResource.Resource, CRD: true,
	Keep: cluster.Keep(func(o *api.NodeMetric) *api.NodeMetric { return &api.NodeMetric{Status: o.Status} }),
}

// NodeMetric returns the measurements of a node. known is false if there are none, or none yet: the caller must not
// wait.
func (q Questions) NodeMetric(node string) (metric *api.NodeMetric, known bool) {
	metric, known, err := NodeMetrics.Find(q.Now(), node)
	return metric, answered(err) && known
}
