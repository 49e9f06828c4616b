package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/server/recording/mask"
	"usher.dev/usher/usherctl/report"
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
	Review func(ctx context.Context, workload []byte, policy Policy) ([]report.Report, error)
}

// Explain explains why the pods of a workload do not come, or who changed a pod that exists. The arguments name it.
func (c Cluster) Explain(ctx context.Context, args []string) ([]report.Report, error) {
	f := finder{c.Source, c.Namespace}
	found, err := f.find(ctx, args)
	if err != nil {
		return nil, err
	}
	events, unread := f.events(ctx)
	if found.kind.Kind == "Pod" {
		return c.pod(ctx, found, events, unread)
	}
	creators, err := f.creators(ctx, found)
	if err != nil {
		return nil, err
	}
	return c.missing(ctx, f, workload{found, creators, events}, unread)
}

// pod says that a pod exists, why it does not run, and with an audit log who changed it.
func (c Cluster) pod(ctx context.Context, pod object, events []json.RawMessage, unread error) (all []report.Report, err error) {
	idle := idle([]object{pod}, events)
	r := report.Examined(report.Subject{Source: "the cluster", Of: pod.String()}, append(describe(idle, c.Options),
		finding("pod-exists", report.Info, pod.String(), "the pod exists: its creation was not refused"))...)
	if len(refusals(idle)) > 0 {
		policy, unknown := c.Policy(ctx)
		r = policy.explainFailure(idle[0].why, c.Options, pod.String())
		r = adding(r, policyNotRead(unknown)...)
	}
	if unread != nil && len(idle) > 0 {
		r = adding(r, unknownBecause("events-not-read", unread))
	}
	if c.Requests == nil {
		r.Hint = strings.TrimPrefix(r.Hint+"; --audit-log FILE shows who changed it", "; ")
		return []report.Report{r}, nil
	}
	requests, err := c.Requests(Filter{Namespace: pod.Metadata.Namespace, Name: pod.Metadata.Name, UID: c.UID, Kind: "pods"})
	return append([]report.Report{r}, requests...), err
}

// missing explains why a workload lacks pods, or why they do not run, and reviews its pod as of now if it is missing.
func (c Cluster) missing(ctx context.Context, f finder, w workload, unread error) ([]report.Report, error) {
	live, over, unreadable := w.failures()
	if unreadable > 0 {
		unread = errors.Join(unread, fmt.Errorf("%d events cannot be read", unreadable))
	}
	policy, unknown := c.Policy(ctx)
	failure, failed := Newest(live)
	var first report.Report
	if failed {
		first = policy.explainFailure(failure.of(f.namespace), c.Options, w.pods())
	} else {
		first = c.standing(ctx, f, w, policy, over)
	}
	first = adding(first, policyNotRead(unknown)...)
	if unread != nil {
		first = adding(first, unknownBecause("events-not-read", unread))
	}
	first = w.alsoPaused(first)
	noPod := failure.Reason == noReplicaSet || !failed && (first.Verdict == report.Denied || len(first.Calls) > 0 || w.missing() == 0)
	if policy.Policy == nil || noPod {
		return []report.Report{first}, nil
	}
	now, err := c.now(ctx, append(w.creators, w.object)[0], policy, failure, failed && !w.Spec.Suspend)
	if err != nil {
		first = adding(first, unknownBecause("not-reviewed", err))
	}
	return append([]report.Report{first}, now...), nil
}

// standing returns the report of a workload of which no creation fails: what keeps its pods from running, or what is known.
func (c Cluster) standing(ctx context.Context, f finder, w workload, policy Policy, over []Failure) report.Report {
	pods, err := f.pods(ctx, w.creators)
	idle := idle(pods, w.events)
	if failure, found := Newest(refusals(idle)); found {
		return policy.explainFailure(failure, c.Options, w.pods())
	}
	found := append(w.lacks(err == nil && len(idle) == 0), describe(idle, c.Options)...)
	if err != nil {
		found = append(found, unknownBecause("pods-not-read", err))
	}
	if len(found) == 0 {
		found = append(found, finding("no-pod-missing", report.Info, w.String(), fmt.Sprintf("no pod is missing, and all %d run or have ended", len(pods))))
	}
	if past, has := Newest(over); has && w.missing() == 0 {
		mask := mask.Mask{Show: c.ShowValues}
		found = append(found, finding("failure-over", report.Info, past.Object,
			fmt.Sprintf("until %s a creation failed, and no longer does: %s", past.At.UTC().Format(time.RFC3339), maskText(&mask, past.Message))))
	}
	return report.Examined(report.Subject{Source: "the cluster", Of: w.pods()}, found...)
}

