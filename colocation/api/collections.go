package api

// The names of the collections of built-in objects that steps of the colocation suite need, besides
// admit.CollectionNamespaces. The names of CRDs are next to their types. Logs and metrics print these names.
const (
	CollectionPriorityClasses = "priorityclasses"
	CollectionPods            = "pods" // keys of labels and annotations of pods
	CollectionNodes           = "nodes"
	CollectionLabelRules      = "enhancedrules" // the ConfigMap of the enhanced pod validator
	CollectionSLOConfig       = "sloconfig"     // the ConfigMap of the SLO configuration
	CollectionPodRequests     = "podrequests"   // what quotas and nodes count of pods
	CollectionClaimTemplates  = "resourceclaimtemplates"
)
