package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sirupsen/logrus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/cluster"
	"usher.dev/usher/command/doctor"
	"usher.dev/usher/command/explain"
	"usher.dev/usher/command/review"
	"usher.dev/usher/config"
	"usher.dev/usher/server/suite"
)

// syncTime is how long the state of the cluster may take to arrive.
const syncTime = 15 * time.Second

// reviewNow reviews the pod that a controller would create for a workload, through all routes and with the state of the
// cluster. It is a dry run: nothing is written.
func (p Program) reviewNow(ctx context.Context, o explainOptions, in explain.Cluster, policy *config.Policy, workload []byte) ([]review.Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opened, err := p.openNow(ctx, o)
	if err != nil {
		return nil, err
	}
	run := reviewing{Program: p, kinds: review.NewCatalogue(p.Suites.Table(suite.NoPolicy, o.gates))}
	run.o.explain = true
	run.o.Options = review.Options{Operation: admissionv1.Create, Namespace: in.Namespace, User: "kubernetes-admin", Groups: review.GroupsOf("kubernetes-admin"), DryRun: true}
	run.routes = p.Suites.Routes(policy, o.gates, suite.Around(opened, time.Now))
	for i := range run.routes {
		run.routes[i].Chain = run.routes[i].Chain.Explained()
	}
	namespaces := doctor.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), Resource: "namespaces"}
	namespace, err := in.Source.Get(ctx, namespaces, "", in.Namespace)
	if err != nil {
		return nil, err
	}
	pods := review.WithPods([]review.Document{{Source: "as of now", JSON: workload}}, nil, run.o.Options, func(*unstructured.Unstructured) bool { return false })
	return run.reportAll(ctx, pods, review.Document{JSON: namespace})
}

// openNow opens the state of the cluster, and waits until it has arrived.
func (p Program) openNow(ctx context.Context, o explainOptions) (*cluster.Cluster, error) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	opened, err := p.Suites.Open("api", o.gates, log, o.clusterSource.open)
	if err != nil {
		return nil, err
	}
	go opened.Run(ctx)
	ctx, cancel := context.WithTimeout(ctx, syncTime)
	defer cancel()
	for opened.Ready() != nil {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the pod could not be reviewed as of now: %w", errors.Join(append(opened.Problems(), opened.Ready())...))
		case <-time.After(20 * time.Millisecond):
		}
	}
	return opened, nil
}
