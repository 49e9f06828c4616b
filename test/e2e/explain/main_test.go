// Package explain tests `usherctl explain` in a real control plane: who changed a pod, with webhooks of others around
// usher's, and why no pods appear.
//
//	authors_test.go  50 pods, three webhooks: each operation has its author, and nothing is called exact that is not
//	refused_test.go  Deployments whose pods are refused
//	foreign_test.go  the webhooks of others
//	later_test.go    Deployments whose ReplicaSet or binding is refused, or that are paused
//	replay_test.go   usherctl review --audit-log: the requests of the audit log under another policy
package explain

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"testing"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster  *kubetest.Cluster
	usher    *kubetest.Usher
	usherctl string // its path
)

func TestMain(m *testing.M) {
	kubetest.Main(m, kubetest.Options{Scheduler: true, ControllerManager: true, AuditLevel: "RequestResponse"}, start)
}

func start(ctx context.Context, c *kubetest.Cluster) (err error) {
	cluster = c
	if usherctl, err = c.BuildUsherctl(ctx); err != nil {
		return err
	}
	if err := cluster.ApplyDeploy(ctx, "deploy/crds"); err != nil {
		return err
	}
	usher, err = cluster.StartUsher(ctx, kubetest.UsherOptions{Flags: []string{"--cluster=api", "--kubeconfig=" + cluster.AdminKubeconfig(), "--feature-gates=" + gates}})
	if err != nil {
		return err
	}
	if err := cluster.ApplyDeploy(ctx, "deploy/base"); err != nil {
		return err
	}
	return register(ctx, "core,colocation")
}

// register registers usher for the routes of suites.
func register(ctx context.Context, suites string) error {
	configurations, err := usher.Run(ctx, "webhooks", "--suite="+suites, "--feature-gates="+gates, "--url="+usher.URL, "--ca-file="+usher.CAFile)
	if err != nil {
		return err
	}
	return usher.RegisterThese(ctx, configurations)
}

const gates = "EnableQuotaAdmission=true"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// report is the part of usherctl explain's JSON that the tests read.
type report struct {
	Source, Kind, Namespace, Name, Operation, Verdict, Hint string
	Calls                                                   []call
	Findings                                                []struct{ ID, Severity, Message, Object string }
	Blame                                                   []struct {
		Field  string
		By     struct{ Webhook string }
		Former []struct{ Webhook string }
	}
}

type call struct {
	Webhook, Configuration, Outcome, Known, Refusal, Message, Path string
	Round                                                          int
	Patch                                                          json.RawMessage
	Changes                                                        []string
	After                                                          json.RawMessage
}

// explain runs usherctl explain, and returns what it prints and its exit code.
func explain(ctx context.Context, t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	command := exec.CommandContext(ctx, usherctl, append([]string{"explain"}, args...)...)
	raw, err := command.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(raw) + string(failed.Stderr), failed.ExitCode()
	}
	must(t, err)
	return string(raw), 0
}

func reports(ctx context.Context, t *testing.T, args ...string) (all []report) {
	t.Helper()
	command := exec.CommandContext(ctx, usherctl, append([]string{"explain", "-o", "json"}, args...)...)
	raw, err := command.Output()
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	if failed, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err, failed)
	}
	return all
}
