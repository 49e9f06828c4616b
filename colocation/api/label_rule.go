package api

// LabelRule is a rule of the enhanced pod validator's ConfigMap: labels that pods must have, with or without a value.
type LabelRule struct {
	// Name is shown to users. Several rules may have the same name.
	Name string `json:"name"`
	// RequiredLabels are the keys of the labels.
	RequiredLabels []string `json:"requiredLabels"`
	// NamespaceWhitelist are the namespaces that the rule does not apply to.
	NamespaceWhitelist []string `json:"namespaceWhitelist"`
}
