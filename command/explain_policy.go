package command

import (
	"cmp"
	"errors"
	"fmt"

	"usher.dev/usher/command/explain"
	"usher.dev/usher/config"
)

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
	case "quota-selection", "quota-authority":
		return "quotas"
	case "node-amplification":
		return "nodeAmplification"
	}
	return ""
}

// policyFile is a policy and the file that it is from.
type policyFile struct {
	*config.Policy
	name string
	text []byte
}

// readPolicy reads the policy of a file, or the embedded one.
func (p Program) readPolicy(file string) (policyFile, error) {
	schema := p.Suites.Schema()
	f := policyFile{name: cmp.Or(file, "embedded-policy")}
	var err error
	if f.text, err = config.Content(file, schema); err != nil {
		return f, fmt.Errorf("--config: %w", err)
	}
	return f, f.parse(schema)
}

func (f *policyFile) parse(schema config.Schema) error {
	policy, problems := config.Parse(f.text, schema)
	if len(problems) > 0 {
		return fmt.Errorf("%s: %w", f.name, errors.Join(problems...))
	}
	f.Policy = policy
	return nil
}

// line returns where the policy has what a step does, such as policy.yaml:12, and the entry that a text names.
func (f *policyFile) line(step, text string) string {
	section := sectionOf(step)
	if section == "" {
		return ""
	}
	line, entry := explain.PolicyLine(f.text, section, text)
	where := fmt.Sprintf("policy: %s:%d, section %s", f.name, line, section)
	if line == 0 {
		where = fmt.Sprintf("policy: %s, section %s", f.name, section)
	}
	if entry != "" {
		where += ", " + entry
	}
	return where
}
