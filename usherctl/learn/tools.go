package learn

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/usherctl/doctor"
	"usher.dev/usher/usherctl/policytest"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/tool"
	"usher.dev/usher/usherctl/webhookmatch"
)

// Tools has the functions that check lessons.
type Tools struct {
	Env      tool.Env // of the commands test and doctor
	Programs bool     // the learner's program may be built and run
	// Get returns an object of a cluster; nil if there is none. Without a cluster, the error is ErrNoCluster.
	Get func(ctx context.Context, path string) ([]byte, error)
}

// ToolsOf returns the tools that reach the cluster of a kubeconfig; without one, that of kubectl.
func ToolsOf(env tool.Env, kubeconfig string) Tools { return Tools{Env: env, Get: getFrom(kubeconfig)} }

// runCase runs one case whose files are in a folder, and returns what is not as expected.
func runCase(ctx context.Context, env tool.Env, folder string, document []byte) (differences []string, err error) {
	found, problems := policytest.Read(filepath.Join(folder, "check.case.yaml"), document)
	if len(problems) > 0 || len(found) != 1 {
		return nil, fmt.Errorf("the case of the lesson: %w", errors.Join(problems...))
	}
	program := policytest.Program{Suites: env.Suites, SuiteNames: env.Suites.Names(), Now: time.Now()}
	for _, r := range program.Run(ctx, found, func(int) {}) {
		for _, f := range r.Report.Findings {
			differences = append(differences, f.Message)
		}
		if r.Report.Exit() != report.Fine && len(differences) == 0 {
			differences = append(differences, string(r.Report.Verdict))
		}
		if r.Report.Verdict == report.Errored {
			return nil, Unreadable{Text: strings.Join(differences, "\n")}
		}
	}
	return differences, nil
}

// wronglyCalled returns for which object of a manifest the API server would call a webhook, or not, against what should be.
func wronglyCalled(ctx context.Context, env tool.Env, c Called, manifest []byte) (wrong string, err error) {
	source, err := reader.Files(c.Cluster)
	if err != nil {
		return "", err
	}
	examiner, err := doctor.ExaminerOf(ctx, env.Suites, source)
	if err != nil {
		return "", err
	}
	o := requests.Options{User: cmp.Or(c.As, "kubernetes-admin"), Namespace: "default"}
	o.Groups = requests.GroupsOf(o.User)
	documents := requests.Read(c.Manifest, bytes.NewReader(manifest))
	examiner.Learn(ctx, documents, o)
	for _, request := range c.Requests {
		operation, subresource, _ := strings.Cut(request, " ")
		o.Operation, o.SubResource = admissionv1.Operation(operation), subresource
		for _, d := range documents {
			if d.Err != nil {
				return "", fmt.Errorf("%s: %w", c.Manifest, d.Err)
			}
			if r := examiner.Examine(ctx, d, o); r.Kind != "Namespace" {
				if why, is := calledAs(r, c); !is {
					return fmt.Sprintf("%s %s %s: %s", r.Operation, r.Kind, strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"), why), nil
				}
			}
		}
	}
	return "", nil
}

// calledAs reports whether a webhook is called, or not, as it should be for the request of a report, and what is instead.
func calledAs(r report.Report, c Called) (why string, is bool) {
	for _, w := range r.Webhooks {
		switch {
		case w.Name != c.Webhook:
		case w.Filter == webhookmatch.Unknown:
			return "whether " + c.Webhook + " is called is not known: " + w.Why, false
		case w.Filter == webhookmatch.Refused:
			return "whether " + c.Webhook + " would be called is not seen: " + w.Why, false
		case w.Called:
			return c.Webhook + " is called", c.Is
		default:
			return c.Webhook + " is not called: " + w.Filter + ": " + w.Why, !c.Is
		}
	}
	return "no configuration has the webhook " + c.Webhook, false
}

// getFrom returns a function that reads objects of the cluster.
func getFrom(kubeconfig string) func(context.Context, string) ([]byte, error) {
	return func(ctx context.Context, path string) ([]byte, error) {
		config, err := apiserver.LoadConfig(kubeconfig, "")
		if err != nil {
			return nil, fmt.Errorf("%w; %w", err, ErrNoCluster)
		}
		client, err := apiserver.New(config)
		if err != nil {
			return nil, err
		}
		raw, err := client.Get(ctx, path)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return raw, err
	}
}
