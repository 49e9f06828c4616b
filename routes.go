package main

import (
	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/document"
	"usher.dev/usher/handlers"
	"usher.dev/usher/mutators"
	"usher.dev/usher/validators"
)

// routes is the table of contents: every path, the requests it is for, and its chain. A new policy makes a new table.
func routes(policy *config.Policy) []handlers.Route {
	return []handlers.Route{
		{
			Path: "/mutate-pods", Suite: handlers.Tutorial,
			Kind: kind("Pod"), Resources: []string{"pods"}, Operations: onCreate, Scope: registration.NamespacedScope,
			Webhook: "mutate-pods.usher.dev", FailurePolicy: registration.Fail, TimeoutSeconds: 5,
			SideEffects: registration.SideEffectClassNone, Reinvocation: registration.NeverReinvocationPolicy,
			Exempt: mirrorPods,
			Chain:  admit.Mutate(admit.AsPod, policy.Modes, mutators.Pods(policy)),
		},
		{
			Path: "/validate-pods", Suite: handlers.Tutorial,
			Kind: kind("Pod"), Resources: []string{"pods"}, Operations: onCreate, Scope: registration.NamespacedScope,
			Webhook: "validate-pods.usher.dev", FailurePolicy: registration.Fail, TimeoutSeconds: 5,
			SideEffects: registration.SideEffectClassNone,
			Exempt:      mirrorPods,
			Chain:       admit.Validate(admit.AsPod, policy.Modes, validators.Pods(policy)),
		},
		{
			Path: "/mutate-nodes", Suite: handlers.Tutorial,
			Kind: kind("Node"), Resources: []string{"nodes/status"}, Operations: onUpdate, Scope: registration.ClusterScope,
			Webhook: "mutate-nodes.usher.dev", FailurePolicy: registration.Ignore, TimeoutSeconds: 2,
			SideEffects: registration.SideEffectClassNone, Reinvocation: registration.NeverReinvocationPolicy,
			Heartbeat: true,
			Chain:     admit.Mutate(admit.AsNode, policy.Modes, mutators.Nodes(policy)),
		},
	}
}

var (
	onCreate = []admissionv1.Operation{admissionv1.Create}
	onUpdate = []admissionv1.Operation{admissionv1.Update}
)

func kind(name string) metav1.GroupVersionKind {
	return metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind(name))
}

// mirrorPods exempts the API server's pictures of static pods: the kubelet runs those whatever admission says.
func mirrorPods(object *document.Document) string {
	if admit.MirrorPod(object) {
		return "mirror pod"
	}
	return ""
}

// stepNames are the names that the policy's modes may use.
func stepNames() []string {
	var names []string
	for _, route := range routes(&config.Policy{}) {
		for _, step := range route.Chain.Steps() {
			names = append(names, step.Name)
		}
	}
	return names
}
