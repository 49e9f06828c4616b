package main

import (
	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation"
	"usher.dev/usher/config"
	"usher.dev/usher/gate"
	"usher.dev/usher/handlers"
	"usher.dev/usher/mutators"
	"usher.dev/usher/suite"
	"usher.dev/usher/validators"
)

// suites returns the suites of the program, in the order in which the API server should call them.
func suites() suite.List { return suite.List{core(), colocation.New()} }

// core returns the core suite, which is also the example to learn from.
func core() suite.Suite {
	return suite.Suite{
		Name: coreName, Doc: "what is labelled admission-webhook: enabled", Routes: coreRoutes,
		Kinds: map[metav1.GroupVersionKind]func() any{
			metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")):  func() any { return &corev1.Pod{} },
			metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node")): func() any { return &corev1.Node{} },
		},
	}
}

// coreRoutes returns the routes of the core suite: every path, the requests it is for, and its steps.
func coreRoutes(policy *config.Policy, _ gate.Set) []handlers.Route {
	usual := handlers.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 5, Reinvocation: registration.NeverReinvocationPolicy,
		OptIn: handlers.Label{Key: "admission-webhook", Value: "enabled"}}
	return handlers.OfSuite(coreName, usual, []handlers.Route{
		{Path: "/mutate-pods", For: handlers.Pods(create), Exempt: handlers.MirrorPods, Chain: admit.Mutate(admit.AsPod, mutators.Pods(policy))},
		{Path: "/validate-pods", For: handlers.Pods(create), Exempt: handlers.MirrorPods, Chain: admit.Validate(admit.AsPod, validators.Pods(policy))},
		{Path: "/mutate-nodes", For: handlers.NodeStatus(), Chain: admit.Mutate(admit.AsNode, mutators.Nodes(policy))},
	})
}

const (
	coreName = "core"
	create   = admissionv1.Create
)
