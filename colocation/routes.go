package colocation

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/mutators"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/quota/rules"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/validators"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/config"
	core "usher.dev/usher/validators"
)

// deps holds the dependencies of the chains.
type deps struct {
	policy  *config.Policy
	gates   gate.Set
	state   state
	options options
}

// colocation returns the routes of the colocation suite.
func colocation(d deps) []admit.Route {
	usual := admit.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 5, Reinvocation: registration.IfNeededReinvocationPolicy}
	failOpen := admit.Call{FailurePolicy: registration.Ignore, TimeoutSeconds: 2}
	meta, specAndMeta := []string{"metadata.labels", "metadata.annotations"}, []string{"spec", "metadata.labels", "metadata.annotations"}
	return admit.OfSuite(Name, usual, []admit.Route{
		{Path: "/mutate-node-status", Gate: api.GateNodeMutatingWebhook, For: admit.NodeStatus(), Chain: d.chain(d.mutateNodeStatuses)},
		{Path: "/validate-node", Gate: api.GateNodeValidatingWebhook, For: nodes(create, update), Call: failOpen,
			Reads: meta, Chain: d.chain(d.validateNodes)},
		{Path: "/validate-configmap", Gate: api.GateConfigMapValidatingWebhook, For: configMaps(create, update, admissionv1.Delete),
			Conditions: onlyObject("slo-config", d.options.sloConfig), Reads: []string{"data"}, Chain: d.chain(d.validateConfigMaps)},

		{Path: "/mutate-pod", Gate: api.GatePodMutatingWebhook, For: admit.Pods(create), Exempt: admit.MirrorPods, Chain: d.chain(d.mutatePods)},
		// An in-place resize could undo what was checked on create. Ephemeral containers could not: they have no
		// resources. Rules and policies may name any label or annotation.
		{Path: "/validate-pod", Gate: api.GatePodValidatingWebhook, For: podsAndResizes(create, update),
			Reads: specAndMeta, Exempt: admit.MirrorPods, Chain: d.chain(d.validatePods)},
		{Path: "/validate-workload", Gate: api.GatePodValidatingWebhook, Reads: specAndMeta, Exempt: core.OfWorkload, Conditions: core.NotOfWorkload(),
			Call: admit.IgnoreUnless(core.RefusesByPods(d.policy)), Chain: d.chain(d.validateWorkloads)},
		// A status write may also change labels, and may say that a pod runs again. Kubelets must never depend on
		// usher: the condition keeps their writes at the API server. On API servers without match conditions, failure
		// policy Ignore does.
		{Path: "/validate-pod-status", Gate: api.GatePodValidatingWebhook, For: podStatus(), Call: failOpen,
			Conditions: notByKubelets(), Reads: statusReads(d.gates), Exempt: ownPods, Chain: d.chain(d.validatePodStatuses)},

		// usher's own writes of quotas are records of the ledger, which must not be reverted.
		{Path: "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota", Gate: api.GateElasticMutatingWebhook, For: elasticQuotas(create, update),
			NotForUsher: true, Reads: specAndMeta, Chain: d.chain(d.mutateQuotas)},
		{Path: "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota", Gate: api.GateElasticValidatingWebhook, For: elasticQuotas(create, update, admissionv1.Delete),
			NotForUsher: true, Reads: specAndMeta, Chain: d.chain(d.validateQuotas)},

		{Path: "/validate-pod-binding", Gate: api.GatePodValidatingWebhook, For: bindings(create), Call: failOpen,
			Conditions: bindingConditions(d.gates), Chain: d.chain(d.validateBindings)},
		{Path: "/mutate-reservation", Gate: api.GateReservationMutatingWebhook, For: reservations(create), Chain: d.chain(d.mutateReservations)},
		{Path: "/validate-reservation", Gate: api.GateReservationValidatingWebhook, For: reservations(create, update),
			Reads: []string{"spec"}, Chain: admit.Validate(views.AsReservation, validators.ReservationChecks())},
		{Path: "/validate-clustercolocationprofile", Gate: api.GateProfileValidatingWebhook, For: profiles(create, update),
			Reads: []string{"spec"}, Chain: d.chain(d.validateProfiles)},
	})
}

const create, update = admissionv1.Create, admissionv1.Update

func nodes(on ...admissionv1.Operation) []admit.Match {
	return admit.ClusterScoped(corev1.SchemeGroupVersion.WithKind("Node"), on, "nodes")
}

func configMaps(on ...admissionv1.Operation) []admit.Match {
	return admit.Namespaced(corev1.SchemeGroupVersion.WithKind("ConfigMap"), on, "configmaps")
}

func podsAndResizes(on ...admissionv1.Operation) []admit.Match {
	return admit.Namespaced(corev1.SchemeGroupVersion.WithKind("Pod"), on, "pods", "pods/resize")
}

