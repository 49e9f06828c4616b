package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/command/doctor/reach"
	"usher.dev/usher/command/review"
	"usher.dev/usher/command/webhookmatch"
)

// sampleRequest is a request that webhooks are compared with.
type sampleRequest struct {
	group, version, kind, resource, sub string
	namespace, name                     string
	operation                           registration.OperationType
	user                                string
	groups                              []string
	labels                              map[string]string
}

const (
	kubelet    = "system:node:node-1"
	nodesGroup = "system:nodes"
)

// newPod is the creation of a pod by the controller of a ReplicaSet.
func newPod(namespace string, labels map[string]string) sampleRequest {
	return sampleRequest{version: "v1", kind: "Pod", resource: "pods", namespace: namespace, name: "", operation: registration.Create,
		user: "system:serviceaccount:kube-system:replicaset-controller", groups: []string{"system:serviceaccounts",
			"system:authenticated"}, labels: labels}
}

func byKubelet(q sampleRequest) sampleRequest {
	q.user, q.groups = kubelet, []string{nodesGroup, "system:authenticated"}
	return q
}

// surroundings hold what else decides whether a webhook is called, besides the webhook and the request.
type surroundings struct {
	namespaces []corev1.Namespace // of the cluster; an unknown one has no label but its name
	virtual    bool               // webhooks are called for TokenReviews and the like
	matcher    *webhookmatch.Matcher
}

// criticalRequest is a request that must not depend on a webhook, with the finding for a webhook with failurePolicy Fail.
type criticalRequest struct {
	id string
	sampleRequest
	leaveOut []string // the namespaces that the fix keeps the webhook away from
	why      string
}

// criticalRequests returns the requests to ask of a webhook that calls a Service with a selector.
func criticalRequests(t reach.Target, selector map[string]string) []criticalRequest {
	lease := sampleRequest{group: "coordination.k8s.io", version: "v1", kind: "Lease", resource: "leases", operation: registration.Update,
		name: "node-1"}
	nodeLease, leader := lease, lease
	nodeLease.namespace, leader.namespace, leader.name = "kube-node-lease", "kube-system", "kube-controller-manager"
	leases := []string{nodeLease.namespace, leader.namespace}
	leader.user, leader.groups = "system:kube-controller-manager", []string{"system:authenticated"}
	node := sampleRequest{version: "v1", kind: "Node", resource: "nodes", name: "node-1", operation: registration.Create}
	status := node
	status.sub, status.operation = "status", registration.Update
	event := sampleRequest{version: "v1", kind: "Event", resource: "events", namespace: "default", name: "event", operation: registration.Create}
	all := []criticalRequest{
		{"fail-token-reviews", sampleRequest{group: "authentication.k8s.io", version: "v1", kind: "TokenReview", resource: "tokenreviews",
			operation: registration.Create, user: kubelet, groups: []string{nodesGroup}}, nil, "TokenReviews: before Kubernetes 1.37 the API server " +
			"sends them to webhooks, so that no token is accepted by others, the webhook itself among them, while it does not answer"},
		{"fail-token-reviews", sampleRequest{group: "authorization.k8s.io", version: "v1", kind: "SubjectAccessReview",
			resource: "subjectaccessreviews", operation: registration.Create, user: kubelet, groups: []string{nodesGroup}}, nil, "SubjectAccessReviews: before Kubernetes 1.37 the " +
			"API server sends them to webhooks, so that kubelets and aggregated API servers refuse everyone while it does not answer"},
		{"fail-nodes", byKubelet(status), nil, "the status of nodes, by which kubelets report: nodes go NotReady while it does not " +
			"answer, also the one that it runs on"},
		{"fail-nodes", byKubelet(node), nil, "new nodes: none can join the cluster while it does not answer"},
		{"fail-leases", byKubelet(nodeLease), leases, "the leases of nodes: they go NotReady while it does not answer, " +
			"also the one that it runs on"},
		{"fail-leases", leader, leases, "the leases in kube-system, by which the controller manager and the scheduler " +
			"elect a leader: they stop while it does not answer, so that no pod comes back"},
		{"fail-kube-system", newPod("kube-system", map[string]string{"k8s-app": "kube-dns"}), []string{"kube-system"}, "pods in kube-system: " +
			"DNS, network and storage cannot start while it does not answer, and it may need them to start"},
		{"fail-events", byKubelet(event), nil, "events, of which there are many: they are lost while it does not answer, and each " +
			"costs a call"},
	}
	if t.URL == "" {
		why := "pods in its own namespace, " + t.Service.Namespace + ": once its pods are gone, none can be created again"
		all = append(all, criticalRequest{"fail-own-namespace", newPod(t.Service.Namespace, selector), []string{t.Service.Namespace}, why})
	}
	return all
}

