package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"usher.dev/usher/internal/poll"
)

// Load reads a policy once, from a file or a pipe; an empty name stands for the embedded default. The error lists all
// problems, one per line.
func Load(file string, schema Schema) (*Policy, error) {
	raw, err := Content(file, schema)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return parsed(cmp.Or(file, "embedded default"), raw, schema)
}

// Content returns the content of a policy file, or of the embedded default for an empty name.
func Content(file string, schema Schema) ([]byte, error) {
	if file == "" {
		return schema.DefaultYAML(), nil
	}
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }()
	raw, err := io.ReadAll(io.LimitReader(opened, MaxFile+1))
	if err == nil && len(raw) > MaxFile {
		err = fmt.Errorf("%s: larger than %d MiB", file, MaxFile>>20)
	}
	return raw, err
}

// Open is Load for a caller of Watch, which needs the returned sum. The file must be regular, because it is read again.
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

// Watch reads the file repeatedly until ctx ends, and calls changed for each new content: with a policy, or with a nil
// policy and an error. inForce is the sum that Open returned. See poll.Changes for when a content is new. If the file
// cannot be read, each new error is reported once; when it can be read again, the current policy is reported once more.
func Watch(ctx context.Context, file string, times poll.Times, inForce poll.Sum, schema Schema, changed func(*Policy, error)) {
	poll.Changes(ctx, times, inForce, func() ([]byte, poll.Sum, error) { return read(file) }, func(raw []byte, err error) {
		var policy *Policy
		if err == nil {
			policy, err = reparsed(file, raw, schema)
		}
		changed(policy, err)
	})
}

// reparsed is parsed for a server that runs: a bug that a new policy meets must not end it.
func reparsed(name string, raw []byte, schema Schema) (policy *Policy, err error) {
	defer func() {
		if bug := recover(); bug != nil {
			policy, err = nil, fmt.Errorf("policy %s: cannot be checked, which is a bug of usher: %v", name, bug)
		}
	}()
	return parsed(name, raw, schema)
}

func read(file string) ([]byte, poll.Sum, error) {
	raw, err := poll.ReadFile(file, MaxFile)
	if err != nil {
		return nil, poll.Sum{}, fmt.Errorf("policy: %w", err)
	}
	return raw, poll.SumOf(raw), nil
}

func parsed(name string, raw []byte, schema Schema) (*Policy, error) {
	policy, problems := Parse(raw, schema)
	return policy, Refusal(name, problems)
}

// Refusal returns the error for a policy with problems, a line for each; nil without any.
func Refusal(name string, problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("policy %s:\n  %w", name, errors.Join(indent(problems)...))
}

// indent indents each problem but the first.
func indent(problems []error) []error {
	for i := 1; i < len(problems); i++ {
		problems[i] = fmt.Errorf("  %w", problems[i])
	}
	return problems
}