func podStatus() []admit.Match {
	return admit.Namespaced(corev1.SchemeGroupVersion.WithKind("Pod"), []admissionv1.Operation{update}, "pods/status")
}

func bindings(on ...admissionv1.Operation) []admit.Match {
	return admit.Namespaced(corev1.SchemeGroupVersion.WithKind("Binding"), on, "pods/binding", "bindings")
}

func elasticQuotas(on ...admissionv1.Operation) []admit.Match {
	return admit.Namespaced(api.ElasticQuotaKind, on, "elasticquotas")
}

func reservations(on ...admissionv1.Operation) []admit.Match {
	return admit.ClusterScoped(api.ReservationKind, on, "reservations")
}

func profiles(on ...admissionv1.Operation) []admit.Match {
	return admit.ClusterScoped(api.ClusterColocationProfileKind, on, "clustercolocationprofiles")
}

// statusReads returns the fields of a pod's status write that could bypass what was admitted: labels; annotations,
// which may authorize bindings or say what the pod counts for; and for quotas the phase, because an ended pod may run
// again, and what the node has allocated. The conditions, which schedulers write often, are not among them.
func statusReads(gates gate.Set) []string {
	reads := []string{"metadata.labels"}
	quotas, counting := gates.On(api.GateEnableQuotaAdmission), counting(gates)
	if gates.On(api.GateBindingAdmissionWebhook) || quotas && counting.Replace || counting.Devices {
		reads = append(reads, "metadata.annotations")
	}
	if quotas {
		reads = append(reads, "status.phase")
	}
	if quotas && counting.Allocated {
		reads = append(reads, "status.containerStatuses", "status.initContainerStatuses", "status.resources", "status.allocatedResources")
	}
	return reads
}

// notByKubelets is the match condition that excludes requests of kubelets.
func notByKubelets() []registration.MatchCondition {
	return []registration.MatchCondition{{Name: "not-a-kubelet", Expression: `!(request.userInfo.username.startsWith("system:node:") && ` +
		`has(request.userInfo.groups) && "system:nodes" in request.userInfo.groups)`}}
}

// bindingConditions matches every Binding if bindings are authorized, otherwise only those that could change what their
// pod counts for.
func bindingConditions(gates gate.Set) []registration.MatchCondition {
	if gates.On(api.GateBindingAdmissionWebhook) {
		return nil
	}
	name, has := "quota-label", hasKey("labels", api.LabelQuotaName)
	if counting(gates).Replace {
		name, has = "quota-label-or-renaming", has+" || "+hasKey("annotations", api.AnnotationReplaceResources)
	}
	if counting(gates).Devices {
		name, has = name+"-or-devices", has+" || "+hasKey("annotations", api.AnnotationDeviceClaims)
	}
	return []registration.MatchCondition{{Name: name, Expression: has}}
}

// hasKey returns the CEL expression for a key in the labels or annotations of an object.
func hasKey(field, key string) string {
	return fmt.Sprintf("has(object.metadata.%s) && %q in object.metadata.%[1]s", field, key)
}

// onlyObject is the match condition for a single object, so that the API server calls the webhook for no other.
func onlyObject(name string, object types.NamespacedName) []registration.MatchCondition {
	return []registration.MatchCondition{{Name: name, Expression: fmt.Sprintf(
		"request.namespace == %q && [object, oldObject].exists(o, o != null && has(o.metadata.name) && o.metadata.name == %q)", object.Namespace, object.Name)}}
}

// ownPods exempts what a kubelet reports about the pods on its own node: it is the authority on them.
func ownPods(req *admit.Request) string {
	if req.ByKubeletOf(admit.AsPod(req.Object).NodeName()) {
		return "the kubelet of the pod's node"
	}
	return ""
}

// chain builds a chain whose steps can each query only the collections that they declare.
func (d deps) chain(of func(ask questions) admit.Chain) admit.Chain {
	return admit.PerStep(func(needs []string) admit.Chain { return of(d.state.questions(needs)) })
}

func (d deps) mutateNodeStatuses(ask questions) admit.Chain {
	amplify := mutators.AmplificationQuestions{SLORatios: ask.SLORatios, Metrics: ask.NodeMetric}
	return admit.Mutate(admit.AsNode, mutators.NodeStatuses(d.policy, amplify))
}

func (d deps) validateNodes(ask questions) admit.Chain {
	nodes := validators.NodeQuestions{SLOConfig: ask.SLOConfig, SLORatios: ask.SLORatios, Requests: ask.NodeRequests}
	return admit.Validate(admit.AsNode, validators.Nodes(d.policy, d.options.sloConfig, nodes))
}

func (d deps) validateConfigMaps(ask questions) admit.Chain {
	policy := config.SectionOf[*sections.SLOConfig](d.policy)
	slo := validators.SLOOptions{ConfigMap: d.options.sloConfig, NamesRequired: d.options.sloNames == "true", Keep: policy != nil && policy.Keep,
		NamespaceDeleting: ask.NamespaceDeleting}
	return admit.Validate(views.AsConfigMap, validators.ConfigMaps(slo, ask.AllNodes))
}

