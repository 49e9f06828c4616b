package kubetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// Main is the TestMain of a package whose tests share one control plane. It starts the control plane, calls start with
// it, runs the tests, and ends everything that was started in the cluster. It never returns.
func Main(m *testing.M, o Options, start func(context.Context, *Cluster) error) {
	flag.Parse()
	code, err := runIn(m, o, start)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runIn(m *testing.M, o Options, start func(context.Context, *Cluster) error) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	c, err := Start(ctx, o)
	if err != nil {
		return 0, fmt.Errorf("the end-to-end tests cannot start: %w", err)
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if err := start(ctx, c); err != nil {
		return 0, fmt.Errorf("%s\nthe end-to-end tests cannot start: %w", c.Logs(15), err)
	}
	return m.Run(), nil
}

// Within returns the context of a test with a time limit. If the test fails, it prints the last lines of the logs of
// the API server and of usher.
func (c *Cluster) Within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Log("\n" + c.LogsOf(10, "kube-apiserver", "usher"))
		}
	})
	return ctx
}

// MustApply applies a manifest, and fails the test if the API server refuses.
func (c *Cluster) MustApply(ctx context.Context, t *testing.T, manifest string) {
	t.Helper()
	if err := c.Apply(ctx, manifest); err != nil {
		t.Fatal(err)
	}
}

// DeleteAfter deletes the objects at paths when the test has ended.
func (c *Cluster) DeleteAfter(t *testing.T, paths ...string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for _, path := range paths {
			_, _ = c.Admin().Delete(ctx, path)
		}
	})
}

// RefusedWith fails the test unless err is a refusal by the API server that contains the texts.
func RefusedWith(t *testing.T, err error, texts ...string) {
	t.Helper()
	var refused *StatusError
	if !errors.As(err, &refused) {
		t.Fatalf("not refused: %v", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("it does not say %q: %v", text, err)
		}
	}
}
