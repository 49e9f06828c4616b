package api

// LabelRule is a rule of the enhanced pod validator's ConfigMap: labels that pods must have, with a value or without.
type LabelRule struct {
	// Name is shown to the user. Several rules may share one.
	Name string `json:"name"`
	// RequiredLabels are the labels' keys.
	RequiredLabels []string `json:"requiredLabels"`
	// NamespaceWhitelist are the namespaces that the rule leaves alone.
	NamespaceWhitelist []string `json:"namespaceWhitelist"`
}