func (d deps) mutatePods(ask questions) admit.Chain {
	questions := ask.profileQuestions()
	questions.Trees = mutators.TreeQuestions{
		QuotaTree: ask.QuotaTree, QuotaProfiles: ask.QuotaProfiles, LabelOnly: d.gates.On(api.GateDisableDefaultQuota),
	}
	return admit.Mutate(admit.AsPod, mutators.ColocatedPods(questions, d.gates.On(api.GateColocationProfileSkipMutatingResources), d.devices(ask)))
}

func (d deps) validatePods(ask questions) admit.Chain {
	return admit.Validate(admit.AsPod, validators.ColocatedPods(d.podQuestions(ask), d.gates.On(api.GateColocationProfileSkipValidatingPriority)))
}

func (d deps) validateWorkloads(ask questions) admit.Chain {
	return admit.Validate(admit.AsWorkload, validators.Workloads(d.policy, ask.Reader.Questions(), ask.FillPriority))
}

func (d deps) validatePodStatuses(ask questions) admit.Chain {
	return admit.Validate(admit.AsPod, validators.PodStatuses(d.podQuestions(ask)))
}

func (d deps) podQuestions(ask questions) validators.PodQuestions {
	return validators.PodQuestions{
		LabelRules: ask.LabelRules, RulesFrom: d.options.labelRules.String(), Reservations: ask.Reservations, Nodes: ask.NodeLabels,
		Quotas: validators.QuotaMembership{
			Tree: ask.QuotaTree, LabelOnly: d.gates.On(api.GateDisableDefaultQuota), Parents: d.gates.On(api.GateSupportParentQuotaSubmitPod),
			Evaluated:         d.quotasEvaluated(),
			EvaluatedOnUpdate: d.gates.On(api.GateEnableQuotaAdmissionOnUpdate),
		},
		Selection: validators.QuotaSelection{Policy: d.quotaPolicy(), Tree: ask.boundTree, Core: ask.Reader.Questions()},
		Binding:   config.SectionOf[*sections.Binding](d.policy),
		Admission: d.quotaAdmission(), Devices: d.devices(ask),
	}
}

// devices returns how the devices count that pods claim.
func (d deps) devices(ask questions) quota.Devices {
	return quota.Devices{Classes: config.SectionOf[*sections.Quotas](d.policy).DeviceClasses(), Templates: ask.awaitedTemplate}
}

// quotaPolicy returns the policy on the ownership of quotas.
func (d deps) quotaPolicy() *sections.QuotaPolicy {
	return config.SectionOf[*sections.Quotas](d.policy).Compile()
}

// quotasEvaluated returns the mode of step evaluate-quota; empty if its gate is off.
func (d deps) quotasEvaluated() admit.Mode {
	if !d.gates.On(api.GateEnableQuotaAdmission) {
		return ""
	}
	return config.SectionOf[admit.Modes](d.policy).Of("evaluate-quota")
}

func (d deps) quotaAdmission() validators.QuotaAdmission {
	return validators.QuotaAdmission{
		Ledger: d.state.ledger(), OnUpdate: d.gates.On(api.GateEnableQuotaAdmissionOnUpdate), Counting: counting(d.gates),
	}
}

func (d deps) validateBindings(ask questions) admit.Chain {
	return admit.Validate(views.AsBinding, validators.Bindings(d.policy, ask.Pod, counting(d.gates)))
}

func (d deps) mutateQuotas(ask questions) admit.Chain {
	return admit.Mutate(views.AsElasticQuota, mutators.ElasticQuotas(ask.awaitedTree))
}

func (d deps) validateQuotas(ask questions) admit.Chain {
	changes := rules.Rules{
		UpdateResourceKey: d.gates.On(api.GateElasticQuotaEnableUpdateResourceKey),
		GuaranteeUsage:    d.gates.On(api.GateElasticQuotaGuaranteeUsage),
		HasPods:           ask.podsOf, NamespaceDeleting: ask.NamespaceDeleting, HasNamespace: ask.hasNamespace,
	}
	return admit.Validate(views.AsElasticQuota, validators.ElasticQuotas(validators.QuotaQuestions{
		Policy: d.quotaPolicy(), Quotas: ask.awaitedTree, Tree: ask.storedTree, Pending: d.state.pendingQuotas(), Rules: changes,
		Announce: d.state.announce(),
	}))
}

func (d deps) mutateReservations(ask questions) admit.Chain {
	skipResources := d.gates.On(api.GateColocationProfileSkipMutatingResources)
	return admit.Mutate(views.AsReservation, mutators.Reservations(ask.profileQuestions(), skipResources))
}

func (d deps) validateProfiles(ask questions) admit.Chain {
	return admit.Validate(views.AsColocationProfile, validators.Profiles(ask.Profiles, ask.PriorityClass))
}
