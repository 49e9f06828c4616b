package explain

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/config"
	"usher.dev/usher/server/recording/mask"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/webhookmatch"
)

// Policy is the policy that refusals are explained by. Its Policy is nil if it is not known.
type Policy struct {
	*config.Policy
	Routes []admit.Route // of usher with this policy
	// Unread is why the policy of the cluster's usher is not known, so that this is the embedded one.
	Unread error
	// Line returns where the policy has a section, and its entry that a text names; "" without a section.
	Line func(section, text string) string
	// Override describes an override as of now.
	Override func(*admit.Override) string
	// Hooks returns the webhooks that are registered, as far as they can be read; nil if there is no cluster to ask.
	Hooks func() []webhookmatch.Hook
}

// Requests returns a report for each request of the audit logs that a filter is for.
type Requests func(Filter) ([]report.Report, error)

// Messages explains the refusals of a text by the policy, and lists the requests with their ids. There is no audit log if
// requests is nil.
func Messages(refusals []Refusal, policy Policy, o Options, requests Requests, filter Filter) (reports []report.Report, err error) {
	var listed []report.Report
	for _, refusal := range refusals {
		r := policy.explain(refusal, o, "the message")
		if refusal.By == ByUsher {
			r = adding(r, policyNotRead(policy.Unread)...)
		}
		if requests != nil && refusal.ID != "" {
			filter.Refusal = refusal.ID
			found, err := requests(filter)
			if err != nil {
				return nil, err
			}
			r.Notes, listed = append(r.Notes, howOften(refusal.ID, found)...), append(listed, found...)
		}
		reports = append(reports, r)
	}
	return append(reports, listed...), nil
}

// howOften says who was refused with an id, when, and how often.
func howOften(id string, requests []report.Report) []suite.Note {
	users, times := map[string]int{}, []string{}
	for _, r := range requests {
		if r.Request != nil {
			users[r.Request.User]++
			times = append(times, r.Request.Time)
		}
	}
	if len(times) == 0 {
		return nil
	}
	text := fmt.Sprintf("refusal %s in the log: %d times, by %s, from %s", id, len(times), strings.Join(slices.Sorted(maps.Keys(users)), ", "),
		slices.Min(times))
	if last := slices.Max(times); len(times) > 1 {
		text += " to " + last
	}
	return []suite.Note{{Name: "requests", Lines: []string{text}, Value: map[string]any{"refusal": id, "count": len(times), "users": users,
		"first": slices.Min(times), "last": slices.Max(times)}}}
}

// explain explains a refusal: by the policy, or by saying whose it is.
func (p Policy) explain(refusal Refusal, o Options, source string) report.Report {
	mask := mask.Mask{Show: o.ShowValues}
	r := report.Report{Subject: report.Subject{Source: source}, Verdict: report.Denied}
	if refusal.By != ByUsher {
		r.Findings = []report.Finding{foreignRefusal(refusal, p.registered(refusal))}
		outcome := "denied"
		if slices.Contains([]string{ByCall, ByPatch, ByConversion}, refusal.By) {
			r.Verdict, outcome = report.Failed, "error"
		}
		r.Calls = append(r.Calls, report.Call{Webhook: refusal.who(), Outcome: outcome, Message: maskText(&mask, refusal.Text)})
		return r
	}
	for _, route := range p.routesOf(refusal) {
		call := report.Call{Path: route.Path, Outcome: "denied", Refusal: refusal.ID}
		call.Code, call.Reason = codeOf(refusal.Problems)
		if refusal.Name != "" {
			call.Audit = map[string]string{"suite": route.Suite, "webhook": refusal.Name}
		}
		for _, problem := range refusal.Problems {
			call.Steps = p.addProblem(call.Steps, route, problem, &mask)
		}
		r.Calls = append(r.Calls, call)
	}
	if len(r.Calls) == 0 {
		r.Findings = append(r.Findings, finding("step-unknown", report.Unknown, refusal.Name,
			"this usher has no such step: the message is of another version, or its feature gates are others; --feature-gates sets them: "+maskText(&mask,
				refusal.Text)))
	}
	r.Hint = wayOut(refusal, &mask)
	if len(r.Calls) > 1 {
		r.Hint = "the message names no webhook: one of these routes refused; " + r.Hint
	}
	return r
}

// routesOf returns the routes that may have refused: the route of the webhook, or the routes with the steps, for the kind if any is. Otherwise
// those count, too, that this policy registers for nothing: the refusal may be of another policy.
func (p Policy) routesOf(refusal Refusal) (all []admit.Route) {
	var ofKind []admit.Route
	for _, r := range p.Routes {
		named := refusal.Name == "" || strings.TrimPrefix(refusal.Name, "cluster.") == r.Webhook()
		if named && hasSteps(r, refusal.Problems) {
			all = append(all, r)
			if slices.ContainsFunc(r.For, func(m admit.Match) bool { return m.Kind.Kind == refusal.Kind }) {
				ofKind = append(ofKind, r)
			}
		}
	}
	if len(ofKind) > 0 {
		return ofKind
	}
	return all
}

