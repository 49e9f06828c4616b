package main

import (
	"slices"

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
			return coreRoutes(suite.World{Policy: policy, Cluster: state})
		},
		Kinds: map[metav1.GroupVersionKind]func() any{
			metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")):  func() any { return &corev1.Pod{} },
			metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node")): func() any { return &corev1.Node{} },
		},
	}
}

// coreRoutes returns the routes of the core suite: every path, the requests it is for, and its steps.
func coreRoutes(w suite.World) []handlers.Route {
	usual := handlers.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 5, Reinvocation: registration.NeverReinvocationPolicy,
		OptIn: handlers.Label{Key: "admission-webhook", Value: "enabled"}}
	specAndMeta := []string{"spec", "metadata.labels", "metadata.annotations"}
	return handlers.OfSuite(coreName, usual, []handlers.Route{
		{Path: "/mutate-pods", For: handlers.Pods(create), Exempt: handlers.MirrorPods, Call: handlers.ReinvokeIf(len(w.Policy.Sidecars) > 0),
			Chain: suite.Mutate(w, admit.AsPod, mutators.Pods)},
		{Path: "/validate-pods", Reads: specAndMeta, Exempt: handlers.MirrorPods,
			For: slices.Concat(handlers.Pods(validators.PodOperations(w.Policy)...),
				handlers.EphemeralContainers(validators.EphemeralOperations(w.Policy)...)),
			Chain: suite.Validate(w, admit.AsPod, validators.Pods)},
		{Path: "/validate-workloads", For: handlers.Workloads(validators.WorkloadOperations(w.Policy)...), Reads: specAndMeta,
			Chain: suite.Validate(w, admit.AsWorkload, validators.Workloads)},
		{Path: "/validate-restrictions", For: handlers.AnyKind(w.Policy.Restrictions.Rules()), NotForUsher: true,
			Chain: suite.Validate(w, admit.AsMeta, validators.Restrictions)},
		{Path: "/validate-namespaces", For: guardedNamespaces(w.Policy), Reads: []string{"metadata.labels"},
			Chain: admit.Validate(admit.AsMeta, validators.Namespaces(w.Policy, usual.OptIn.NamespacesFor()))},
		{Path: "/validate-rules", For: handlers.AnyKind(w.Policy.Rules.Rules()), NotForUsher: true,
			Chain: suite.Validate(w, admit.AsMeta, validators.Objects)},
		{Path: "/mutate-nodes", For: handlers.NodeStatus(), Chain: admit.Mutate(admit.AsNode, mutators.Nodes(w.Policy))},
	})
}

// guardedNamespaces matches the updates that could free a namespace of a restriction.
func guardedNamespaces(policy *config.Policy) []handlers.Match {
	if len(policy.Restrictions) == 0 {
		return nil
	}
	return handlers.Namespaces(update)
}

const (
	coreName = "core"
	create   = admissionv1.Create
	update   = admissionv1.Update
)
