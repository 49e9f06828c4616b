package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// maxFile bounds a policy file in bytes: a ConfigMap holds no more.
const maxFile = 1 << 20

// Load reads a policy file; an empty name gives the embedded default. The error lists every problem, a line each.
func Load(file string, steps []string) (*Policy, []byte, error) {
	raw := DefaultYAML()
	if file != "" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, nil, fmt.Errorf("policy: %w", err)
		}
		defer func() { _ = opened.Close() }()
		if raw, err = io.ReadAll(io.LimitReader(opened, maxFile+1)); err != nil {
			return nil, nil, fmt.Errorf("policy: %w", err)
		}
	} else {
		file = "embedded default"
	}
	if len(raw) > maxFile {
		return nil, raw, fmt.Errorf("policy %s: larger than 1 MiB", file)
	}
	policy, problems := Parse(raw, steps)
	if len(problems) > 0 {
		return nil, raw, fmt.Errorf("policy %s:\n  %w", file, errors.Join(indent(problems)...))
	}
	return policy, raw, nil
}

// indent puts each problem but the first on an indented line of its own.
func indent(problems []error) []error {
	for i := 1; i < len(problems); i++ {
		problems[i] = fmt.Errorf("  %w", problems[i])
	}
	return problems
}

// Watch reads the file every so often until ctx ends and calls changed with what a new content gives: a policy, or an error
// with a nil policy. Contents are compared, not times, so that a ConfigMap volume's symlink swap is seen. raw is the content
// that is in force. A file that cannot be read is reported once for each new error.
func Watch(ctx context.Context, file string, raw []byte, steps []string, every time.Duration, changed func(*Policy, error)) {
	lastError := ""
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		policy, now, err := Load(file, steps)
		switch {
		case err != nil && err.Error() != lastError:
			lastError = err.Error()
			changed(nil, err)
		case err == nil && (!bytes.Equal(now, raw) || lastError != ""):
			raw, lastError = now, ""
			changed(policy, nil)
		}
	}
}
