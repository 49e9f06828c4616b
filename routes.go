package main

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/api"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/config"
	"usher.dev/usher/gate"
	"usher.dev/usher/handlers"
	"usher.dev/usher/mutators"
	"usher.dev/usher/quota"
	"usher.dev/usher/validators"
)

// world is what the chains are made of.
type world struct {
	policy *config.Policy
	gates  gate.Set
	state  state
	// known says which ConfigMaps steps read.
	known clusterOptions
}

// chain makes a chain, each step of which gets answers about the collections that it needs, and about no others.
func (w world) chain(of func(ask questions) admit.Chain) admit.Chain {
	return admit.PerStep(func(needs []string) admit.Chain { return of(w.state.questions(needs)) })
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

// table is the table of contents: every path, the requests it is for, and its chain.
func table(w world) []handlers.Route {
	return append(tutorial(w.policy), colocation(w)...)
}

func tutorial(policy *config.Policy) []handlers.Route {
	return []handlers.Route{
		{
			Path: "/mutate-pods", Suite: handlers.Tutorial,
			Kind: kind("Pod"), Resources: []string{"pods"}, Operations: onCreate, Scope: registration.NamespacedScope,
			Webhook: "mutate-pods.usher.dev", FailurePolicy: registration.Fail, TimeoutSeconds: 5,
			SideEffects: registration.SideEffectClassNone, Reinvocation: registration.NeverReinvocationPolicy,
			Exempt: mirrorPods,
			Chain:  admit.Mutate(admit.AsPod, mutators.Pods(policy)),
		},
		{
			Path: "/validate-pods", Suite: handlers.Tutorial,
			Kind: kind("Pod"), Resources: []string{"pods"}, Operations: onCreate, Scope: registration.NamespacedScope,
			Webhook: "validate-pods.usher.dev", FailurePolicy: registration.Fail, TimeoutSeconds: 5,
			SideEffects: registration.SideEffectClassNone,
			Exempt:      mirrorPods,
			Chain:       admit.Validate(admit.AsPod, validators.Pods(policy)),
		},
		{
			Path: "/mutate-nodes", Suite: handlers.Tutorial,
			Kind: kind("Node"), Resources: []string{"nodes/status"}, Operations: onUpdate, Scope: registration.ClusterScope,
			Webhook: "mutate-nodes.usher.dev", FailurePolicy: registration.Ignore, TimeoutSeconds: 2,
			SideEffects: registration.SideEffectClassNone, Reinvocation: registration.NeverReinvocationPolicy,
			Heartbeat: true,
			Chain:     admit.Mutate(admit.AsNode, mutators.Nodes(policy)),
		},
	}
}

func colocation(w world) []handlers.Route {
	skipResources := w.gates.On(api.GateColocationProfileSkipMutatingResources)
	return slices.Concat(colocatedNodes(w), colocatedPods(w), elasticQuotas(w), []handlers.Route{
		{
			Path: "/validate-pod-binding", Suite: handlers.Colocation, Gate: api.GatePodValidatingWebhook,
			Kind: kind("Binding"), Resources: []string{"pods/binding", "bindings"}, Operations: onCreate, Scope: registration.NamespacedScope,
			Webhook: "validate-pod-binding.usher.dev", FailurePolicy: registration.Ignore, TimeoutSeconds: 2,
			SideEffects: registration.SideEffectClassNone, Conditions: bindingConditions(w.gates),
			Chain: w.chain(func(ask questions) admit.Chain {
				return admit.Validate(admit.AsBinding, validators.Bindings(w.policy, ask.Pod))
			}),
		},
		{
			Path: "/mutate-reservation", Suite: handlers.Colocation, Gate: api.GateReservationMutatingWebhook,
			Kind: metav1.GroupVersionKind(api.ReservationKind), Resources: []string{"reservations"}, Operations: onCreate, Scope: registration.ClusterScope,
			Webhook: "mutate-reservation.usher.dev", FailurePolicy: registration.Fail, TimeoutSeconds: 5,
			SideEffects: registration.SideEffectClassNone, Reinvocation: registration.IfNeededReinvocationPolicy,
			Chain: w.chain(func(ask questions) admit.Chain {
				return admit.Mutate(admit.AsReservation, mutators.Reservations(ask.profileQuestions(), skipResources))
			}),
		},
		{
			Path: "/validate-reservation", Suite: handlers.Colocation, Gate: api.GateReservationValidatingWebhook,
			Kind: metav1.GroupVersionKind(api.ReservationKind), Resources: []string{"reservations"}, Operations: onCreateAndUpdate, Scope: registration.ClusterScope,
			Webhook: "validate-reservation.usher.dev", FailurePolicy: registration.Fail, TimeoutSeconds: 5,
			SideEffects: registration.SideEffectClassNone, Reads: []string{"spec"},
			Chain: admit.Validate(admit.AsReservation, validators.ReservationChecks()),
		},
		{
			Path: "/validate-clustercolocationprofile", Suite: handlers.Colocation, Gate: api.GateProfileValidatingWebhook,
			Kind:      metav1.GroupVersionKind(api.ClusterColocationProfileKind),
			Resources: []string{"clustercolocationprofiles"}, Operations: onCreateAndUpdate, Scope: registration.ClusterScope,
			Webhook: "validate-clustercolocationprofile.usher.dev", FailurePolicy: registration.Fail, TimeoutSeconds: 5,
			SideEffects: registration.SideEffectClassNone, Reads: []string{"spec"},
			Chain: w.chain(func(ask questions) admit.Chain {
				return admit.Validate(admit.AsColocationProfile, validators.Profiles(ask.Profiles, ask.PriorityClass))
			}),
		},
	})
}

// colocatedPods are the routes of the colocation suite about pods.
func colocatedPods(w world) []handlers.Route {
	return []handlers.Route{
		{
			Path: "/mutate-pod", Suite: handlers.Colocation, Gate: api.GatePodMutatingWebhook,
			Kind: kind("Pod"), Resources: []string{"pods"}, Operations: onCreate, Scope: registration.NamespacedScope,
			Webhook: "mutate-pod.usher.dev", FailurePolicy: registration.Fail, TimeoutSeconds: 5,
			SideEffects: registration.SideEffectClassNone, Reinvocation: registration.IfNeededReinvocationPolicy,
			Exempt: mirrorPods,
			Chain:  w.chain(w.mutatePods),
		},
		{
			// An in-place resize could undo what was checked at creation. Ephemeral containers could not: they have no resources.
			// Rules and policies may name any label or annotation.
			Path: "/validate-pod", Suite: handlers.Colocation, Gate: api.GatePodValidatingWebhook,
			Kind: kind("Pod"), Resources: []string{"pods", "pods/resize"}, Operations: onCreateAndUpdate, Scope: registration.NamespacedScope,
			Webhook: "validate-pod.usher.dev", FailurePolicy: registration.Fail, TimeoutSeconds: 5,
			SideEffects: registration.SideEffectClassNoneOnDryRun,
			Reads:       []string{"spec", "metadata.labels", "metadata.annotations"},
			Exempt:      mirrorPods,
			Chain:       w.chain(w.validatePods),
		},
		{
			// A status write may change labels, too, and say that a pod runs again. Kubelets must never depend on usher: the condition keeps
			// their writes at the API server. One that does not know conditions gets by with Ignore.
			Path: "/validate-pod-status", Suite: handlers.Colocation, Gate: api.GatePodValidatingWebhook,
			Kind: kind("Pod"), Resources: []string{"pods/status"}, Operations: onUpdate, Scope: registration.NamespacedScope,
			Webhook: "validate-pod-status.usher.dev", FailurePolicy: registration.Ignore, TimeoutSeconds: 2,
			SideEffects: registration.SideEffectClassNoneOnDryRun, Conditions: notByKubelets, Reads: statusReads(w.gates),
			Exempt: ownPods,
			Chain:  w.chain(w.validatePodStatuses),
		},
	}
}

// statusReads are the parts of a pod's status writes by which a pod would get around what was admitted: other labels, for the binding's
// bypasses other annotations, and for quotas a pod that has ended and runs again.
func statusReads(open gate.Set) []string {
	reads := []string{"metadata.labels"}
	if open.On(api.GateBindingAdmissionWebhook) {
		reads = append(reads, "metadata.annotations")
	}
	if open.On(api.GateEnableQuotaAdmission) {
		reads = append(reads, "status.phase")
	}
	return reads
}

// notByKubelets is the match condition that leaves out what kubelets send.
var notByKubelets = []registration.MatchCondition{{Name: "not-a-kubelet", Expression: `!(request.userInfo.username.startsWith("system:node:") && ` +
	`has(request.userInfo.groups) && "system:nodes" in request.userInfo.groups)`}}

// bindingConditions lets through every Binding if who binds is checked, else only those that carry a quota label.
func bindingConditions(open gate.Set) []registration.MatchCondition {
	if open.On(api.GateBindingAdmissionWebhook) {
		return nil
	}
	return []registration.MatchCondition{{Name: "quota-label", Expression: fmt.Sprintf(
		"has(object.metadata.labels) && %q in object.metadata.labels", api.LabelQuotaName)}}
}

func (w world) mutatePods(ask questions) admit.Chain {
	questions := ask.profileQuestions()
	questions.Trees = mutators.TreeQuestions{
		QuotaTree: ask.QuotaTree, QuotaProfiles: ask.QuotaProfiles, LabelOnly: w.gates.On(api.GateDisableDefaultQuota),
	}
	return admit.Mutate(admit.AsPod, mutators.ColocatedPods(questions, w.gates.On(api.GateColocationProfileSkipMutatingResources)))
}

func (w world) validatePods(ask questions) admit.Chain {
	return admit.Validate(admit.AsPod, validators.ColocatedPods(w.podQuestions(ask), w.gates.On(api.GateColocationProfileSkipValidatingPriority)))
}

func (w world) validatePodStatuses(ask questions) admit.Chain {
	return admit.Validate(admit.AsPod, validators.PodStatuses(w.podQuestions(ask)))
}

func (w world) podQuestions(ask questions) validators.PodQuestions {
	return validators.PodQuestions{
		LabelRules: ask.LabelRules, RulesFrom: w.known.labelRules.String(), Reservations: ask.Reservations, Nodes: ask.NodeLabels,
		Quotas: validators.QuotaMembership{
			Tree: ask.QuotaTree, LabelOnly: w.gates.On(api.GateDisableDefaultQuota), Parents: w.gates.On(api.GateSupportParentQuotaSubmitPod),
			Evaluated:         w.gates.On(api.GateEnableQuotaAdmission) && w.policy.Modes.Of("evaluate-quota") == admit.Enforce,
			EvaluatedOnUpdate: w.gates.On(api.GateEnableQuotaAdmissionOnUpdate),
		},
		Binding:   config.SectionOf[sections.Binding](w.policy),
		Admission: w.quotaAdmission(ask),
	}
}

func (w world) quotaAdmission(ask questions) validators.QuotaAdmission {
	return validators.QuotaAdmission{
		Tree: ask.QuotaTree, Await: ask.awaitStored, Ledger: w.state.ledger(), Counting: counting(w.gates),
		LabelOnly: w.gates.On(api.GateDisableDefaultQuota), OnUpdate: w.gates.On(api.GateEnableQuotaAdmissionOnUpdate),
	}
}

// elasticQuotas are the routes about elastic quotas. usher's own writes are records of the ledger, which are not to be put back.
func elasticQuotas(w world) []handlers.Route {
	return []handlers.Route{
		{
			Path: "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota", Suite: handlers.Colocation, Gate: api.GateElasticMutatingWebhook,
			Kind: metav1.GroupVersionKind(api.ElasticQuotaKind), Resources: []string{"elasticquotas"}, Operations: onCreateAndUpdate, Scope: registration.NamespacedScope,
			Webhook: "mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota.usher.dev", FailurePolicy: registration.Fail, TimeoutSeconds: 5,
			SideEffects: registration.SideEffectClassNone, Reinvocation: registration.IfNeededReinvocationPolicy,
			NotForUsher: true,
			Reads:       []string{"spec", "metadata.labels", "metadata.annotations"},
			Chain: w.chain(func(ask questions) admit.Chain {
				return admit.Mutate(admit.AsElasticQuota, mutators.ElasticQuotas(ask.awaitedTree))
			}),
		},
		{
			Path: "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota", Suite: handlers.Colocation, Gate: api.GateElasticValidatingWebhook,
			Kind: metav1.GroupVersionKind(api.ElasticQuotaKind), Resources: []string{"elasticquotas"}, Operations: onAnyWrite, Scope: registration.NamespacedScope,
			Webhook: "validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota.usher.dev", FailurePolicy: registration.Fail, TimeoutSeconds: 5,
			SideEffects: registration.SideEffectClassNoneOnDryRun,
			NotForUsher: true,
			Reads:       []string{"spec", "metadata.labels", "metadata.annotations"},
			Chain:       w.chain(w.validateQuotas),
		},
	}
}

func (w world) validateQuotas(ask questions) admit.Chain {
	return admit.Validate(admit.AsElasticQuota, validators.ElasticQuotas(validators.QuotaQuestions{Tree: ask.QuotasWithPods, Await: ask.awaitPending, Pending: w.state.pendingQuotas(), Rules: quota.Rules{
		UpdateResourceKey: w.gates.On(api.GateElasticQuotaEnableUpdateResourceKey), GuaranteeUsage: w.gates.On(api.GateElasticQuotaGuaranteeUsage),
		HasPods: ask.podsOf, NamespaceDeleting: ask.NamespaceDeleting,
	}}))
}

// colocatedNodes are the routes of the colocation suite about nodes and what configures them.
func colocatedNodes(w world) []handlers.Route {
	slo := validators.SLOOptions{ConfigMap: w.known.sloConfig, NamesRequired: w.known.sloNames == "true"}
	return []handlers.Route{
		{
			Path: "/mutate-node-status", Suite: handlers.Colocation, Gate: api.GateNodeMutatingWebhook,
			Kind: kind("Node"), Resources: []string{"nodes/status"}, Operations: onUpdate, Scope: registration.ClusterScope,
			Webhook: "mutate-node-status.usher.dev", FailurePolicy: registration.Ignore, TimeoutSeconds: 2,
			SideEffects: registration.SideEffectClassNone, Reinvocation: registration.NeverReinvocationPolicy,
			Heartbeat: true,
			Chain: w.chain(func(ask questions) admit.Chain {
				amplify := mutators.AmplificationQuestions{SLORatios: ask.SLORatios, Metrics: ask.NodeMetric}
				return admit.Mutate(admit.AsNode, mutators.NodeStatuses(w.policy, amplify))
			}),
		},
		{
			Path: "/validate-node", Suite: handlers.Colocation, Gate: api.GateNodeValidatingWebhook,
			Kind: kind("Node"), Resources: []string{"nodes"}, Operations: onCreateAndUpdate, Scope: registration.ClusterScope,
			Webhook: "validate-node.usher.dev", FailurePolicy: registration.Ignore, TimeoutSeconds: 2,
			SideEffects: registration.SideEffectClassNone, Reads: []string{"metadata.labels", "metadata.annotations"},
			Chain: w.chain(func(ask questions) admit.Chain {
				nodes := validators.NodeQuestions{SLOConfig: ask.SLOConfig, SLORatios: ask.SLORatios, Requests: ask.NodeRequests}
				return admit.Validate(admit.AsNode, validators.Nodes(w.policy, w.known.sloConfig, nodes))
			}),
		},
		{
			Path: "/validate-configmap", Suite: handlers.Colocation, Gate: api.GateConfigMapValidatingWebhook,
			Kind: kind("ConfigMap"), Resources: []string{"configmaps"}, Operations: onCreateAndUpdate, Scope: registration.NamespacedScope,
			Webhook: "validate-configmap.usher.dev", FailurePolicy: registration.Fail, TimeoutSeconds: 5,
			SideEffects: registration.SideEffectClassNone, Conditions: onlyObject("slo-config", w.known.sloConfig),
			Reads: []string{"data"},
			Chain: w.chain(func(ask questions) admit.Chain {
				return admit.Validate(admit.AsConfigMap, validators.ConfigMaps(slo, ask.AllNodes))
			}),
		},
	}
}

// onlyObject is the match condition for one object, so that the API server calls for no other.
func onlyObject(name string, object types.NamespacedName) []registration.MatchCondition {
	return []registration.MatchCondition{{Name: name, Expression: fmt.Sprintf(
		"request.namespace == %q && has(object.metadata.name) && object.metadata.name == %q", object.Namespace, object.Name)}}
}

var (
	onCreate          = []admissionv1.Operation{admissionv1.Create}
	onUpdate          = []admissionv1.Operation{admissionv1.Update}
	onCreateAndUpdate = []admissionv1.Operation{admissionv1.Create, admissionv1.Update}
	onAnyWrite        = []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete}
)

func kind(name string) metav1.GroupVersionKind {
	return metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind(name))
}

// mirrorPods exempts what a kubelet stores of its static pods: it runs those whatever admission says.
func mirrorPods(req *admit.Request) string {
	if req.MirrorPod() {
		return "mirror pod of the kubelet that asks"
	}
	return ""
}

// ownPods exempts what a kubelet says of the pods on its node: it is the one who knows.
func ownPods(req *admit.Request) string {
	if req.ByKubeletOf(admit.AsPod(req.Object).NodeName()) {
		return "the kubelet of the pod's node"
	}
	return ""
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
