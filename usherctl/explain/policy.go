package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/server/installed"
	"usher.dev/usher/usherctl/doctor"
	"usher.dev/usher/usherctl/policyfile"
	"usher.dev/usher/usherctl/steps"
	"usher.dev/usher/usherctl/tool"
	"usher.dev/usher/usherctl/webhookmatch"
)

// policyFile is a policy and the file that it is from.
type policyFile struct {
	*config.Policy
	name string
	text []byte
}

// readPolicy reads the policy of a file, or the embedded one.
func readPolicy(ctx context.Context, env tool.Env, file string) (policyFile, error) {
	schema := env.Suites.Schema()
	f := policyFile{name: cmp.Or(file, "embedded-policy")}
	var err error
	if f.text, err = config.Content(file, schema); err != nil {
		return f, fmt.Errorf("--config: %w", err)
	}
	return f, f.parse(ctx, schema)
}

func (f *policyFile) parse(ctx context.Context, schema config.Schema) error {
	policy, problems := policyfile.Parse(ctx, f.text, schema)
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
	line, entry := PolicyLine(f.text, section, text)
	where := fmt.Sprintf("policy: %s:%d, section %s", f.name, line, section)
	if line == 0 {
		return fmt.Sprintf("policy: %s, which may not be the one in force, does not set section %s", f.name, section)
	}
	if named := ruleNamed(text); named != "" && named != entry {
		if known := entryNames(f.text, section); len(known) > 0 && !slices.Contains(known, named) {
			return fmt.Sprintf("policy: %s:%d, section %s, which has no entry %s%s: the policy in force may be another", f.name, line, section, named,
				nearest.Question(named, known))
		}
	}
	if entry != "" {
		where += ", " + entry
	}
	return where
}

// knownPolicy returns what refusals are explained by: the policy, which only those of usher need, and the webhooks of the cluster, if
// there is one.
func knownPolicy(ctx context.Context, env tool.Env, o options, refusals []Refusal) (by Policy, err error) {
	var source reader.Source
	if o.inCluster() {
		if source, err = o.clusterSource.OpenSource(); err != nil {
			return by, err
		}
	}
	var policy policyFile
	if o.clusterSource.Source == "api" {
		policy, err = policyOf(ctx, env, &o, source)
	} else {
		policy, err = readPolicy(ctx, env, o.config)
	}
	switch {
	case err == nil:
		by = explainedBy(env, policy, o.gates)
	case o.config != "" || !o.inCluster():
		return by, fmt.Errorf("the policy could not be read: %w; --config FILE names it", err)
	case slices.ContainsFunc(refusals, func(r Refusal) bool { return r.By == ByUsher }):
		unread := err
		if policy, err = readPolicy(ctx, env, ""); err != nil {
			return by, err
		}
		by = explainedBy(env, policy, o.gates)
		by.Unread = unread
	}
	if o.inCluster() {
		by.Hooks = hooksOf(ctx, source)
	}
	return by, nil
}

// hooksOf returns the webhooks of a cluster, as far as they can be read.
func hooksOf(ctx context.Context, source reader.Source) func() []webhookmatch.Hook {
	return func() []webhookmatch.Hook {
		hooks, _ := doctor.Hooks(ctx, source) // without, a command is printed that lists them
		return hooks
	}
}

// explainedBy returns a policy as refusals are explained by it.
func explainedBy(env tool.Env, policy policyFile, gates gate.Set) Policy {
	return Policy{Policy: policy.Policy, Routes: env.Suites.Table(policy.Policy, gates), Line: policy.line,
		Override: steps.OverrideText}
}

// policyOf returns the policy of --config or of the installed usher, whose gates are used unless --feature-gates is set.
func policyOf(ctx context.Context, env tool.Env, o *options, source reader.Source) (policyFile, error) {
	if o.config != "" {
		return readPolicy(ctx, env, o.config)
	}
	namespace, name, ok := strings.Cut(o.service, "/")
	if !ok {
		return policyFile{}, fmt.Errorf("--service %s: must be namespace/name", o.service)
	}
	usher, err := installed.Find(ctx, source, namespace, name)
	if err != nil {
		return policyFile{}, err
	}
	policy := policyFile{name: usher.Name, text: usher.Text}
	switch {
	case usher.Name != "":
		err = policy.parse(ctx, env.Suites.Schema())
	case usher.Flag("config") != "":
		return policyFile{}, errors.New("the Deployment's --config is not of a ConfigMap")
	default:
		policy, err = readPolicy(ctx, env, "")
	}
	if gates := usher.Flag("feature-gates"); err == nil && gates != "" && !o.gatesSet {
		o.gates, err = env.Suites.ParseGates(gates)
	}
	return policy, err
}
