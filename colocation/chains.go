package colocation

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/mutators"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/quota/rules"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/validators"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/config"
)

// chain builds a chain whose steps can each query only the collections that they declare.
func (d deps) chain(of func(ask questions) admit.Chain) admit.Chain {
	return admit.PerStep(func(needs []string) admit.Chain { return of(questionsOf(d.Env, needs)) })
}

func (d deps) mutateNodeStatuses(ask questions) admit.Chain {
	return admit.Mutate(admit.AsNode, mutators.NodeStatuses(d.Policy, ask.SLORatios, ask.NodeMetric))
}

func (d deps) validateNodes(ask questions) admit.Chain {
	nodes := validators.NodeQuestions{SLOConfig: ask.SLOConfig, SLORatios: ask.SLORatios, Requests: ask.NodeRequests}
	return admit.Validate(admit.AsNode, validators.Nodes(d.Policy, d.options.sloConfig, nodes))
}

func (d deps) validateConfigMaps(ask questions) admit.Chain {
	policy := config.SectionOf[*sections.SLOConfig](d.Policy)
	slo := validators.SLOOptions{ConfigMap: d.options.sloConfig, NamesRequired: d.options.sloNames == "true", Keep: policy != nil && policy.Keep,
		NamespaceDeleting: ask.NamespaceDeleting, Ratios: config.SectionOf[*sections.NodeAmplification](d.Policy).Sources(nil)}
	return admit.Validate(views.AsConfigMap, validators.ConfigMaps(slo, ask.AllNodes))
}

func (d deps) mutatePods(ask questions) admit.Chain {
	questions := ask.profileQuestions()
	questions.Trees = mutators.TreeQuestions{
		QuotaTree: ask.QuotaTree, QuotaProfiles: ask.QuotaProfiles, LabelOnly: d.Gates.On(api.GateDisableDefaultQuota),
	}
	return admit.Mutate(admit.AsPod, mutators.ColocatedPods(questions, d.Gates.On(api.GateColocationProfileSkipMutatingResources), d.devices(ask)))
}

func (d deps) validatePods(ask questions) admit.Chain {
	return admit.Validate(admit.AsPod, validators.ColocatedPods(d.podQuestions(ask), d.Gates.On(api.GateColocationProfileSkipValidatingPriority)))
}

func (d deps) validateWorkloads(ask questions) admit.Chain {
	return admit.Validate(admit.AsWorkload, validators.Workloads(d.Policy, ask.Reader.Questions(), ask.FillPriority))
}

func (d deps) validatePodStatuses(ask questions) admit.Chain {
	return admit.Validate(admit.AsPod, validators.PodStatuses(d.podQuestions(ask)))
}

func (d deps) podQuestions(ask questions) validators.PodQuestions {
	return validators.PodQuestions{
		LabelRules: ask.LabelRules, RulesFrom: d.options.labelRules.String(), Reservations: ask.Reservations, Nodes: ask.NodeLabels,
		Quotas: validators.QuotaMembership{
			Tree: ask.QuotaTree, LabelOnly: d.Gates.On(api.GateDisableDefaultQuota), Parents: d.Gates.On(api.GateSupportParentQuotaSubmitPod),
			Evaluated:         d.quotasEvaluated(),
			EvaluatedOnUpdate: d.Gates.On(api.GateEnableQuotaAdmissionOnUpdate),
		},
		Selection: validators.QuotaSelection{Policy: d.quotaPolicy(), Tree: ask.boundTree, Core: ask.Reader.Questions()},
		Binding:   config.SectionOf[*sections.Binding](d.Policy),
		Admission: d.quotaAdmission(), Devices: d.devices(ask),
	}
}

// devices returns how the devices count that pods claim.
func (d deps) devices(ask questions) quota.Devices {
	return quota.Devices{Classes: config.SectionOf[*sections.Quotas](d.Policy).DeviceClasses(), Templates: ask.awaitedTemplate}
}

// quotaPolicy returns the policy on the ownership of quotas.
func (d deps) quotaPolicy() *sections.QuotaPolicy {
	return config.SectionOf[*sections.Quotas](d.Policy).Compile()
}

// quotasEvaluated returns the mode of step evaluate-quota; empty if its gate is off.
func (d deps) quotasEvaluated() admit.Mode {
	if !d.Gates.On(api.GateEnableQuotaAdmission) {
		return ""
	}
	return config.SectionOf[admit.Modes](d.Policy).Of("evaluate-quota")
}

func (d deps) quotaAdmission() validators.QuotaAdmission {
	return validators.QuotaAdmission{
		Ledger: d.quotas.evaluating(), OnUpdate: d.Gates.On(api.GateEnableQuotaAdmissionOnUpdate), Counting: quota.CountingOf(d.Gates),
	}
}

func (d deps) validateBindings(ask questions) admit.Chain {
	return admit.Validate(views.AsBinding, validators.Bindings(d.Policy, ask.Pod, quota.CountingOf(d.Gates)))
}

func (d deps) mutateQuotas(ask questions) admit.Chain {
	return admit.Mutate(views.AsElasticQuota, mutators.ElasticQuotas(ask.awaitedTree, d.quotas.moving()))
}

func (d deps) validateQuotas(ask questions) admit.Chain {
	changes := rules.Rules{
		UpdateResourceKey: d.Gates.On(api.GateElasticQuotaEnableUpdateResourceKey),
		GuaranteeUsage:    d.Gates.On(api.GateElasticQuotaGuaranteeUsage),
		HasPods:           ask.podsOf, NamespaceDeleting: ask.NamespaceDeleting, HasNamespace: ask.hasNamespace,
	}
	return admit.Validate(views.AsElasticQuota, validators.ElasticQuotas(validators.QuotaQuestions{
		Policy: d.quotaPolicy(), Quotas: ask.awaitedTree, Tree: ask.storedTree, Pending: d.quotas.pendingChanges(), Rules: changes,
		Announce: d.quotas.announce(),
	}))
}

func (d deps) mutateReservations(ask questions) admit.Chain {
	skipResources := d.Gates.On(api.GateColocationProfileSkipMutatingResources)
	return admit.Mutate(views.AsReservation, mutators.Reservations(ask.profileQuestions(), skipResources))
}

func (d deps) validateProfiles(ask questions) admit.Chain {
	return admit.Validate(views.AsColocationProfile, validators.Profiles(ask.Profiles, ask.PriorityClass))
}
