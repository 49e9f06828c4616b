package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/selector"
	"usher.dev/usher/usherctl/doctor/connectivity"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/webhookmatch"
)

// criticalRequests returns the requests to ask of a webhook whose server, and the pods of it, have some labels.
func criticalRequests(t connectivity.Target, served []connectivity.Labels) (all []criticalRequest) {
	for _, n := range needs {
		all = append(all, n.requests(nil)...)
	}
	all = append(all, newPods("fail-kube-system", "kube-system",
		"pods in kube-system: DNS, network and storage cannot start while it does not answer, and "+
			"it may need them to start").requests(map[string]string{"k8s-app": "kube-dns"})...)
	own := t.Service.Namespace
	if t.URL != "" || own == "" || own == "kube-system" {
		return all
	}
	if len(served) == 0 {
		served = []connectivity.Labels{{}}
	}
	for _, s := range served {
		for _, n := range ownNeeds {
			labels := s.Pods
			if n.resource == "deployments" {
				labels = s.Own
			}
			n.namespace, n.why = own, n.why+", in its own namespace, "+own
			all = append(all, n.requests(labels)...)
		}
		all = append(all, newPods("fail-own-namespace", own,
			"pods in its own namespace, "+own+": once its pods are gone, none can be created again").requests(s.Pods)...)
	}
	return all
}

// calls returns what a webhook calls, without a Service that does not exist in a namespace that does not, either.
func (f *snapshot) calls(w entry) connectivity.Target {
	t := connectivity.TargetOf(w.ClientConfig)
	exists := f.namespaces == nil || slices.ContainsFunc(f.namespaces, func(n corev1.Namespace) bool { return n.Name == t.Service.Namespace })
	if !exists && f.reach.Missing(t) {
		return connectivity.Target{}
	}
	return t
}

// asksLabels reports whether the labels of an object may decide whether a webhook is called for it.
func (w entry) asksLabels() bool {
	return !selector.Empty(w.ObjectSelector) || slices.ContainsFunc(w.MatchConditions,
		func(m registration.MatchCondition) bool { return strings.Contains(m.Expression, "labels") })
}

// lockOutProblems returns the findings for requests that a cluster lives on and that a webhook with failurePolicy Fail
// is called for, one for each kind. Its server and the pods of it have some labels.
func lockOutProblems(w entry, served []connectivity.Labels, f *snapshot) (found []report.Finding) {
	if !w.fails() {
		return nil
	}
	var ids []string
	var critical []criticalRequest
	called := map[string][]criticalRequest{}
	for _, v := range criticalRequests(f.calls(w), served) {
		if !w.calledFor(v, f) {
			continue
		}
		if len(called[v.id]) == 0 {
			ids = append(ids, v.id)
		}
		called[v.id], critical = append(called[v.id], v), append(critical, v)
	}
	var spared []criticalRequest
	for _, id := range ids {
		if w.sparable(called[id], critical, f) {
			spared = append(spared, called[id]...)
		}
	}
	for _, id := range ids {
		about := w.keepAway(called[id], spared, f)
		next := problem(id, about, "failurePolicy is Fail, and the webhook is called for %s.", reasons(called[id]))
		if w.needed != nil && !about.restored { // whoever wrote the policy has weighed it
			next.Message, next.Severity = next.Message+" usher's policy asks for it.", report.Info
		} else if w.ushers() && w.home.Unknown != nil {
			next.Message, next.Severity = next.Message+" Whether usher's policy asks for it is not known.", report.Unknown
			next.Fix, next.Look = "", w.show()
		} else if why := chosen[w.Name]; why != "" {
			next.Message, next.Severity, next.Fix, next.Look = next.Message+" "+why, report.Info, "", w.show()
		} else if id == "fail-own-namespace" && w.asksLabels() && len(served) > 0 && served[0].Assumed {
			next.Message += " The labels of its pods are not known: only those that its Service selects were looked at."
			next.Severity, next.Fix, next.Look = report.Unknown, "", w.show()
		}
		found = append(found, next)
	}
	if everything(w.Rules) {
		found = append(found, problem("rule-everything", w.about(), "a rule matches every resource (*/*) of every group: requests "+
			"of the control plane fail or wait with the webhook. Name the resources that it is for."))
	}
	return found
}

