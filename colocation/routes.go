package colocation

import (
	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/validators"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/server/suite"
	core "usher.dev/usher/validators"
)

// deps holds the dependencies of the chains.
type deps struct {
	suite.Env
	options options
	quotas  *quotas // nil while routes are only listed
}

// routes returns every route of the suite.
func routes(e suite.Env) []admit.Route {
	q, _ := e.State.(*quotas)
	d := deps{Env: e, options: *e.Options.(*options), quotas: q}
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
			Call: admit.IgnoreUnless(core.RefusesByPods(d.Policy)), Chain: d.chain(d.validateWorkloads)},
		// A status write may also change labels, and may say that a pod runs again. Kubelets must never depend on
		// usher: the condition keeps their writes at the API server. On API servers without match conditions, failure
		// policy Ignore does.
		{Path: "/validate-pod-status", Gate: api.GatePodValidatingWebhook, For: podStatus(), Call: failOpen,
			Conditions: notByKubelets(), Reads: statusReads(d.Gates), Exempt: ownPods, Chain: d.chain(d.validatePodStatuses)},

		// usher's own writes of quotas are records of the ledger, which must not be reverted.
		{Path: "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota", Gate: api.GateElasticMutatingWebhook, For: elasticQuotas(create, update),
			NotForUsher: true, Reads: specAndMeta, Chain: d.chain(d.mutateQuotas)},
		{Path: "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota", Gate: api.GateElasticValidatingWebhook,
			For: elasticQuotas(create, update, admissionv1.Delete), NotForUsher: true, Reads: specAndMeta, Chain: d.chain(d.validateQuotas)},

		{Path: "/validate-pod-binding", Gate: api.GatePodValidatingWebhook, For: bindings(create), Call: failOpen,
			Conditions: bindingConditions(d.Gates), Chain: d.chain(d.validateBindings)},
		{Path: "/mutate-reservation", Gate: api.GateReservationMutatingWebhook, For: reservations(create), Chain: d.chain(d.mutateReservations)},
		{Path: "/validate-reservation", Gate: api.GateReservationValidatingWebhook, For: reservations(create, update),
			Reads: []string{"spec"}, Chain: admit.Validate(views.AsReservation, validators.ReservationChecks())},
		{Path: "/validate-clustercolocationprofile", Gate: api.GateProfileValidatingWebhook, For: profiles(create, update),
			Reads: []string{"spec"}, Chain: d.chain(d.validateProfiles)},
		{Path: "/validate-elasticquotaprofile", Gate: api.GateProfileValidatingWebhook, For: quotaProfiles(create, update),
			Reads: []string{"spec"}, Chain: admit.Validate(views.AsQuotaProfile, validators.QuotaProfiles())},
	})
}
