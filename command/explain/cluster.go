package explain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/review"
)

// Cluster explains the objects of a namespace of a cluster.
type Cluster struct {
	Options
	Source    reader.Source
	Namespace string
	Requests  Requests // nil: there is no audit log
	UID       string   // of the object whose requests are listed; "" for any
	// Policy returns the policy of the cluster's usher.
	Policy func(context.Context) (Policy, error)
	// Review reviews the pod that a controller would create for a workload, with the state of the cluster. It writes nothing.
	Review func(ctx context.Context, workload []byte, policy Policy) ([]review.Report, error)
}

// Explain explains why the pods of a workload do not come, or who changed a pod that exists. The arguments name it.
func (c Cluster) Explain(ctx context.Context, args []string) ([]review.Report, error) {
	f := finder{c.Source, c.Namespace}
	found, err := f.find(ctx, args)
	if err != nil {
		return nil, err
	}
	if found.kind.Kind == "Pod" {
		return c.pod(found)
	}
	return c.missing(ctx, f, found)
}

// pod says that a pod exists, and with an audit log who changed it.
func (c Cluster) pod(pod object) ([]review.Report, error) {
	r := review.Examined(review.Subject{Source: "the cluster", Of: pod.String()}, review.Finding{ID: "pod-exists", Severity: review.Info,
		Object: pod.String(), Link: "docs/explain.md#pod-exists", Message: "the pod exists: admission has let it in"})
	if c.Requests == nil {
		r.Hint = "--audit-log FILE shows who changed it"
		return []review.Report{r}, nil
	}
	requests, err := c.Requests(Filter{Namespace: pod.Metadata.Namespace, Name: pod.Metadata.Name, UID: c.UID, Kind: "pods"})
	return append([]review.Report{r}, requests...), err
}

// missing explains the newest failure of a workload's pods, and reviews its pod as of now.
func (c Cluster) missing(ctx context.Context, f finder, of object) ([]review.Report, error) {
	creators, err := f.creators(ctx, of)
	if err != nil {
		return nil, err
	}
	failures, unread := f.failures(ctx, of, creators)
	policy, unknown := c.Policy(ctx)
	first := noFailure(of)
	failure, failed := Newest(failures)
	if failed {
		first = policy.explainFailure(failure, c.Options, of)
	}
	if unknown != nil {
		finding := unknownBecause("policy-not-read", unknown)
		finding.Message += "; --config FILE names the policy, --service the installed usher"
		first.Findings = append(first.Findings, finding)
	}
	if unread != nil {
		first.Findings = append(first.Findings, unknownBecause("events-not-read", unread))
	}
	if policy.Policy == nil || !failed && of.missing() == 0 {
		return []review.Report{first}, nil
	}
	now, err := c.now(ctx, append(creators, of)[0], policy)
	if refusal, known := ParseRefusal(failure.Message); failed && (!known || refusal.By != ByUsher) {
		doubtful(now)
	}
	if err != nil {
		first.Findings = append(first.Findings, unknownBecause("not-reviewed", err))
	}
	return append([]review.Report{first}, now...), nil
}

// now reviews the pod that a controller would create as of now.
func (c Cluster) now(ctx context.Context, creator object, policy Policy) ([]review.Report, error) {
	reports, err := c.Review(ctx, creator.typed(), policy)
	for i := range reports {
		(&Mask{Show: c.ShowValues}).Report(&reports[i])
		if reports[i].Verdict == review.Allowed {
			reports[i].Hint = "as of now usher allows the pod: the controller tries again by itself, after up to some minutes"
		}
	}
	return reports, err
}

// doubtful changes reports on pods that usher allows as of now, and that somebody else has refused.
func doubtful(now []review.Report) {
	for i, r := range now {
		if r.Verdict == review.Allowed {
			now[i].Verdict, now[i].Hint = review.NotJudged, ""
			now[i].Unjudged = append(r.Unjudged, "usher allows the pod as of now; whether what refused it, which was not usher, still does was not looked at")
		}
	}
}

func unknownBecause(id string, err error) review.Finding {
	f := review.Finding{ID: id, Severity: review.Unknown, Message: err.Error(), Link: "docs/explain.md#" + id}
	if unreadable, ok := errors.AsType[*reader.UnreadableError](err); ok && unreadable.Forbidden {
		f.Look = "kubectl auth can-i get " + strings.Fields(unreadable.What)[0]
	}
	return f
}

// explainFailure explains a failure to create the pods of a workload.
func (p Policy) explainFailure(failure Failure, o Options, of object) review.Report {
	source := fmt.Sprintf("%s of %s", failure.From, failure.Object)
	if !failure.At.IsZero() {
		source += ", " + failure.At.UTC().Format(time.RFC3339)
	}
	if failure.Count > 1 {
		source += fmt.Sprintf(", %d times", failure.Count)
	}
	refusal, ok := ParseRefusal(failure.Message)
	mask := Mask{Show: o.ShowValues}
	if !ok || refusal.By == ByUsher && p.Policy == nil {
		return review.Examined(review.Subject{Source: source, Of: of.pods()}, review.Finding{ID: "creation-failed", Severity: review.Error,
			Object: failure.Object, Message: mask.Text(failure.Message), Link: "docs/explain.md#creation-failed"})
	}
	r := p.explain(refusal, o, source)
	r.Of = of.pods()
	if len(r.Calls) > 0 && r.Calls[0].Message == "" {
		r.Calls[0].Message = mask.Text(failure.Message)
	}
	return r
}

// noFailure returns the report of a workload without a failure that is known.
func noFailure(of object) review.Report {
	subject := review.Subject{Source: "the cluster", Of: of.pods()}
	if missing := of.missing(); missing > 0 {
		return review.Examined(subject, review.Finding{ID: "no-failure-found", Severity: review.Unknown, Object: of.String(), Link: "docs/explain.md#no-failure-found",
			Message: fmt.Sprintf("%d pods are missing, and no event or condition says why: events are kept for an hour by default, and a controller may not have tried yet", missing),
			Look:    fmt.Sprintf("kubectl describe %s %s -n %s", strings.ToLower(of.kind.Kind), review.Word(of.Metadata.Name), review.Word(of.Metadata.Namespace))})
	}
	return review.Examined(subject, review.Finding{ID: "no-pod-missing", Severity: review.Info, Object: of.String(), Link: "docs/explain.md#no-pod-missing",
		Message: "no pod is missing, and no creation has failed: admission is not what keeps it from running"})
}