// reasons says why some requests must not depend on a webhook: of the first three, and what the others are.
func reasons(all []criticalRequest) string {
	const shown = 3
	var texts, more []string
	for _, v := range all {
		name, _, _ := strings.Cut(v.why, ":")
		switch {
		case slices.Contains(texts, v.why) || slices.Contains(more, name):
		case len(texts) < shown:
			texts = append(texts, v.why)
		default:
			more = append(more, name)
		}
	}
	text := strings.Join(texts, "; for ")
	if len(more) > 0 {
		text += "; and for " + report.List(more)
	}
	return text
}

// everything reports whether a rule is for all resources of all groups.
func everything(rules []registration.RuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(r registration.RuleWithOperations) bool {
		return slices.Contains(r.APIGroups, "*") && slices.Contains(r.Resources, "*/*")
	})
}

// chosen has the reasons for webhooks that refuse critical requests by the choice of their vendors.
var chosen = map[string]string{
	"check-ignore-label.gatekeeper.sh": "This is Gatekeeper's default: otherwise, the right to label a namespace would be the right to bypass all " +
		"constraints in it while the webhook is away. Run several replicas of it.",
	"mservice.elbv2.k8s.aws": "The AWS Load Balancer Controller ships it so: it makes itself the controller of each new Service of type LoadBalancer, " +
		"and one that it missed would be left to the cloud provider's. Run several replicas of it, or switch its mutator of Services off " +
		"(enableServiceMutatorWebhook: false).",
}

// keepAway returns what keeps a webhook away from some requests. spared are the requests of all findings about the webhook that a match condition
// can leave out: each command sets all conditions, and must not undo another.
func (w entry) keepAway(all, spared []criticalRequest, f *snapshot) subject {
	about := w.about()
	if slices.ContainsFunc(spared, func(v criticalRequest) bool { return v.id == all[0].id }) {
		about = w.lacks("matchConditions", append(slices.Clone(w.MatchConditions), w.sparing(spared)))
	}
	if w.ushers() && w.needed != nil {
		restored := w
		restored.Hook = *w.needed
		about.restored = !slices.ContainsFunc(all, func(v criticalRequest) bool { return restored.fails() && restored.calledFor(v, f) })
	}
	return about
}

// sparable reports whether a match condition can leave out some requests, and the webhook is still called for one of them in a namespace that none of
// the critical ones is in. It could be meant for what is in no namespace, or in default. Those of usher follow from its policy.
func (w entry) sparable(all, critical []criticalRequest, f *snapshot) bool {
	const most, since = 64, 30 // match conditions, which the API server stores since 1.30
	var besides []string
	for _, v := range critical {
		besides = append(besides, v.namespace)
	}
	return !w.ushers() && chosen[w.Name] == "" && len(w.MatchConditions) < most && (f.minor == 0 || f.minor >= since) &&
		!slices.ContainsFunc(all, func(v criticalRequest) bool { return v.namespace == "" || v.namespace == "default" }) &&
		slices.ContainsFunc(all, func(v criticalRequest) bool { return w.calledElsewhere(v, besides, f) })
}

// sparing returns the match condition that leaves out some requests, and nothing else. Fields that a request may lack are asked for before.
func (w entry) sparing(all []criticalRequest) registration.MatchCondition {
	var terms []string
	for _, q := range all {
		base, sub, _ := strings.Cut(q.resource, "/")
		is := "!has(request.subResource)"
		if sub != "" {
			is = fmt.Sprintf("has(request.subResource) && request.subResource == %q", sub)
		}
		terms = append(terms, fmt.Sprintf("request.operation == %q && request.resource.group == %q && request.resource.resource == %q && %s && "+
			"has(request.namespace) && request.namespace == %q", q.operation, q.group, base, is, q.namespace))
	}
	name := "not-essential"
	for slices.ContainsFunc(w.MatchConditions, func(m registration.MatchCondition) bool { return m.Name == name }) {
		name += "-too"
	}
	return registration.MatchCondition{Name: name, Expression: "!(" + strings.Join(once(terms), " || ") + ")"}
}

