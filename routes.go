package main

import (
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators"
	"usher.dev/usher/mutators/injection"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/validators"
	"usher.dev/usher/validators/expression"
)

// suites returns the suites of the program, in the order in which the API server should call them.
func suites() suite.List { return suite.List{core(), colocation.New()} }

// core returns the core suite, which is also the example to learn from.
func core() suite.Suite {
	var state *cluster.Cluster // nil while routes are only listed
	return suite.Suite{
		Name: coreName, Doc: "what is labelled admission-webhook: enabled",
		Default:      []string{"names", "lifespan", "env", "overcommit", "modes"},
		DefaultModes: "modes:      {denied-names: enforce}          # a rule's name: enforce | warn | dryrun | off; default enforce\n",
		Catalogue:    func() []cluster.Declared { return []cluster.Declared{cluster.Namespaces, cluster.LimitRanges} },
		Use:          func(opened *cluster.Cluster) { state = opened },
		Routes: func(policy *config.Policy, _ gate.Set) []admit.Route {
			return coreRoutes(suite.Deps{Policy: policy, Cluster: state})
		},
		Kinds: suite.TypesOfPods(),
	}
}

// coreRoutes returns the routes of the core suite: every path, and its steps. A path without For is for the requests that
// its steps judge under the policy.
func coreRoutes(d suite.Deps) []admit.Route {
	usual := admit.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 5, Reinvocation: registration.NeverReinvocationPolicy,
		OptIn: admit.Label{Key: "admission-webhook", Value: "enabled"}}
	specAndMeta := []string{"spec", "metadata.labels", "metadata.annotations"}
	return admit.OfSuite(coreName, usual, []admit.Route{
		{Path: "/mutate-pods", For: admit.Pods(create), Exempt: admit.MirrorPods, Call: admit.ReinvokeIf(len(config.SectionOf[injection.Sidecars](d.Policy)) > 0),
			Chain: suite.Mutate(d, admit.AsPod, mutators.Pods)},
		{Path: "/validate-pods", Reads: specAndMeta, Exempt: admit.MirrorPods, Chain: suite.Validate(d, admit.AsPod, validators.Pods)},
		{Path: "/validate-workloads", Reads: specAndMeta, Exempt: validators.OfWorkload, Conditions: validators.NotOfWorkload(),
			Call: admit.IgnoreUnless(validators.RefusesWorkloads(d.Policy)), Chain: suite.Validate(d, admit.AsWorkload, validators.Workloads)},
		{Path: "/validate-restrictions", NotForUsher: true, Chain: suite.Validate(d, admit.AsMeta, validators.Requests)},
		{Path: "/validate-namespaces", Reads: []string{"metadata.labels"},
			Chain: admit.Validate(admit.AsMeta, validators.Namespaces(d.Policy, usual.OptIn.NamespacesFor()))},
		{Path: "/validate-rules", NotForUsher: true, Chain: suite.Validate(d, admit.AsMeta, objects)},
		{Path: "/mutate-nodes", For: admit.NodeStatus(), Chain: admit.Mutate(admit.AsNode, mutators.Nodes(d.Policy))},
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
