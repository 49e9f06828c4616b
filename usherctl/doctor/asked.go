package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/webhookmatch"
)

// Answer adds to the report of a review of a document, with the webhooks of the cluster, what admission policies say of the object as it would
// be stored, and which answers are not judged: those of usher's webhooks are the calls of the report.
func (c Calls) Answer(ctx context.Context, e *Examiner, d requests.Document, o requests.Options, result *report.Report) {
	request, err := e.request(ctx, d, o)
	if err != nil {
		return // the report says so
	}
	if len(result.After) > 0 && len(request.Object.Raw) > 0 {
		request.Object.Raw = result.After
	}
	if c.askPolicies(ctx, e, request, result) && (result.Verdict == report.Allowed || result.Verdict == report.Skipped) {
		result.Verdict = report.Denied
	}
}

// askPolicies adds to a report what admission policies say of the request, and which answers of webhooks and policies are not judged. It reports
// whether a policy refuses the request.
func (c Calls) askPolicies(ctx context.Context, e *Examiner, request webhookmatch.Request, result *report.Report) (refuses bool) {
	changed, stored := "", request
	if request.Unstored {
		stored, changed = asStored(request)
	}
	changed = cmp.Or(e.unanswered(result), changed)
	result.Unjudged = append(result.Unjudged, c.unread...)
	for _, all := range slices.Backward(c.policies) { // those that change objects first
		for _, p := range all.policies {
			is, denies := all.asked(ctx, e, request, p)
			switch {
			case p.malformed && all.kind == validatingPolicy: // which is said
			case is.Filter == webhookmatch.Unknown:
				result.Unjudged = append(result.Unjudged, "whether the "+p.object()+" is asked: "+is.Why)
			case !is.Called && !p.malformed:
			case all.kind != validatingPolicy:
				changed = "the " + p.object() + " may change it before"
				result.Unjudged = append(result.Unjudged, "what the "+p.object()+" changes")
			default:
				refuses = p.judge(ctx, stored, changed, denies, result) || refuses
			}
		}
	}
	return refuses
}

// unanswered adds to a report which webhooks are called whose answers are not judged, and returns which of them may change the object, if any. Those
// of usher whose steps have run are the calls of the report.
func (e *Examiner) unanswered(result *report.Report) (changed string) {
	var answering []string
	for i, w := range result.Webhooks {
		known := i < len(e.hooks) // others are missing
		if known && e.hooks[i].ushers() && slices.ContainsFunc(result.Calls, func(c report.Call) bool { return c.Path == webhooks.PathOf(w.Name) }) {
			continue
		}
		if known && e.hooks[i].mutating() && (w.Called || w.Filter == webhookmatch.Unknown) {
			changed = "the webhook " + w.Name + " may change it before"
		}
		if w.Called {
			answering = append(answering, w.Name)
		}
	}
	if len(answering) > 0 {
		result.Unjudged = append(result.Unjudged, "the answers of "+report.List(slices.Compact(answering))+": no review is sent")
	}
	return changed
}

// asked returns whether a policy is asked of a request, and whether a binding then denies what it refuses. A policy with audit annotations
// may also refuse what no binding denies.
func (all admissionPolicies) asked(ctx context.Context, e *Examiner, request webhookmatch.Request, p admissionPolicy) (
	is webhookmatch.Verdict, denies bool) {
	is = all.matching(ctx, e, request, p, all.denies)
	if denies = is.Called; denies || is.Filter == webhookmatch.Unknown || len(p.Spec.AuditAnnotations) == 0 {
		return is, denies
	}
	return all.matching(ctx, e, request, p, func(admissionPolicy) bool { return true }), false
}

// asStored returns a request for a manifest with the defaults that the API server fills in, and why they are not known.
func asStored(request webhookmatch.Request) (webhookmatch.Request, string) {
	filled, known := requests.Filled(request.Object.Raw)
	if !known {
		return request, "the API server may fill in defaults before"
	}
	copied := *request.AdmissionRequest
	copied.Object.Raw = filled
	request.AdmissionRequest = &copied
	return request, ""
}