// calledFor reports whether the API server calls a webhook for a request. What cannot be told is no.
func (w entry) calledFor(q criticalRequest, f *snapshot) bool {
	verdict := f.matcher.One(context.Background(), q.request(f), w.hook())
	return verdict.Called || verdict.Refuses
}

// calledElsewhere reports whether a webhook is called for a request in a namespace besides some.
func (w entry) calledElsewhere(q criticalRequest, besides []string, f *snapshot) bool {
	names := []string{"default"}
	for _, n := range f.namespaces {
		names = append(names, n.Name)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		q.namespace = name
		return !slices.Contains(besides, name) && w.calledFor(q, f)
	})
}

// hook returns the webhook as matching takes it.
func (w entry) hook() webhookmatch.Hook {
	return webhookmatch.Hook{Configuration: w.configuration.Name, Mutating: w.mutating(), File: w.file,
		ValidatingWebhook: registration.ValidatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds,
			AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
		}}
}

// hooksOf returns webhooks as matching takes them.
func hooksOf(all []entry) (hooks []webhookmatch.Hook) {
	for _, w := range all {
		hooks = append(hooks, w.hook())
	}
	return hooks
}

// request returns the request with the labels of its namespace.
func (q criticalRequest) request(f *snapshot) webhookmatch.Request {
	base, sub, _ := strings.Cut(q.resource, "/")
	resource := metav1.GroupVersionResource{Group: q.group, Version: "v1", Resource: base}
	kind := metav1.GroupVersionKind{Group: q.group, Version: "v1", Kind: q.kind}
	switch q.kind { // of another group than the resource
	case "TokenRequest":
		kind.Group = authenticationv1.GroupName
	case "Eviction":
		kind.Group = policyv1.GroupName
	}
	name := "sample"
	if q.kind == "Pod" && q.operation == registration.Create {
		name = "" // it is generated later
	}
	metadata := map[string]any{"name": name, "labels": q.labels}
	if q.namespace != "" {
		metadata["namespace"] = q.namespace
	}
	object, _ := json.Marshal(map[string]any{"apiVersion": schema.GroupVersion{Group: q.group, Version: "v1"}.String(), "kind": q.kind,
		"metadata": metadata, "spec": map[string]any{}})
	request := &admissionv1.AdmissionRequest{UID: "doctor", Kind: kind, RequestKind: &kind, Resource: resource, RequestResource: &resource,
		SubResource: sub, RequestSubResource: sub, Name: name, Namespace: q.namespace, Operation: admissionv1.Operation(q.operation),
		UserInfo: authenticationv1.UserInfo{Username: q.by.user, Groups: []string{q.by.group, "system:authenticated"}},
		Object:   runtime.RawExtension{Raw: object}}
	if q.operation != registration.Create {
		request.OldObject = request.Object
	}
	if q.kind == "Namespace" && q.operation == registration.Update {
		request.Object.Raw = bytes.Replace(object, []byte(`"labels":null`), fmt.Appendf(nil, `"labels":{%q:"true"}`, admit.ExemptLabel), 1)
	}
	return webhookmatch.Request{AdmissionRequest: request, InNamespace: webhookmatch.Namespace{Labels: labelsOfNamespace(f.namespaces, q.namespace)},
		SendsVirtualResources: f.minor == 0 || f.minor < virtualEnd}
}

// labelsOfNamespace returns the labels of a namespace, or the label with its name if it is unknown.
func labelsOfNamespace(namespaces []corev1.Namespace, name string) map[string]string {
	for _, n := range namespaces {
		if n.Name == name {
			return n.Labels
		}
	}
	return map[string]string{corev1.LabelMetadataName: name}
}
