package main

import (
	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
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
	var state *cluster.Cluster // nil while routes are only listed
	return suite.Suite{
		Name: coreName, Doc: "what is labelled admission-webhook: enabled",
		Catalogue: func() []cluster.Declared { return []cluster.Declared{cluster.Namespaces, cluster.LimitRanges} },
		Use:       func(opened *cluster.Cluster) { state = opened },
		Routes: func(policy *config.Policy, _ gate.Set) []handlers.Route {
			return coreRoutes(policy, func(of func(admit.Questions) admit.Chain) admit.Chain {
				return admit.PerStep(func(needs []string) admit.Chain { return of(state.Reader(needs).Questions()) })
			})
		},
		Kinds: map[metav1.GroupVersionKind]func() any{
			metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")):  func() any { return &corev1.Pod{} },
			metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node")): func() any { return &corev1.Node{} },
		},
	}
}

// coreRoutes returns the routes of the core suite: every path, the requests it is for, and its steps. chain builds a
// chain whose steps may ask about the cluster.
func coreRoutes(policy *config.Policy, chain func(func(admit.Questions) admit.Chain) admit.Chain) []handlers.Route {
	usual := handlers.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 5, Reinvocation: registration.NeverReinvocationPolicy,
		OptIn: handlers.Label{Key: "admission-webhook", Value: "enabled"}}
	return handlers.OfSuite(coreName, usual, []handlers.Route{
		{Path: "/mutate-pods", For: handlers.Pods(create), Exempt: handlers.MirrorPods, Chain: chain(func(ask admit.Questions) admit.Chain {
			return admit.Mutate(admit.AsPod, mutators.Pods(policy, ask))
		})},
		{Path: "/validate-pods", For: handlers.Pods(create), Exempt: handlers.MirrorPods, Chain: chain(func(ask admit.Questions) admit.Chain {
			return admit.Validate(admit.AsPod, validators.Pods(policy, ask))
		})},
		{Path: "/mutate-nodes", For: handlers.NodeStatus(), Chain: admit.Mutate(admit.AsNode, mutators.Nodes(policy))},
	})
}

const (
	coreName = "core"
	create   = admissionv1.Create
)
