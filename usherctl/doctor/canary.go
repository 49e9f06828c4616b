package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/handlers"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/doctor/connectivity"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/webhookmatch"
)

// CanaryPod returns the pod that is sent if there is no other object: one that the strictest of the Pod Security Standards permits.
func CanaryPod() requests.Document {
	return requests.Document{Source: "canary", JSON: []byte(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "usher-canary-"}, "spec": {
		"automountServiceAccountToken": false,
		"securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
		"containers": [{"name": "canary", "image": "registry.k8s.io/pause:3.10",
			"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
			"resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "1m", "memory": "1Mi"}}}]}}`)}
}

// The filters of webhooks that a canary did not reach, beside those of webhookmatch.
const (
	unanswered = "unanswered"   // the API server would have refused the canary if it had called and got no answer
	missing    = "registration" // it is not registered
)

// canary is the dry run of a creation, and what came back.
type canary struct {
	request  webhookmatch.Request
	judged   decision // what the API server's code says of it
	answered []string // the paths of usher that have answered
	refused  error    // by the API server, perhaps before it had called every webhook
}

// Canary sends the object of a document as a dry run, marked as a canary, and says which webhooks of usher have answered: the only proof
// that a webhook is called is a call. needed are the webhooks that usher should be registered with.
func (e *Examiner) Canary(ctx context.Context, d requests.Document, o requests.Options, needed []webhooks.Hook) report.Report {
	c, err := e.send(ctx, d, o)
	if err != nil {
		return requests.NotSent(d, err)
	}
	result := report.Report{Subject: report.Subject{Source: d.Source, Of: d.Of, Kind: c.request.Kind.Kind, Namespace: c.request.Namespace,
		Name: nameIn(c.request), Operation: string(c.request.Operation)}}
	c.judged = e.judgeRequest(ctx, d, c.request, nobody)
	verdicts := c.judged.verdicts
	for i, h := range e.hooks {
		if h.ushers() {
			result.Webhooks = append(result.Webhooks, c.registered(i, e.hooks, verdicts))
		}
	}
	result.Webhooks = append(result.Webhooks, c.unregistered(ctx, e, needed)...)
	result.Verdict = verdictOf(result.Webhooks, func(name string) bool { return e.needs(ctx, c.judged, needed, name) })
	switch {
	case c.refused != nil:
		result.Hint = "the API server refused the canary: " + c.refused.Error()
		if result.Verdict == report.Passed {
			result.Verdict = report.Rejected
		}
	case len(result.Webhooks) == 0:
		result.Hint = "no webhook of usher is registered"
	}
	return result
}

// Ushers returns the names of usher's webhooks by which it is known which suites are registered.
func (e *Examiner) Ushers() []string { return namesOfUshers(e.hooks) }

// Settle returns usher as it is known once its registration has been read, see Usher.settled.
func (e *Examiner) Settle(u Usher) Usher { return u.settled(e.hooks) }

// verdictOf returns whether each webhook for objects such as the canary is called. needed reports whether usher's policy needs one for it.
func verdictOf(all []report.Webhook, needed func(name string) bool) report.Verdict {
	unknown := func(w report.Webhook) bool { return w.Filter == webhookmatch.Unknown }
	called := func(w report.Webhook) bool { return w.Called }
	missed := func(w report.Webhook) bool {
		forOthers := w.Filter == webhookmatch.Rules || w.Filter == webhookmatch.Scope
		return !w.Called && (!forOthers || needed(w.Name))
	}
	switch {
	case slices.ContainsFunc(all, unknown):
		return report.Errored
	case slices.ContainsFunc(all, missed), !slices.ContainsFunc(all, called):
		return report.Failed
	}
	return report.Passed
}

// needs reports whether usher's policy needs a webhook to be called for a request.
func (e *Examiner) needs(ctx context.Context, j decision, needed []webhooks.Hook, name string) bool {
	return slices.ContainsFunc(needed, func(n webhooks.Hook) bool {
		return n.Name == name && e.wouldCall(ctx, j, n).Called
	})
}

// wouldCall returns whether the API server would call a webhook if it were registered.
func (e *Examiner) wouldCall(ctx context.Context, j decision, n webhooks.Hook) webhookmatch.Verdict {
	return e.matcher.One(ctx, j.seenBy(false), entry{Hook: n}.hook())
}

// send sends the canary as the user that the API server takes the caller for.
func (e *Examiner) send(ctx context.Context, d requests.Document, o requests.Options) (c canary, err error) {
	if _, err := e.AskCaller(ctx); err != nil {
		return c, err
	}
	if c.request, err = e.request(ctx, d, o); err != nil {
		return c, err
	}
	if d.IsReview() {
		return c, errors.New("an AdmissionReview cannot be created; pass the manifest of its object")
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(c.request.Object.Raw, &object.Object); err != nil {
		return c, err
	}
	object.SetAnnotations(labels.Merge(object.GetAnnotations(), labels.Set{handlers.CanaryAnnotation: "true"}))
	if c.request.Object.Raw, err = object.MarshalJSON(); err != nil {
		return c, err
	}
	c.request.UserInfo, c.request.DryRun = *e.caller, new(true)
	of := c.request.Resource
	warnings, err := e.source.DryCreate(ctx, reader.NewKind(of.Group, of.Version, object.GetKind(), of.Resource), object.GetNamespace(),
		c.request.Object.Raw)
	if !apierrors.IsAlreadyExists(err) { // which is found after admission
		c.refused = err
	}
	for _, warning := range warnings {
		if path, is := handlers.CanaryPath(warning); is {
			c.answered = append(c.answered, path)
		}
	}
	return c, nil
}

// registered says of the i-th of the registered webhooks whether it was called. An answer has a path, and no name of a webhook.
func (c canary) registered(i int, hooks []entry, verdicts []webhookmatch.Verdict) report.Webhook {
	h, v := hooks[i], verdicts[i]
	w := webhook(h, v)
	open := func(j int) bool {
		return verdicts[j].Called || verdicts[j].Filter == webhookmatch.Unknown || verdicts[j].Filter == webhookmatch.Refused
	}
	var rivals []string
	for j, other := range hooks {
		if j != i && open(j) && pathOf(other.ClientConfig) == w.Path {
			rivals = append(rivals, other.Name+" of "+other.kind+" "+other.configuration.Name)
		}
	}
	untold := func(format string, args ...any) report.Webhook {
		w.Called, w.Filter, w.Why, w.Fix = false, webhookmatch.Unknown, fmt.Sprintf(format, args...), ""
		return w
	}
	switch {
	case c.hasAnswered(w.Path) && open(i) && len(rivals) > 0:
		return untold("usher has answered at %s, which is also called by %s", w.Path, report.List(rivals))
	case c.hasAnswered(w.Path) && (open(i) || len(rivals) == 0):
		w.Called, w.Filter, w.Why, w.Fix = true, "", "", ""
	case c.refused != nil && (open(i) || v.Filter == webhookmatch.ObjectSelector || v.Filter == webhookmatch.MatchConditions):
		return untold("the API server refused the canary, perhaps before it would have called this webhook")
	case v.Filter == webhookmatch.SideEffects:
		return untold("sideEffects %s", v.Why)
	case !open(i): // by the filter that the verdict names
	case !h.fails():
		return untold("usher has not answered at %s; with failurePolicy Ignore a call may have failed", w.Path)
	case c.answersOf(h, hooks):
		w.Called, w.Filter = false, unanswered
		w.Why = "usher has not answered at " + w.Path + ", and with failurePolicy Fail a call that fails refuses the canary, which has passed"
	default:
		return untold("usher has not answered at %s: the API server does not call it, or what it calls knows no canaries, such as an older usher", w.Path)
	}
	return w
}

// answersOf reports whether the server that a webhook calls has answered at another path, so that it knows canaries.
func (c canary) answersOf(h entry, hooks []entry) bool {
	return slices.ContainsFunc(hooks, func(other entry) bool {
		return connectivity.TargetOf(other.ClientConfig) == connectivity.TargetOf(h.ClientConfig) && c.hasAnswered(pathOf(other.ClientConfig))
	})
}

// unregistered returns the webhooks that usher needs for the canary and that the API does not have, and the paths that have answered although
// no webhook in the API has them.
func (c canary) unregistered(ctx context.Context, e *Examiner, needed []webhooks.Hook) (all []report.Webhook) {
	const inFile = "a file of the API server"
	known := func(path string) bool {
		return slices.ContainsFunc(e.hooks, func(h entry) bool { return strings.HasSuffix(pathOf(h.ClientConfig), path) }) ||
			slices.ContainsFunc(all, func(w report.Webhook) bool { return w.Path == path })
	}
	for _, n := range needed {
		if isRegistered(n, e.hooks) {
			continue
		}
		v := e.wouldCall(ctx, c.judged, n)
		w := report.Webhook{Configuration: "not registered", Name: n.Name, Path: webhooks.PathOf(n.Name), Filter: missing,
			Why: "usher's policy needs it, and no configuration has it"}
		switch {
		case !v.Called && v.Filter != webhookmatch.Unknown:
			continue
		case c.hasAnswered(w.Path) && !known(w.Path):
			w.Configuration, w.Called, w.Filter, w.Why = inFile, true, "", ""
		case c.refused != nil:
			w.Filter, w.Why = webhookmatch.Unknown, w.Why+"; the API server refused the canary, perhaps before it would have called one of a file of its own"
		}
		all = append(all, w)
	}
	for _, path := range c.answered {
		if !known(path) {
			all = append(all, report.Webhook{Configuration: inFile, Name: path, Path: path, Called: true})
		}
	}
	return all
}

// hasAnswered reports whether usher has answered at the path that a webhook calls. A URL may have a base before it.
func (c canary) hasAnswered(path string) bool {
	return slices.ContainsFunc(c.answered, func(p string) bool { return strings.HasSuffix(path, p) })
}