// adding adds findings to a report. One that has passed does not pass with what is unknown.
func adding(r report.Report, more ...report.Finding) report.Report {
	r.Findings = append(r.Findings, more...)
	if r.Verdict == report.Passed {
		r.Verdict = report.VerdictOf(r.Findings)
	}
	return r
}

// policyNotRead returns the finding on a policy that could not be read, if there is an error.
func policyNotRead(err error) []report.Finding {
	if err == nil {
		return nil
	}
	finding := unknownBecause("policy-not-read", err)
	finding.Message += "; --config FILE names the policy, --service the installed usher"
	return []report.Finding{finding}
}

// now reviews the pod that a controller would create, after a failure if its message is not empty, as of now. The controller tries that again
// unless nothing failed, or it is suspended.
func (c Cluster) now(ctx context.Context, creator object, policy Policy, after Failure, again bool) ([]report.Report, error) {
	typed := WithType(creator.raw, strings.TrimPrefix(creator.kind.Group+"/"+creator.kind.Version, "/"), creator.kind.Kind) // items of lists lack it
	reports, err := c.Review(ctx, typed, policy)
	refusal, known := ParseRefusal(after.Message)
	for i := range reports {
		r := &reports[i]
		Hide(&mask.Mask{Show: c.ShowValues}, r)
		if r.Verdict != report.Allowed && r.Verdict != report.Skipped { // by any step: the API server has judged all the same
			continue
		}
		switch {
		case after.Message != "" && (!known || !refusal.repeats()):
			r.Verdict, r.Hint = report.NotJudged, ""
			r.Unjudged = append(r.Unjudged,
				"as of now nothing that the cluster shows refuses the pod; whether what refused it still does cannot be seen there")
		case again:
			r.Verdict, r.Hint = report.Allowed, "as of now the pod is allowed: the controller tries again by itself, after up to some minutes"
		default:
			r.Verdict, r.Hint = report.Allowed, "as of now the pod is allowed"
		}
	}
	return reports, err
}

// of returns the failure with the namespace of the pod whose creation has failed.
func (f Failure) of(namespace string) Failure {
	if f.Reason == "FailedCreate" {
		f.Namespace = namespace
	}
	return f
}

func unknownBecause(id string, err error) report.Finding {
	f := finding(id, report.Unknown, "", err.Error())
	if unreadable, ok := errors.AsType[*reader.UnreadableError](err); ok && unreadable.Forbidden {
		f.Look = "kubectl auth can-i get " + strings.Fields(unreadable.What)[0]
	}
	return f
}

// explainFailure explains a failure to create or to start pods. of names them.
func (p Policy) explainFailure(failure Failure, o Options, of string) report.Report {
	source := fmt.Sprintf("%s of %s", failure.From, failure.Object)
	if !failure.At.IsZero() {
		source += ", " + failure.At.UTC().Format(time.RFC3339)
	}
	if failure.Count > 1 {
		source += fmt.Sprintf(", %d times", failure.Count)
	}
	refusal, ok := ParseRefusal(failure.Message)
	refusal.Namespace = failure.Namespace
	mask := mask.Mask{Show: o.ShowValues}
	if !ok || refusal.By == ByUsher && p.Policy == nil {
		return report.Examined(report.Subject{Source: source, Of: of},
			finding("creation-failed", report.Error, failure.Object, maskText(&mask, failure.Message)))
	}
	r := p.explain(refusal, o, source)
	r.Of = of
	if len(r.Calls) > 0 && r.Calls[0].Message == "" {
		r.Calls[0].Message = maskText(&mask, failure.Message)
	}
	return r
}
