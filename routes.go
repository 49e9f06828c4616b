package main

import (
	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/config"
	"usher.dev/usher/gate"
	"usher.dev/usher/handlers"
	"usher.dev/usher/mutators"
	"usher.dev/usher/validators"
)

// tutorial is the tutorial's table of contents: every path, the requests it is for, and its steps.
func tutorial(policy *config.Policy) []handlers.Route {
	usual := handlers.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 5, Reinvocation: registration.NeverReinvocationPolicy}
	return handlers.OfSuite(handlers.Tutorial, usual, []handlers.Route{
		{Path: "/mutate-pods", For: pods(create), Exempt: mirrorPods, Chain: admit.Mutate(admit.AsPod, mutators.Pods(policy))},
		{Path: "/validate-pods", For: pods(create), Exempt: mirrorPods, Chain: admit.Validate(admit.AsPod, validators.Pods(policy))},
		{Path: "/mutate-nodes", For: nodeStatus(), Chain: admit.Mutate(admit.AsNode, mutators.Nodes(policy))},
	})
}

const create, update = admissionv1.Create, admissionv1.Update

func pods(on ...admissionv1.Operation) handlers.Match {
	return handlers.Namespaced(corev1.SchemeGroupVersion.WithKind("Pod"), on, "pods")
}

// nodeStatus is what kubelets write of their nodes: heartbeats.
func nodeStatus() handlers.Match {
	return handlers.ClusterScoped(corev1.SchemeGroupVersion.WithKind("Node"), []admissionv1.Operation{update}, "nodes/status")
}

// mirrorPods exempts what a kubelet stores of its static pods: it runs those whatever admission says.
func mirrorPods(req *admit.Request) string {
	if req.MirrorPod() {
		return "mirror pod of the kubelet that asks"
	}
	return ""
}

// table is all suites' rows.
func table(w world) []handlers.Route {
	return append(tutorial(w.policy), colocation(w)...)
}

// routes are the routes of the table that the gates leave, with the steps that they leave, in the modes of the policy. A new policy makes
// new routes.
func routes(w world) (served []handlers.Route) {
	for _, r := range table(w) {
		r.Chain = r.Chain.Gated(w.gates.On).WithModes(w.policy.Modes)
		if w.gates.On(r.Gate) && len(r.Chain.Steps()) > 0 {
			served = append(served, r)
		}
	}
	return served
}

// world is what the chains are made of.
type world struct {
	policy *config.Policy
	gates  gate.Set
	state  state
	// known says which ConfigMaps steps read.
	known clusterOptions
}

// policySchema is what a policy file may hold.
func policySchema() config.Schema {
	schema := config.Schema{Sections: sections.All(), Default: sections.Default}
	for _, route := range table(world{policy: &config.Policy{}, gates: defaultGates()}) {
		for _, step := range route.Chain.Steps() {
			schema.Steps = append(schema.Steps, step.Name)
		}
	}
	return schema
}
