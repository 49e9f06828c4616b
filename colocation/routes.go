package colocation

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/mutators"
	"usher.dev/usher/colocation/quota/rules"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/validators"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/config"
	"usher.dev/usher/gate"
	"usher.dev/usher/handlers"
)

// deps are what the chains are made of.
type deps struct {
	policy *config.Policy
	gates  gate.Set
	state  state
	known  options
}

// colocation is the colocation suite's table of contents.
func colocation(w deps) []handlers.Route {
	usual := handlers.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 5, Reinvocation: registration.IfNeededReinvocationPolicy}
	failOpen := handlers.Call{FailurePolicy: registration.Ignore, TimeoutSeconds: 2}
	meta, specAndMeta := []string{"metadata.labels", "metadata.annotations"}, []string{"spec", "metadata.labels", "metadata.annotations"}
	return handlers.OfSuite(Name, usual, []handlers.Route{
		{Path: "/mutate-node-status", Gate: api.GateNodeMutatingWebhook, For: handlers.NodeStatus(), Chain: w.chain(w.mutateNodeStatuses)},
		{Path: "/validate-node", Gate: api.GateNodeValidatingWebhook, For: nodes(create, update), Call: failOpen,
			Reads: meta, Chain: w.chain(w.validateNodes)},
		{Path: "/validate-configmap", Gate: api.GateConfigMapValidatingWebhook, For: configMaps(create, update),
			Conditions: onlyObject("slo-config", w.known.sloConfig), Reads: []string{"data"}, Chain: w.chain(w.validateConfigMaps)},

		{Path: "/mutate-pod", Gate: api.GatePodMutatingWebhook, For: handlers.Pods(create), Exempt: handlers.MirrorPods, Chain: w.chain(w.mutatePods)},
		// An in-place resize could undo what was checked at create. Ephemeral containers could not: they have no resources.
		// Rules and policies may name any label or annotation.
		{Path: "/validate-pod", Gate: api.GatePodValidatingWebhook, For: podsAndResizes(create, update),
			Reads: specAndMeta, Exempt: handlers.MirrorPods, Chain: w.chain(w.validatePods)},
		// A status write may change labels, too, and say that a pod runs again. Kubelets must never depend on usher: the condition keeps
		// their writes at the API server. One that does not know conditions gets by with Ignore.
		{Path: "/validate-pod-status", Gate: api.GatePodValidatingWebhook, For: podStatus(), Call: failOpen,
			Conditions: notByKubelets(), Reads: statusReads(w.gates), Exempt: ownPods, Chain: w.chain(w.validatePodStatuses)},

		// usher's own writes of quotas are records of the ledger, which are not to be put back.
		{Path: "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota", Gate: api.GateElasticMutatingWebhook, For: elasticQuotas(create, update),
			NotForUsher: true, Reads: specAndMeta, Chain: w.chain(w.mutateQuotas)},
		{Path: "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota", Gate: api.GateElasticValidatingWebhook, For: elasticQuotas(create, update, admissionv1.Delete),
			NotForUsher: true, Reads: specAndMeta, Chain: w.chain(w.validateQuotas)},

		{Path: "/validate-pod-binding", Gate: api.GatePodValidatingWebhook, For: bindings(create), Call: failOpen,
			Conditions: bindingConditions(w.gates), Chain: w.chain(w.validateBindings)},
		{Path: "/mutate-reservation", Gate: api.GateReservationMutatingWebhook, For: reservations(create), Chain: w.chain(w.mutateReservations)},
		{Path: "/validate-reservation", Gate: api.GateReservationValidatingWebhook, For: reservations(create, update),
			Reads: []string{"spec"}, Chain: admit.Validate(views.AsReservation, validators.ReservationChecks())},
		{Path: "/validate-clustercolocationprofile", Gate: api.GateProfileValidatingWebhook, For: profiles(create, update),
			Reads: []string{"spec"}, Chain: w.chain(w.validateProfiles)},
	})
}

const create, update = admissionv1.Create, admissionv1.Update

func nodes(on ...admissionv1.Operation) handlers.Match {
	return handlers.ClusterScoped(corev1.SchemeGroupVersion.WithKind("Node"), on, "nodes")
}

func configMaps(on ...admissionv1.Operation) handlers.Match {
	return handlers.Namespaced(corev1.SchemeGroupVersion.WithKind("ConfigMap"), on, "configmaps")
}

func podsAndResizes(on ...admissionv1.Operation) handlers.Match {
	return handlers.Namespaced(corev1.SchemeGroupVersion.WithKind("Pod"), on, "pods", "pods/resize")
}

func podStatus() handlers.Match {
	return handlers.Namespaced(corev1.SchemeGroupVersion.WithKind("Pod"), []admissionv1.Operation{update}, "pods/status")
}

func bindings(on ...admissionv1.Operation) handlers.Match {
	return handlers.Namespaced(corev1.SchemeGroupVersion.WithKind("Binding"), on, "pods/binding", "bindings")
}

func elasticQuotas(on ...admissionv1.Operation) handlers.Match {
	return handlers.Namespaced(api.ElasticQuotaKind, on, "elasticquotas")
}

func reservations(on ...admissionv1.Operation) handlers.Match {
	return handlers.ClusterScoped(api.ReservationKind, on, "reservations")
}