// codeOf returns the code and the reason of a refusal, as package handlers does.
func codeOf(problems []ReportedProblem) (int, string) {
	if slices.ContainsFunc(problems, func(one ReportedProblem) bool { return one.Type != "Forbidden" }) {
		return 422, "Invalid"
	}
	return 403, "Forbidden"
}

// hasSteps reports whether a route has one of the steps, or there is none to look for.
func hasSteps(r admit.Route, problems []ReportedProblem) bool {
	return len(problems) == 0 || slices.ContainsFunc(r.Chain.Steps(), func(s admit.Step) bool {
		return slices.ContainsFunc(problems, func(one ReportedProblem) bool { return one.Step == s.Name || one.Step == "limits" })
	})
}

// addProblem adds a problem to the steps of a call: the rule, the line of the policy, and the mode.
func (p Policy) addProblem(steps []report.Step, route admit.Route, problem ReportedProblem, mask *mask.Mask) []report.Step {
	i := slices.IndexFunc(steps, func(s report.Step) bool { return s.Name == problem.Step })
	if i < 0 {
		steps = append(steps, p.describeStep(route, problem))
		i = len(steps) - 1
	}
	text := problemText(problem, mask)
	steps[i].Refused = append(steps[i].Refused, text)
	steps[i].Why = append(steps[i].Why, text)
	if line := p.Line(sectionOf(route, problem.Step), problem.Detail); line != "" && !slices.Contains(steps[i].Why, line) {
		steps[i].Why = append(steps[i].Why, line)
	}
	return steps
}

// sectionOf returns the section of the policy file that a step of a route obeys; "" if there is none.
func sectionOf(route admit.Route, step string) string {
	for _, s := range route.Chain.Steps() {
		if s.Name == step {
			return s.SectionName()
		}
	}
	return ""
}

// problemText returns a problem as a text, without hidden values.
func problemText(problem ReportedProblem, mask *mask.Mask) string {
	return maskText(mask, fmt.Sprintf("%s: %s: %s", problem.Field, problem.Type, problem.Detail))
}

// describeStep returns a step with its doc line, and the overrides that are about it.
func (p Policy) describeStep(route admit.Route, problem ReportedProblem) report.Step {
	step := report.Step{Name: problem.Step, Mode: string(config.SectionOf[admit.Modes](p.Policy).Of(problem.Step))}
	for _, s := range route.Chain.Steps() {
		if s.Name == problem.Step {
			step.Why = append(step.Why, s.Doc)
			if s.Gate != "" {
				step.Why = append(step.Why, "feature gate: "+string(s.Gate))
			}
		}
	}
	overrides := config.SectionOf[override.List](p.Policy).Compile()
	for i := range overrides {
		if overrides[i].Concerns(problem.Step) {
			step.Why = append(step.Why, p.Override(&overrides[i]))
		}
	}
	return step
}

// wayOut says what to do about a refusal of usher.
func wayOut(refusal Refusal, mask *mask.Mask) string {
	hint := "the way out: the text of the problem says what to change"
	if len(refusal.Problems) > 0 {
		text := problemText(refusal.Problems[0], mask)
		if i := strings.LastIndex(text, "; "); i >= 0 {
			hint = "the way out: " + text[i+2:]
		}
	}
	hint += "; `usherctl review --explain FILE` tries it without a cluster, docs/exceptions.md is about exceptions"
	if refusal.ID != "" {
		hint += "; --audit-log FILE lists the requests with refusal " + refusal.ID
	}
	return hint
}

// foreignRefusal says whose refusal it is, and where to look. hooks are the registered webhooks that it may be of.
func foreignRefusal(refusal Refusal, hooks []webhookmatch.Hook) report.Finding {
	f := finding("not-usher", report.Error, refusal.who(), refusal.By+" refused this, not usher")
	switch refusal.By {
	case ByCall:
		message, look := notCalledBecause(refusal, hooks)
		f = finding("webhook-not-called", report.Error, refusal.Name, message)
		f.Look = look
	case ByCondition:
		object, message, look := conditionFailed(refusal, hooks)
		f = finding("match-condition-failed", report.Error, object, message)
		f.Look = look
	case ByPatch:
		f.Message, f.Look = patchFailed(refusal)
	case ByDryRun:
		f.Message = "no rule refused this: only dry runs are refused, because the webhook's sideEffects are not None or NoneOnDryRun"
		f.Look = getConfigurations + report.Word(callsTemplate) + " | grep -F -e " + report.Word(refusal.Name)
	case ByConversion:
		_, kind, _ := strings.Cut(refusal.Name, "Kind=")
		f.Message = "no admission refused this: the API server could not convert an object of the custom kind " + kind
		f.Look = "kubectl get customresourcedefinitions -o go-template=" + report.Word(conversionsTemplate) + " | grep -F -e " + report.Word(" "+kind+": ")
	case ByWebhook:
		f.Look = "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -o yaml | grep -F -B2 -A20 -e " + report.Word(refusal.Name)
	case ByPolicy:
		f.Message, f.Look = policyRefused(refusal)
	default:
		f.Look = lookAt(refusal)
	}
	return onDisk(f, hooks)
}

