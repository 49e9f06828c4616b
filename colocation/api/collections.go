package api

// The names of the collections of Kubernetes' own objects that steps of the colocation suite need, beside admit.CollectionNamespaces; those of
// CRDs stand beside their types. Logs and metrics print them.
const (
	CollectionPriorityClasses = "priorityclasses"
	CollectionPods            = "pods" // their labels and annotations
	CollectionNodes           = "nodes"
	CollectionLabelRules      = "enhancedrules" // of the ConfigMap of the enhanced pod validator
	CollectionSLOConfig       = "sloconfig"     // the ConfigMap
	CollectionPodRequests     = "podrequests"   // what is counted of pods
)
