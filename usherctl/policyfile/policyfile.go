// Package policyfile reads policies as usher does, and lets the API server's code validate what they add to pods. In a cluster, usher asks
// an API server.
package policyfile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/config"
	"usher.dev/usher/usherctl/engine"
)

// Load reads a policy, see config.Load.
func Load(ctx context.Context, file string, schema config.Schema) (*config.Policy, error) {
	raw, err := config.Content(file, schema)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	policy, problems := Parse(ctx, raw, schema)
	return policy, config.Refusal(cmp.Or(file, "embedded default"), problems)
}

// Parse reads a policy, see config.Parse.
func Parse(ctx context.Context, raw []byte, schema config.Schema) (*config.Policy, []error) {
	policy, problems := config.Parse(raw, schema)
	if len(problems) > 0 {
		return nil, problems
	}
	if problems = Problems(ctx, policy); len(problems) > 0 {
		return nil, problems
	}
	return policy, nil
}

// Problems returns why an API server would refuse what a policy adds to pods.
func Problems(ctx context.Context, policy *config.Policy) (problems []error) {
	if len(policy.Trials()) == 0 {
		return nil
	}
	e, err := engine.New(ctx, engine.Cluster{})
	if err != nil {
		return []error{err}
	}
	defer e.Close()
	return ProblemsBy(ctx, e, policy)
}

// ProblemsBy returns why an API server that is empty would refuse what a policy adds to pods.
func ProblemsBy(ctx context.Context, e *engine.Engine, policy *config.Policy) (problems []error) {
	for _, t := range policy.Trials() {
		text, err := json.Marshal(t.Pod)
		if err != nil {
			return append(problems, err)
		}
		v := e.Judge(ctx, engine.Request{Operation: admissionv1.Create, Object: text})
		if v.Allowed() {
			continue
		}
		found := t.Problems(*v.Refusal)
		if len(found) == 0 {
			found = []error{errors.New(t.Section + ": " + v.Refusal.Message)}
		}
		problems = append(problems, found...)
	}
	return problems
}
