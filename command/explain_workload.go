package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"usher.dev/usher/command/doctor"
	"usher.dev/usher/command/explain"
	"usher.dev/usher/command/review"
	"usher.dev/usher/internal/apiserver"
)

// explainWorkload explains why the pods of a workload do not come, or who changed a pod that exists.
func (p Program) explainWorkload(ctx context.Context, o explainOptions, args []string) ([]review.Report, error) {
	config, err := apiserver.LoadConfig(o.clusterSource.kubeconfig, "")
	if err != nil {
		return nil, fmt.Errorf("--cluster=api: %w; pass --kubeconfig FILE", err)
	}
	client, err := apiserver.New(config)
	if err != nil {
		return nil, err
	}
	f := finder{doctor.API(client), cmp.Or(o.namespace, "default")}
	found, err := f.find(ctx, args)
	if err != nil {
		return nil, err
	}
	if found.kind.Kind == "Pod" {
		return p.explainPod(o, found)
	}
	return p.explainMissing(ctx, o, f, found)
}

// explainPod says that a pod exists, and with an audit log who changed it.
func (p Program) explainPod(o explainOptions, pod object) ([]review.Report, error) {
	r := review.Examined(review.Subject{Source: "the cluster", Of: pod.String()}, review.Finding{ID: "pod-exists", Severity: review.Info,
		Object: pod.String(), Link: "docs/explain.md#pod-exists", Message: "the pod exists: admission has let it in"})
	if len(o.logs) == 0 {
		r.Hint = "--audit-log FILE shows who changed it"
		return []review.Report{r}, nil
	}
	requests, err := p.explainLogs(o, explain.Filter{Namespace: pod.Metadata.Namespace, Name: pod.Metadata.Name, UID: o.uid, Kind: "pods"})
	return append([]review.Report{r}, requests...), err
}

// explainMissing explains the newest failure of a workload's pods, and reviews its pod as of now.
func (p Program) explainMissing(ctx context.Context, o explainOptions, f finder, of object) ([]review.Report, error) {
	creators, err := f.creators(ctx, of)
	if err != nil {
		return nil, err
	}
	failures, unread := f.failures(ctx, of, creators)
	failure, failed := explain.Newest(failures)
	policy, findings := p.policyFor(ctx, &o, f.Source)
	var reports []review.Report
	switch {
	case failed:
		reports = append(reports, p.explainFailure(o, policy, failure, of))
	default:
		reports = append(reports, noFailure(of))
	}
	first := &reports[0]
	first.Findings = append(first.Findings, findings...)
	if unread != nil {
		first.Findings = append(first.Findings, unknownBecause("events-not-read", unread))
	}
	if policy.Policy == nil || !failed && of.missing() == 0 {
		return reports, nil
	}
	if len(creators) == 0 {
		creators = []object{of}
	}
	now, err := p.reviewNow(ctx, o, f, policy, creators[0])
	if err != nil {
		first.Findings = append(first.Findings, unknownBecause("not-reviewed", err))
		return reports, nil
	}
	return append(reports, now...), nil
}

func unknownBecause(id string, err error) review.Finding {
	f := review.Finding{ID: id, Severity: review.Unknown, Message: err.Error(), Link: "docs/explain.md#" + id}
	if unreadable, ok := errors.AsType[*doctor.UnreadableError](err); ok && unreadable.Forbidden {
		f.Fix = "kubectl auth can-i get " + strings.Fields(unreadable.What)[0]
	}
	return f
}

// policyFor returns the policy of --config or of the installed usher, whose gates are used unless --feature-gates is
// set. A policy that could not be read is a finding.
func (p Program) policyFor(ctx context.Context, o *explainOptions, source doctor.Source) (policyFile, []review.Finding) {
	var policy policyFile
	var err error
	gates := ""
	if o.config != "" {
		policy, err = p.readPolicy(o.config)
	} else {
		policy, gates, err = p.installedPolicy(ctx, source, o.service)
	}
	if err == nil && gates != "" && !o.gatesSet {
		o.gates, err = p.Suites.ParseGates(gates)
	}
	if err != nil {
		f := unknownBecause("policy-not-read", err)
		f.Message += "; --config FILE names the policy, --service the installed usher"
		return policyFile{}, []review.Finding{f}
	}
	return policy, nil
}

// explainFailure explains the newest failure.
func (p Program) explainFailure(o explainOptions, policy policyFile, failure explain.Failure, of object) review.Report {
	source := fmt.Sprintf("%s of %s", failure.From, failure.Object)
	if !failure.At.IsZero() {
		source += ", " + failure.At.UTC().Format(time.RFC3339)
	}
	if failure.Count > 1 {
		source += fmt.Sprintf(", %d times", failure.Count)
	}
	refusal, ok := explain.ParseRefusal(failure.Message)
	mask := explain.Mask{Show: o.ShowValues}
	pods := of.String() + ", its pods"
	if !ok || refusal.By == explain.ByUsher && policy.Policy == nil {
		return review.Examined(review.Subject{Source: source, Of: pods}, review.Finding{ID: "creation-failed", Severity: review.Error,
			Object: failure.Object, Message: mask.Text(failure.Message), Link: "docs/explain.md#creation-failed"})
	}
	r := p.explainRefusal(o, policy, refusal, source)
	r.Of = pods
	if len(r.Calls) > 0 && r.Calls[0].Message == "" {
		r.Calls[0].Message = mask.Text(failure.Message)
	}
	return r
}

// noFailure is the report of a workload without a failure that is known.
func noFailure(of object) review.Report {
	subject := review.Subject{Source: "the cluster", Of: of.String() + ", its pods"}
	if missing := of.missing(); missing > 0 {
		return review.Examined(subject, review.Finding{ID: "no-failure-found", Severity: review.Unknown, Object: of.String(), Link: "docs/explain.md#no-failure-found",
			Message: fmt.Sprintf("%d pods are missing, and no event or condition says why: events are kept for an hour by default, and a controller may not have tried yet", missing),
			Fix:     fmt.Sprintf("kubectl describe %s %s -n %s", strings.ToLower(of.kind.Kind), review.Word(of.Metadata.Name), review.Word(of.Metadata.Namespace))})
	}
	return review.Examined(subject, review.Finding{ID: "no-pod-missing", Severity: review.Info, Object: of.String(), Link: "docs/explain.md#no-pod-missing",
		Message: "no pod is missing, and no creation has failed: admission is not what keeps it from running"})
}
