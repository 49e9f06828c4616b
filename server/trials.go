package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"usher.dev/usher/config"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/internal/metric"
	"usher.dev/usher/internal/printable"
)

// A trial waits for its answer for trialLimit. Without one it is repeated, after trialAgain at first, and after trialSeldom in the end.
const (
	trialLimit  = 2 * time.Second
	trialAgain  = time.Second
	trialSeldom = 5 * time.Minute
)

// trials has an API server validate what policies add to pods: usher's own checks do not repeat its rules.
type trials struct {
	create    func(pod []byte) error // in a dry run; nil without an API server
	log       logrus.FieldLogger
	validated prometheus.Gauge
	inForce   chan judgement // on the policy in force, if run has not read it yet
}

// judgement is what an API server says of a policy.
type judgement struct {
	of      []config.Trial
	asked   bool
	refused []error // why it is invalid
	unsure  error   // why it is not known to be valid
}

func newTrials(log logrus.FieldLogger) *trials {
	return &trials{log: log, inForce: make(chan judgement, 1), validated: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "usher_policy_sidecars_validated",
		Help: "1 if the API server accepts what the policy in force adds to pods, or it adds nothing; 0 if it is refused, or not judged."})}
}

// openTrials prepares trials in usher's own namespace, which no webhook of usher is called for, until ctx ends.
func (s *service) openTrials(ctx context.Context) error {
	if s.Cluster.From == "api" {
		reached, err := apiserver.LoadConfig(s.Cluster.Kubeconfig, "")
		if err != nil {
			return err
		}
		client, err := apiserver.New(reached)
		if err != nil {
			return err
		}
		namespace, _, _ := strings.Cut(cmp.Or(s.Certificates.Service, "usher/usher"), "/")
		s.trials.create = func(pod []byte) error {
			ctx, cancel := context.WithTimeout(ctx, trialLimit)
			defer cancel()
			_, err := client.DryCreate(ctx, "/api/v1/namespaces/"+namespace+"/pods", pod)
			return err
		}
	}
	go s.trials.run(ctx)
	return nil
}

// judge has what a policy adds to pods judged.
func (t *trials) judge(of []config.Trial) judgement {
	j := judgement{of: of, asked: true}
	for i := range of {
		refused, unsure := t.try(&of[i])
		j.refused = append(j.refused, refused...)
		if unsure != nil {
			j.unsure = fmt.Errorf("%s not validated: %w", of[i].Section, unsure)
		}
	}
	return j
}

// try returns the problems of a section, or why they are not known.
func (t *trials) try(trial *config.Trial) (refused []error, unsure error) {
	if t.create == nil {
		return nil, errors.New("without --cluster=api only names, duplicates and placeholders are checked; usherctl review checks all")
	}
	pod, err := json.Marshal(trial.Pod)
	if err == nil {
		err = t.create(pod)
	}
	if refusal, ok := errors.AsType[*apierrors.StatusError](err); ok {
		if strings.HasPrefix(refusal.ErrStatus.Message, fmt.Sprintf("pods %q is forbidden: violates PodSecurity ", trial.Pod.Name)) {
			return nil, nil // of usher's own namespace; the API server has validated the pod before
		}
		refused = trial.Problems(refusal.ErrStatus)
	}
	if len(refused) > 0 {
		return refused, nil
	}
	return nil, err
}

// use says that a policy is in force, and what is known of it.
func (t *trials) use(j judgement) {
	select {
	case <-t.inForce:
	default:
	}
	t.inForce <- j
}

// run follows the policy in force until ctx ends, and has it judged until there is a judgement.
func (t *trials) run(ctx context.Context) {
	var j judgement
	said, wait := "", trialAgain
	for {
		var due <-chan time.Time
		if j.unsure != nil && len(j.refused) == 0 && t.create != nil {
			due = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case j = <-t.inForce:
			if said, wait = "", trialAgain; !j.asked {
				j = t.judge(j.of)
			}
		case <-due:
			j, wait = t.judge(j.of), min(2*wait, trialSeldom)
		}
		said = t.report(j, said)
	}
}

// report reports a judgement on the policy in force, unless it has said so already. It returns what it has said.
func (t *trials) report(j judgement, said string) (text string) {
	switch {
	case len(j.refused) > 0:
		text = printable.Line(errors.Join(j.refused...).Error())
		t.log.Error("policy: the API server refuses pods with the sidecars of the policy in force: " + text)
	case j.unsure != nil:
		if text = printable.Line(j.unsure.Error()); text != said {
			t.log.Warn("policy: " + text)
		}
	case said != "":
		t.log.Info("policy: sidecars validated")
	}
	t.validated.Set(metric.Flag(text == ""))
	return text
}
