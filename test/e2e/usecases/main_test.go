// Package usecases tests the steps that read Namespaces against a real API server, which usher watches with the rights
// of its ServiceAccount. Each test has a policy of its own, and registers usher for what that policy asks for.
package usecases

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster *kubetest.Cluster
	usher   *kubetest.Usher
)

func TestMain(m *testing.M) { kubetest.Main(m, kubetest.Options{}, start) }

func start(ctx context.Context, c *kubetest.Cluster) (err error) {
	cluster = c
	options, err := cluster.Watching(kubetest.UsherOptions{Policy: "{}"})
	if err != nil {
		return err
	}
	usher, err = cluster.StartUsher(ctx, options)
	return err
}

// use makes usher serve a policy of the samples, and registers it for what the policy asks for.
func use(ctx context.Context, t *testing.T, policy string) {
	t.Helper()
	text, err := kubetest.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	useText(ctx, t, text)
}

// useText is use for a policy of the test.
func useText(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	log := usher.Replicas[0].Process()
	before := loads(log.Log())
	if err := usher.SetPolicy(text); err != nil {
		t.Fatal(err)
	}
	if err := kubetest.Eventually(ctx, func(context.Context) error {
		if loads(log.Log()) == before {
			return fmt.Errorf("usher does not apply the policy\n%s", text)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := usher.Register(ctx); err != nil {
		t.Fatal(err)
	}
}

func loads(log string) int { return strings.Count(log, `"msg":"policy in force"`) }

// namespace creates a namespace that has opted in. It remains, because deletion needs the controller manager; tests
// share it.
func namespace(ctx context.Context, t *testing.T, name string, labels, annotations kubetest.Object) {
	t.Helper()
	all := kubetest.Object{"admission-webhook": "enabled"}
	maps.Copy(all, labels)
	_, err := cluster.Admin().Create(ctx, "/api/v1/namespaces",
		kubetest.Object{"metadata": kubetest.Object{"name": name, "labels": all, "annotations": annotations}})
	var refused *kubetest.StatusError
	if err != nil && (!errors.As(err, &refused) || refused.Code != 409) {
		t.Fatal(err)
	}
}
