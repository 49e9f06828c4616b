package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/doctor"
	"usher.dev/usher/command/learn"
	"usher.dev/usher/command/policytest"
	"usher.dev/usher/command/review"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/server/suite"
)

// learnTools returns what lessons are checked with: the same as the commands test and doctor.
func (p Program) learnTools(kubeconfig string) learn.Tools {
	return learn.Tools{Case: p.learnCase, Called: p.learnCalled, Doctor: p.learnDoctor, Get: learnGet(kubeconfig)}
}

// learnCase runs one case whose files are in a folder.
func (p Program) learnCase(ctx context.Context, folder string, document []byte) (differences []string, err error) {
	found, problems := policytest.Read(filepath.Join(folder, "check.case.yaml"), document)
	if len(problems) > 0 || len(found) != 1 {
		return nil, fmt.Errorf("the case of the lesson: %w", errors.Join(problems...))
	}
	program := policytest.Program{Suites: p.NewSuites().WithDefaults(), NotCalled: notCalled(), SuiteNames: p.Suites.Names(), Now: time.Now()}
	for _, r := range program.Run(ctx, found, func(int) {}) {
		for _, f := range r.Report.Findings {
			differences = append(differences, f.Message)
		}
		if r.Report.Exit() != review.Fine && len(differences) == 0 {
			differences = append(differences, string(r.Report.Verdict))
		}
		if r.Report.Verdict == review.NotJudged {
			return nil, learn.Unreadable{Text: strings.Join(differences, "\n")}
		}
	}
	return differences, nil
}

// learnCalled returns whether the API server would call a webhook.
func (p Program) learnCalled(ctx context.Context, c learn.Called) (is bool, why string, err error) {
	source, err := reader.Files(c.Cluster)
	if err != nil {
		return false, "", err
	}
	kinds := review.NewCatalogue(p.Suites.Table(suite.NoPolicy, gate.Defaults(p.Suites.Gates())))
	examiner, err := doctor.NewExaminer(ctx, source, kinds)
	if err != nil {
		return false, "", err
	}
	o := review.Options{Operation: admissionv1.Create, User: "kubernetes-admin", Namespace: "default"}
	if c.Operation != "" {
		o.Operation = admissionv1.Operation(c.Operation)
	}
	if c.As != "" {
		o.User = c.As
	}
	o.Groups = review.GroupsOf(o.User)
	documents := p.readFile(c.Manifest)
	for _, d := range documents {
		if d.Err != nil {
			return false, "", d.Err
		}
		for _, w := range examiner.Examine(ctx, d, o).Webhooks {
			if w.Name == c.Webhook {
				return w.Called, strings.TrimSpace(w.Filter + ": " + w.Why), nil
			}
		}
	}
	return false, "no configuration has the webhook", nil
}

// learnDoctor returns the ids of the findings in the cluster that a folder stands for.
func (p Program) learnDoctor(ctx context.Context, cluster string) (ids []string, err error) {
	p.Suites = p.NewSuites().WithDefaults()
	reports, err := p.examine(ctx, doctorOptions{service: "usher/usher", clusterSource: clusterFlags{source: "files", dir: cluster}})
	if err != nil {
		return nil, err
	}
	for _, r := range reports {
		for _, f := range r.Findings {
			ids = append(ids, f.ID)
		}
	}
	return ids, nil
}

// learnGet returns a function that reads objects of the cluster.
func learnGet(kubeconfig string) func(context.Context, string) ([]byte, error) {
	return func(ctx context.Context, path string) ([]byte, error) {
		config, err := apiserver.LoadConfig(kubeconfig, "")
		if err != nil {
			return nil, fmt.Errorf("%w; %w", err, learn.ErrNoCluster)
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
