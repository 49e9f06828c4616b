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
	"usher.dev/usher/usherctl/doctor/connectivity"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/webhookmatch"
)

// criticalRequests returns the requests to ask of a webhook that calls a Service with a selector.
func criticalRequests(t connectivity.Target, selector map[string]string) (all []criticalRequest) {
	for _, n := range needs {
		all = append(all, n.requests(nil)...)
	}
	all = append(all, newPods("fail-kube-system", "kube-system",
		"pods in kube-system: DNS, network and storage cannot start while it does not answer, and "+
			"it may need them to start").requests(map[string]string{"k8s-app": "kube-dns"})...)
	own := t.Service.Namespace
	if t.URL != "" || own == "kube-system" {
		return all
	}
	for _, n := range ownNeeds {
		n.namespace, n.why = own, n.why+", in its own namespace, "+own
		all = append(all, n.requests(selector)...)
	}
	return append(all, newPods("fail-own-namespace", own,
		"pods in its own namespace, "+own+": once its pods are gone, none can be created again").requests(selector)...)
}

// lockOutProblems returns the findings for requests that a cluster lives on and that a webhook with failurePolicy Fail
// is called for, one for each kind. The pods of what it calls have the labels of a selector.
func lockOutProblems(w entry, selector map[string]string, f *snapshot) (found []report.Finding) {
	if !w.fails() {
		return nil
	}
	var ids []string
	var leaveOut []string
	called := map[string][]criticalRequest{}
	for _, v := range criticalRequests(connectivity.TargetOf(w.ClientConfig), selector) {
		if !w.calledFor(v, f) {
			continue
		}
		if len(called[v.id]) == 0 {
			ids = append(ids, v.id)
		}
		if called[v.id] = append(called[v.id], v); v.namespace != "" && v.namespace != "default" {
			leaveOut = append(leaveOut, v.namespace)
		}
	}
	for _, id := range ids {
		about := w.keepAway(called[id], leaveOut, f)
		next := problem(id, about, "failurePolicy is Fail, and the webhook is called for %s.", reasons(called[id]))
		if w.needed != nil && !about.restored { // whoever wrote the policy has weighed it
			next.Message, next.Severity = next.Message+" usher's policy asks for it.", report.Info
		} else if w.ushers() && w.home.Unknown != nil {
			next.Message, next.Severity = next.Message+" Whether usher's policy asks for it is not known.", report.Unknown
			next.Fix, next.Look = "", w.show()
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

// keepAway returns what keeps a webhook away from some requests. leaveOut are the namespaces that all findings about the
// webhook are about: each command sets the whole selector, and must not undo another. What is in no namespace, or in default,
// cannot be left out so, and a webhook that is meant for these namespaces would be left out altogether.
func (w entry) keepAway(all []criticalRequest, leaveOut []string, f *snapshot) subject {
	about := w.lacks("failurePolicy", registration.Ignore)
	if leavable := !slices.ContainsFunc(all, func(v criticalRequest) bool { return !slices.Contains(leaveOut, v.namespace) }); leavable &&
		slices.ContainsFunc(all, func(v criticalRequest) bool { return w.calledElsewhere(v, leaveOut, f) }) {
		about = w.lacks("namespaceSelector", without(w.NamespaceSelector, leaveOut))
	}
	if w.ushers() && w.needed != nil {
		restored := w
		restored.Hook = *w.needed
		about.restored = !slices.ContainsFunc(all, func(v criticalRequest) bool { return restored.fails() && restored.calledFor(v, f) })
	}
	return about
}

// without returns a namespaceSelector that also leaves out some namespaces.
func without(s *metav1.LabelSelector, names []string) *metav1.LabelSelector {
	selector := &metav1.LabelSelector{}
	if s != nil {
		selector = s.DeepCopy()
	}
	for i, r := range selector.MatchExpressions {
		if r.Key == corev1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpNotIn {
			selector.MatchExpressions[i].Values = once(slices.Concat(r.Values, names))
			return selector
		}
	}
	selector.MatchExpressions = append(selector.MatchExpressions,
		metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: once(names)})
	return selector
}

// once returns names sorted, each once.
func once(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

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
