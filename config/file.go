package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"usher.dev/usher/poll"
)

// maxFile bounds a policy file in bytes: a ConfigMap holds no more.
const maxFile = 1 << 20

// Load reads a policy once, from a file or a pipe; an empty name gives the embedded default. The error lists every problem, a line each.
func Load(file string, schema Schema) (*Policy, error) {
	if file == "" {
		return parsed("embedded default", schema.DefaultYAML(), schema)
	}
	opened, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer func() { _ = opened.Close() }()
	raw, err := io.ReadAll(io.LimitReader(opened, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("policy: %s: larger than %d MiB", file, maxFile>>20)
	}
	return parsed(file, raw, schema)
}

// Open is Load for Watch, which goes on from the sum: a regular file, that can be read again.
func Open(file string, schema Schema) (*Policy, poll.Sum, error) {
	if file == "" {
		policy, err := Load(file, schema)
		return policy, poll.Sum{}, err
	}
	raw, sum, err := read(file)
	if err != nil {
		return nil, poll.Sum{}, err
	}
	policy, err := parsed(file, raw, schema)
	return policy, sum, err
}

// Watch reads the file again and again until ctx ends and calls changed with what a new content gives: a policy, or an error with a
// nil policy. inForce is what Open gave. See poll.Changes for when a content is new; a file that cannot be read is reported once
// for each new error, and then the policy in force once more when it is back.
func Watch(ctx context.Context, file string, times poll.Times, inForce poll.Sum, schema Schema, changed func(*Policy, error)) {
	poll.Changes(ctx, times, inForce, func() ([]byte, poll.Sum, error) { return read(file) }, func(raw []byte, err error) {
		var policy *Policy
		if err == nil {
			policy, err = parsed(file, raw, schema)
		}
		changed(policy, err)
	})
}

func read(file string) ([]byte, poll.Sum, error) {
	raw, err := poll.ReadFile(file, maxFile)
	if err != nil {
		return nil, poll.Sum{}, fmt.Errorf("policy: %w", err)
	}
	return raw, poll.SumOf(raw), nil
}

func parsed(name string, raw []byte, schema Schema) (*Policy, error) {
	policy, problems := Parse(raw, schema)
	if len(problems) > 0 {
		return nil, fmt.Errorf("policy %s:\n  %w", name, errors.Join(indent(problems)...))
	}
	return policy, nil
}

// indent puts each problem but the first on an indented line of its own.
func indent(problems []error) []error {
	for i := 1; i < len(problems); i++ {
		problems[i] = fmt.Errorf("  %w", problems[i])
	}
	return problems
}