func profiles(on ...admissionv1.Operation) handlers.Match {
	return handlers.ClusterScoped(api.ClusterColocationProfileKind, on, "clustercolocationprofiles")
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
func notByKubelets() []registration.MatchCondition {
	return []registration.MatchCondition{{Name: "not-a-kubelet", Expression: `!(request.userInfo.username.startsWith("system:node:") && ` +
		`has(request.userInfo.groups) && "system:nodes" in request.userInfo.groups)`}}
}

// bindingConditions lets through every Binding if who binds is checked, else only those that carry a quota label.
func bindingConditions(open gate.Set) []registration.MatchCondition {
	if open.On(api.GateBindingAdmissionWebhook) {
		return nil
	}
	return []registration.MatchCondition{{Name: "quota-label", Expression: fmt.Sprintf(
		"has(object.metadata.labels) && %q in object.metadata.labels", api.LabelQuotaName)}}
}

// onlyObject is the match condition for one object, so that the API server calls for no other.
func onlyObject(name string, object types.NamespacedName) []registration.MatchCondition {
	return []registration.MatchCondition{{Name: name, Expression: fmt.Sprintf(
		"request.namespace == %q && has(object.metadata.name) && object.metadata.name == %q", object.Namespace, object.Name)}}
}

// ownPods exempts what a kubelet says of the pods on its node: it is the one who knows.
func ownPods(req *admit.Request) string {
	if req.ByKubeletOf(admit.AsPod(req.Object).NodeName()) {
		return "the kubelet of the pod's node"
	}
	return ""
}

// chain makes a chain, each step of which gets answers about the collections that it needs, and about no others.
func (w deps) chain(of func(ask questions) admit.Chain) admit.Chain {
	return admit.PerStep(func(needs []string) admit.Chain { return of(w.state.questions(needs)) })
}

func (w deps) mutateNodeStatuses(ask questions) admit.Chain {
	amplify := mutators.AmplificationQuestions{SLORatios: ask.SLORatios, Metrics: ask.NodeMetric}
	return admit.Mutate(admit.AsNode, mutators.NodeStatuses(w.policy, amplify))
}

func (w deps) validateNodes(ask questions) admit.Chain {
	nodes := validators.NodeQuestions{SLOConfig: ask.SLOConfig, SLORatios: ask.SLORatios, Requests: ask.NodeRequests}
	return admit.Validate(admit.AsNode, validators.Nodes(w.policy, w.known.sloConfig, nodes))
}

func (w deps) validateConfigMaps(ask questions) admit.Chain {
	slo := validators.SLOOptions{ConfigMap: w.known.sloConfig, NamesRequired: w.known.sloNames == "true"}
	return admit.Validate(views.AsConfigMap, validators.ConfigMaps(slo, ask.AllNodes))
}

func (w deps) mutatePods(ask questions) admit.Chain {
	questions := ask.profileQuestions()
	questions.Trees = mutators.TreeQuestions{
		QuotaTree: ask.QuotaTree, QuotaProfiles: ask.QuotaProfiles, LabelOnly: w.gates.On(api.GateDisableDefaultQuota),
	}
	return admit.Mutate(admit.AsPod, mutators.ColocatedPods(questions, w.gates.On(api.GateColocationProfileSkipMutatingResources)))
}

func (w deps) validatePods(ask questions) admit.Chain {
	return admit.Validate(admit.AsPod, validators.ColocatedPods(w.podQuestions(ask), w.gates.On(api.GateColocationProfileSkipValidatingPriority)))
}

func (w deps) validatePodStatuses(ask questions) admit.Chain {
	return admit.Validate(admit.AsPod, validators.PodStatuses(w.podQuestions(ask)))
}

func (w deps) podQuestions(ask questions) validators.PodQuestions {
	return validators.PodQuestions{
		LabelRules: ask.LabelRules, RulesFrom: w.known.labelRules.String(), Reservations: ask.Reservations, Nodes: ask.NodeLabels,
		Quotas: validators.QuotaMembership{
			Tree: ask.QuotaTree, LabelOnly: w.gates.On(api.GateDisableDefaultQuota), Parents: w.gates.On(api.GateSupportParentQuotaSubmitPod),
			Evaluated:         w.gates.On(api.GateEnableQuotaAdmission) && w.policy.Modes.Of("evaluate-quota") == admit.Enforce,
			EvaluatedOnUpdate: w.gates.On(api.GateEnableQuotaAdmissionOnUpdate),
		},
		Binding:   config.SectionOf[sections.Binding](w.policy),
		Admission: w.quotaAdmission(),
	}
}

func (w deps) quotaAdmission() validators.QuotaAdmission {
	return validators.QuotaAdmission{
		Ledger: w.state.ledger(), OnUpdate: w.gates.On(api.GateEnableQuotaAdmissionOnUpdate),
	}
}

func (w deps) validateBindings(ask questions) admit.Chain {
	return admit.Validate(views.AsBinding, validators.Bindings(w.policy, ask.Pod))
}

func (w deps) mutateQuotas(ask questions) admit.Chain {
	return admit.Mutate(views.AsElasticQuota, mutators.ElasticQuotas(ask.awaitedTree))
}

func (w deps) validateQuotas(ask questions) admit.Chain {
	return admit.Validate(views.AsElasticQuota, validators.ElasticQuotas(validators.QuotaQuestions{Tree: ask.storedTree, Pending: w.state.pendingQuotas(), Rules: rules.Rules{
		UpdateResourceKey: w.gates.On(api.GateElasticQuotaEnableUpdateResourceKey), GuaranteeUsage: w.gates.On(api.GateElasticQuotaGuaranteeUsage),
		HasPods: ask.podsOf, NamespaceDeleting: ask.NamespaceDeleting,
	}}))
}

func (w deps) mutateReservations(ask questions) admit.Chain {
	skipResources := w.gates.On(api.GateColocationProfileSkipMutatingResources)
	return admit.Mutate(views.AsReservation, mutators.Reservations(ask.profileQuestions(), skipResources))
}

func (w deps) validateProfiles(ask questions) admit.Chain {
	return admit.Validate(views.AsColocationProfile, validators.Profiles(ask.Profiles, ask.PriorityClass))
}