// judge adds to a report what a ValidatingAdmissionPolicy says of the request, of which a binding may deny what it refuses, and reports whether it
// refuses the request.
func (p admissionPolicy) judge(ctx context.Context, request webhookmatch.Request, changed string, denies bool, result *report.Report) bool {
	d := webhookmatch.Decision{Unknown: true, Why: "its parameters are not looked at"}
	if p.Spec.ParamKind == nil {
		d = webhookmatch.Validate(ctx, request, registration.ValidatingAdmissionPolicySpec{MatchConstraints: p.Spec.MatchConstraints,
			FailurePolicy:   &p.Spec.FailurePolicy,
			MatchConditions: p.Spec.MatchConditions, Variables: p.Spec.Variables, Validations: p.Spec.Validations,
			AuditAnnotations: p.Spec.AuditAnnotations}, changed, denies)
	}
	switch {
	case d.Unknown:
		result.Unjudged = append(result.Unjudged, "what the "+p.object()+" says: "+d.Why)
	case d.Refuses:
		result.Findings = append(result.Findings, report.Finding{ID: "policy-refuses", Severity: report.Error, Object: p.object(), Message: d.Why + ".",
			Look: p.entry().show(), Link: "docs/doctor.md#which-request"})
	}
	return d.Refuses
}

// denies reports whether a binding is one of a policy that changes objects, or denies what its policy refuses, and does not only warn of it or
// write it to the audit log.
func (all admissionPolicies) denies(b admissionPolicy) bool {
	return all.kind != validatingPolicy || slices.Contains(b.Spec.ValidationActions, registration.Deny)
}

// matching returns whether a policy is asked: it and one of its bindings that count match the request.
func (all admissionPolicies) matching(ctx context.Context, e *Examiner, request webhookmatch.Request, p admissionPolicy,
	counts func(admissionPolicy) bool) (best webhookmatch.Verdict) {
	of := e.matches(ctx, request, p.Spec.MatchConstraints)
	if !of.Called && of.Filter != webhookmatch.Unknown {
		return of
	}
	for _, b := range all.bindings {
		if b.Spec.PolicyName != p.Metadata.Name || !counts(b) {
			continue
		}
		switch is := e.matches(ctx, request, b.Spec.MatchResources); {
		case is.Called:
			return of
		case is.Filter == webhookmatch.Unknown:
			best = is
		}
	}
	return best
}

// matches returns whether the match resources of a policy or a binding include the request; nil matches all.
func (e *Examiner) matches(ctx context.Context, request webhookmatch.Request, m *registration.MatchResources) webhookmatch.Verdict {
	if m == nil {
		return webhookmatch.Verdict{Called: true}
	}
	named := func(rules []registration.NamedRuleWithOperations) (all []registration.RuleWithOperations) {
		for _, r := range rules {
			if len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, request.Name) {
				all = append(all, r.RuleWithOperations)
			}
		}
		return all
	}
	one := func(rules []registration.RuleWithOperations, w registration.ValidatingWebhook) webhookmatch.Verdict {
		w.Rules, w.MatchPolicy, w.SideEffects = rules, m.MatchPolicy, new(registration.SideEffectClassNone)
		return e.matcher.One(ctx, request, webhookmatch.Hook{ValidatingWebhook: w})
	}
	if excluded := one(named(m.ExcludeResourceRules), registration.ValidatingWebhook{}); excluded.Called {
		return webhookmatch.Verdict{Filter: webhookmatch.Rules}
	}
	rules := named(m.ResourceRules)
	if len(m.ResourceRules) == 0 {
		rules = []registration.RuleWithOperations{{Operations: []registration.OperationType{"*"},
			Rule: registration.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"},
				Resources: []string{"*", "*/*"}}}}
	}
	v := one(rules, registration.ValidatingWebhook{NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector})
	v.Why = strings.TrimSpace(v.Why)
	return v
}
