package command

import (
	"cmp"
	"errors"
	"fmt"

	"usher.dev/usher/command/explain"
	"usher.dev/usher/config"
)

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

// line returns where the policy has a section, such as policy.yaml:12, and its entry that a text names; "" without a
// section.
func (f *policyFile) line(section, text string) string {
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