// who names who refuses: what is no webhook with its kind.
func (r Refusal) who() string {
	switch r.By {
	case ByQuota, ByPolicy, ByMutation, ByPodSecurity:
		return strings.TrimPrefix(r.By, "a ") + " " + r.Name
	}
	return cmp.Or(r.Name, r.By)
}

// patchFailed says whose patch has failed, and where to look.
func patchFailed(refusal Refusal) (message, look string) {
	look = "kubectl get mutatingwebhookconfigurations -o go-template=" + report.Word(callsTemplate)
	if refusal.Name != "" {
		return "no rule refused this: the webhook answered with a patch, and such a request has no object to patch", look + " | grep -F -e " +
			report.Word(refusal.Name)
	}
	return "the API server could not apply the patch of a mutating webhook, and does not name it; in the audit log it is the last that was called: " +
		"usherctl explain --audit-log FILE NAMESPACE/NAME", look
}

// lookAt returns the command that shows what of Kubernetes itself has refused, in the namespace if it is known; "" if none is known.
func lookAt(refusal Refusal) string {
	in, only := "--all-namespaces", " --field-selector=metadata.name="+report.Word(refusal.Name)
	namespace := " "
	if refusal.Namespace != "" {
		in, only = "-n "+report.Word(refusal.Namespace), " "+report.Word(refusal.Name)
		namespace += report.Word(refusal.Namespace) + " "
	}
	switch refusal.By {
	case ByQuota:
		return "kubectl get resourcequota " + in + only
	case ByMutation:
		return "kubectl get mutatingadmissionpolicy " + report.Word(refusal.Name) + " -o yaml"
	case ByPodSecurity:
		return "kubectl get namespace" + namespace + "--show-labels"
	case ByDisruption:
		return "kubectl get poddisruptionbudget " + in
	case ByLimitRange:
		return "kubectl get limitrange " + in + " -o yaml"
	case ByRBAC:
		return canI(refusal.Text)
	}
	return ""
}

// notAllowed matches what RBAC says of a request.
var notAllowed = regexp.MustCompile(`User "([^"]+)" cannot (\S+) resource "([^"/]+)(?:/([^"]+))?" in API group "([^"]*)"` +
	`(?: in the namespace "([^"]+)")?`)

// canI returns the command that asks whether the user of a request may send it; "" if the text does not say which it was.
func canI(text string) string {
	is := notAllowed.FindStringSubmatch(text)
	if is == nil {
		return ""
	}
	resource := is[3]
	if is[5] != "" {
		resource += "." + is[5]
	}
	look := "kubectl auth can-i " + report.Word(is[2]) + " " + report.Word(resource)
	if is[4] != "" {
		look += " --subresource=" + report.Word(is[4])
	}
	if is[6] != "" {
		look += " -n " + report.Word(is[6])
	}
	return look + " --as=" + report.Word(is[1])
}

// unconfigured matches why a ValidatingAdmissionPolicy refuses every request that it is for.
var unconfigured = regexp.MustCompile(`failed to configure (policy|binding): ([^\n]*)`)

// policyRefused says that a ValidatingAdmissionPolicy has refused, or that it cannot be used, and where to look.
func policyRefused(refusal Refusal) (message, look string) {
	message, look = refusal.By+" refused this, not usher", "kubectl get validatingadmissionpolicy "+report.Word(refusal.Name)+" -o yaml"
	why := unconfigured.FindStringSubmatch(refusal.Text)
	if why == nil {
		return message, look
	}
	message = "the ValidatingAdmissionPolicy " + refusal.Name + " cannot be used, and its failurePolicy is Fail, so it refuses all that it matches: " +
		why[2]
	if binding := policyNote.FindStringSubmatch(refusal.Text)[2]; why[1] == "binding" && binding != "" {
		look = "kubectl get validatingadmissionpolicybinding " + report.Word(binding) + " -o yaml"
	}
	return message, look
}