// lockOutProblems returns the findings for requests that a cluster lives on and that a webhook with failurePolicy Fail
// is called for. The pods of what it calls have the labels of a selector.
func lockOutProblems(w entry, selector map[string]string, s surroundings) (found []review.Finding) {
	if !w.fails() {
		return nil
	}
	t := reach.TargetOf(w.ClientConfig)
	var called []criticalRequest
	var leaveOut []string
	for _, v := range criticalRequests(t, selector) {
		again := slices.ContainsFunc(called, func(other criticalRequest) bool { return other.id == v.id })
		if again || v.id == "fail-own-namespace" && t.Service.Namespace == "kube-system" || !w.calledFor(v.sampleRequest, s) {
			continue
		}
		called, leaveOut = append(called, v), append(leaveOut, v.leaveOut...)
	}
	for _, v := range called {
		found = append(found, problem(v.id, w.keepAway(v, leaveOut), "failurePolicy is Fail, and the webhook is called for %s.", v.why))
	}
	if everything(w.Rules) {
		found = append(found, problem("rule-everything", w.about(), "a rule matches every resource (*/*) of every group: requests "+
			"of the control plane fail or wait with the webhook. Name the resources that it is for."))
	}
	return found
}

// everything reports whether a rule is for all resources of all groups.
func everything(rules []registration.RuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(r registration.RuleWithOperations) bool {
		return slices.Contains(r.APIGroups, "*") && slices.Contains(r.Resources, "*/*")
	})
}

// keepAway returns the field that keeps a webhook away from a request. leaveOut are the namespaces that all findings about
// the webhook are about: each fix sets the whole selector, and must not undo another.
func (w entry) keepAway(v criticalRequest, leaveOut []string) subject {
	if v.leaveOut == nil {
		return w.lacks("failurePolicy", registration.Ignore)
	}
	selector := &metav1.LabelSelector{}
	if w.NamespaceSelector != nil {
		selector = w.NamespaceSelector.DeepCopy()
	}
	for i, r := range selector.MatchExpressions {
		if r.Key == corev1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpNotIn {
			selector.MatchExpressions[i].Values = once(slices.Concat(r.Values, leaveOut))
			return w.lacks("namespaceSelector", selector)
		}
	}
	selector.MatchExpressions = append(selector.MatchExpressions,
		metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: once(leaveOut)})
	return w.lacks("namespaceSelector", selector)
}

// once returns names sorted, each once.
func once(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// calledFor reports whether the API server calls a webhook for a request. What cannot be told is no.
func (w entry) calledFor(q sampleRequest, s surroundings) bool {
	verdict := s.matcher.One(context.Background(), q.request(s), w.hook())
	return verdict.Called || verdict.Refuses
}

// hook returns the webhook as matching takes it.
func (w entry) hook() webhookmatch.Hook {
	return webhookmatch.Hook{Configuration: w.configuration.Name, Mutating: w.mutating(), ValidatingWebhook: registration.ValidatingWebhook{
		Name: w.Name, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy, NamespaceSelector: w.NamespaceSelector,
		ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects, MatchConditions: w.MatchConditions,
	}}
}

// request returns the sample with the labels of its namespace.
func (q sampleRequest) request(s surroundings) webhookmatch.Request {
	resource := metav1.GroupVersionResource{Group: q.group, Version: q.version, Resource: q.resource}
	kind := metav1.GroupVersionKind{Group: q.group, Version: q.version, Kind: q.kind}
	metadata := map[string]any{"name": q.name, "labels": q.labels}
	if q.namespace != "" {
		metadata["namespace"] = q.namespace
	}
	object, _ := json.Marshal(map[string]any{"apiVersion": schema.GroupVersion{Group: q.group, Version: q.version}.String(), "kind": q.kind,
		"metadata": metadata, "spec": map[string]any{}})
	request := &admissionv1.AdmissionRequest{UID: "doctor", Kind: kind, RequestKind: &kind, Resource: resource, RequestResource: &resource,
		SubResource: q.sub, RequestSubResource: q.sub, Name: q.name, Namespace: q.namespace, Operation: admissionv1.Operation(q.operation),
		UserInfo: authenticationv1.UserInfo{Username: q.user, Groups: q.groups}, Object: runtime.RawExtension{Raw: object}}
	if q.operation != registration.Create {
		request.OldObject = request.Object
	}
	return webhookmatch.Request{AdmissionRequest: request, InNamespace: webhookmatch.Namespace{Labels: labelsOfNamespace(s.namespaces, q.namespace)},
		SendsVirtualResources: s.virtual}
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

// conditionProblems returns the finding for match conditions that do not compile.
func conditionProblems(w entry, matcher *webhookmatch.Matcher) []review.Finding {
	var wrong []string
	for i, m := range w.MatchConditions {
		if err := matcher.Compile(m); err != nil {
			wrong = append(wrong, fmt.Sprintf("matchConditions[%d] (%s): %s", i, m.Name, strings.Join(strings.Fields(err.Error()), " ")))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return []review.Finding{problem("match-condition-invalid", w.about(), "%s. Correct the expression. %s", strings.Join(wrong, "; "), w.consequence())}
}
