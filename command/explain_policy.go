package command

// sectionOf returns the section of the policy file that a step obeys; "" for a step that has none: it obeys objects of
// the cluster, or rules that are fixed.
func sectionOf(step string) string {
	switch step {
	case "denied-names":
		return "names"
	case "environment":
		return "env"
	case "lifespan", "sidecars", "overcommit", "restrictions", "rules", "binding":
		return step
	case "label-defaults":
		return "labelDefaults"
	case "label-rules":
		return "labelRules"
	case "node-selector", "node-selector-limits":
		return "nodeSelector"
	case "sidecars-present":
		return "sidecars"
	case "image-rules":
		return "imageRules"
	case "requests-from-limits":
		return "requestsFromLimits"
	case "restrictions-kept":
		return "restrictions"
	case "node-name", "binding-bypass", "binding-labels":
		return "binding"
	case "node-amplification":
		return "nodeAmplification"
	}
	return ""
}
