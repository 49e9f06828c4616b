// Package routes has the list of suites, and the routes of the core suite. Whatever serves, registers or explains usher starts here.
package routes

import (
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators"
	"usher.dev/usher/mutators/injection"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/validators"
	"usher.dev/usher/validators/expression"
)

// Suites returns the suites of usher, in the order in which the API server should call them.
func Suites() suite.List { return suite.List{Core(), colocation.Suite()} }

// Core returns the core suite, which is also the example to learn from.
func Core() suite.Suite {
	return suite.Suite{
		Name: coreName, Doc: "what is labelled admission-webhook: enabled",
		Default:      []string{"names", "lifespan", "env", "overcommit", "modes"},
		DefaultModes: "modes:      {denied-names: enforce}          # a rule's name: enforce | warn | dryrun | off; default enforce\n",
		Collections: func(suite.Options) []cluster.Declared {
			return []cluster.Declared{cluster.Namespaces, cluster.LimitRanges}
		},
		Routes: core,
	}
}

// core returns the routes of the core suite: every path, and its steps. A path without For is for the requests that its steps
// judge under the policy.
func core(e suite.Env) []admit.Route {
	usual := admit.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 5, Reinvocation: registration.NeverReinvocationPolicy,
		OptIn: admit.Label{Key: "admission-webhook", Value: "enabled"}}
	specAndMeta := []string{"spec", "metadata.labels", "metadata.annotations"}
	return admit.OfSuite(coreName, usual, []admit.Route{
		{Path: "/mutate-pods", For: admit.Pods(create), Exempt: admit.MirrorPods,
			Call: admit.ReinvokeIf(len(config.SectionOf[injection.Sidecars](e.Policy)) > 0), Chain: suite.Mutate(e, admit.AsPod, mutators.Pods)},
		{Path: "/validate-pods", Reads: specAndMeta, Exempt: admit.MirrorPods, Chain: suite.Validate(e, admit.AsPod, validators.Pods)},
		{Path: "/validate-workloads", Reads: specAndMeta, Exempt: validators.OfWorkload, Conditions: validators.NotOfWorkload(),
			Call: admit.IgnoreUnless(validators.RefusesWorkloads(e.Policy)), Chain: suite.Validate(e, admit.AsWorkload, validators.Workloads)},
		{Path: "/validate-restrictions", NotForUsher: true, Chain: suite.Validate(e, admit.AsMeta, validators.Requests)},
		{Path: "/validate-namespaces", Reads: []string{"metadata.labels"},
			Chain: admit.Validate(admit.AsMeta, validators.Namespaces(e.Policy, usual.OptIn.NamespacesFor()))},
		{Path: "/validate-rules", NotForUsher: true, Chain: suite.Validate(e, admit.AsMeta, objects)},
		{Path: "/mutate-nodes", For: admit.NodeStatus(), Chain: admit.Mutate(admit.AsNode, mutators.Nodes(e.Policy))},
	})
}

// objects returns the validators of objects of any kind.
func objects(policy *config.Policy, ask admit.Questions) []admit.Validator[admit.Meta] {
	return slices.Concat(expression.Objects(policy, ask), validators.Objects(policy, ask))
}

const (
	coreName = "core"
	create   = admissionv1.Create
)
