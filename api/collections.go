package api

// The names of the collections of the cluster that steps of the colocation suite need, beside admit.CollectionNamespaces. Logs and metrics print them.
const (
	CollectionPriorityClasses      = "priorityclasses"
	CollectionColocationProfiles   = "clustercolocationprofiles"
	CollectionReservations         = "reservations"
	CollectionPods                 = "pods" // their labels and annotations
	CollectionNodes                = "nodes"
	CollectionLabelRules           = "enhancedrules" // of the ConfigMap of the enhanced pod validator
	CollectionSLOConfig            = "sloconfig"     // the ConfigMap
	CollectionNodeMetrics          = "nodemetrics"
	CollectionPodRequests          = "podrequests" // what is counted of pods
	CollectionElasticQuotas        = "elasticquotas"
	CollectionElasticQuotaProfiles = "elasticquotaprofiles"
)
