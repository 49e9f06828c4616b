package api

import "usher.dev/usher/admit/gate"

// The feature gates of the colocation suite, with Koordinator's names. Gates of routes and steps are listed with the
// route or the step; the others are arguments of steps, in routes.go.
const (
	GatePodMutatingWebhook                      gate.Name = "PodMutatingWebhook"
	GatePodValidatingWebhook                    gate.Name = "PodValidatingWebhook"
	GateReservationMutatingWebhook              gate.Name = "ReservationMutatingWebhook"
	GateReservationValidatingWebhook            gate.Name = "ReservationValidatingWebhook"
	GateProfileValidatingWebhook                gate.Name = "ProfileValidatingWebhook"
	GateColocationProfileSkipMutatingResources  gate.Name = "ColocationProfileSkipMutatingResources"
	GateColocationProfileSkipValidatingPriority gate.Name = "ColocationProfileSkipValidatingPriority"
	GateDisableExtendedResourceSpec             gate.Name = "DisableExtendedResourceSpec"
	GateDisableDeviceResourceSpec               gate.Name = "DisableDeviceResourceSpec"
	GateValidatePodDeviceResource               gate.Name = "ValidatePodDeviceResource"
	GateEnablePodEnhancedValidator              gate.Name = "EnablePodEnhancedValidator"
	GateBindingAdmissionWebhook                 gate.Name = "BindingAdmissionWebhook"
	GateNodeMutatingWebhook                     gate.Name = "NodeMutatingWebhook"
	GateNodeValidatingWebhook                   gate.Name = "NodeValidatingWebhook"
	GateConfigMapValidatingWebhook              gate.Name = "ConfigMapValidatingWebhook"
	GateTopologyValidation                      gate.Name = "TopologyValidation"
	GateReservationFit                          gate.Name = "ReservationFit"
	GateElasticMutatingWebhook                  gate.Name = "ElasticMutatingWebhook"
	GateElasticValidatingWebhook                gate.Name = "ElasticValidatingWebhook"
	GateElasticQuotaEnableUpdateResourceKey     gate.Name = "ElasticQuotaEnableUpdateResourceKey"
	GateElasticQuotaGuaranteeUsage              gate.Name = "ElasticQuotaGuaranteeUsage"
	GateMultiQuotaTree                          gate.Name = "MultiQuotaTree"
	GateSupportParentQuotaSubmitPod             gate.Name = "SupportParentQuotaSubmitPod"
	GateDisableDefaultQuota                     gate.Name = "DisableDefaultQuota"
	GateEnableQuotaAdmission                    gate.Name = "EnableQuotaAdmission"
	GateEnableQuotaAdmissionOnUpdate            gate.Name = "EnableQuotaAdmissionOnUpdate"
	GateElasticQuotaIgnorePodOverhead           gate.Name = "ElasticQuotaIgnorePodOverhead"
	GateQuotaByAllocatedResources               gate.Name = "QuotaByAllocatedResources"
	GateQuotaByDeviceClasses                    gate.Name = "QuotaByDeviceClasses"
	GateElasticQuotaEvaluationTransformPod      gate.Name = "ElasticQuotaEvaluationTransformPod"
	GateReplaceResourcesTransformer             gate.Name = "ReplaceResourcesTransformer"
)

// Gates returns all gates in the order of usherctl steps --gates, with Koordinator's defaults where Koordinator has the
// gate.
func Gates() []gate.Gate {
	return []gate.Gate{
		{Name: GatePodMutatingWebhook, Default: true, Doc: "serve /mutate-pod"},
		{Name: GatePodValidatingWebhook, Default: true, Doc: "serve /validate-pod, /validate-pod-binding and /validate-workload"},
		{Name: GateReservationMutatingWebhook, Doc: "serve /mutate-reservation"},
		{Name: GateReservationValidatingWebhook, Doc: "serve /validate-reservation"},
		{Name: GateProfileValidatingWebhook, Default: true, Doc: "serve /validate-clustercolocationprofile and /validate-elasticquotaprofile"},
		{Name: GateColocationProfileSkipMutatingResources, Doc: "leave cpu and memory as they are, whatever class a profile gives"},
		{Name: GateColocationProfileSkipValidatingPriority, Doc: "let label koordinator.sh/priority change on update"},
		{Name: GateDisableExtendedResourceSpec, Doc: "do not write annotation node.koordinator.sh/extended-resource-spec"},
		{Name: GateDisableDeviceResourceSpec, Doc: "do not complete GPU resources"},
		{Name: GateValidatePodDeviceResource, Doc: "check GPU resources"},
		{Name: GateEnablePodEnhancedValidator, Doc: "check the labels that the enhanced validator's ConfigMap requires"},
		{Name: GateBindingAdmissionWebhook, Doc: "let only the users of the policy bind pods to nodes"},
		{Name: GateNodeMutatingWebhook, Doc: "serve /mutate-node-status, and register it in place of /mutate-nodes"},
		{Name: GateNodeValidatingWebhook, Doc: "serve /validate-node"},
		{Name: GateConfigMapValidatingWebhook, Doc: "serve /validate-configmap"},
		{Name: GateTopologyValidation, Default: true, Doc: "check the annotations on CPU and NUMA placement and on eviction"},
		{Name: GateReservationFit, Doc: "refuse pods that no reservation they ask for can ever hold"},
		{Name: GateElasticMutatingWebhook, Default: true, Doc: "serve /mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"},
		{Name: GateElasticValidatingWebhook, Default: true, Doc: "serve /validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"},
		{Name: GateElasticQuotaEnableUpdateResourceKey, Doc: "let an elastic quota limit fewer resources than its parent"},
		{Name: GateElasticQuotaGuaranteeUsage, Doc: "hold the min of elastic quotas against what is guaranteed up to the top"},
		{Name: GateMultiQuotaTree, Doc: "keep pods on the nodes of their quota's tree"},
		{Name: GateSupportParentQuotaSubmitPod, Doc: "let pods belong to parent quotas"},
		{Name: GateDisableDefaultQuota, Doc: "let only its label give a pod a quota"},
		{Name: GateEnableQuotaAdmission, Doc: "refuse pods that do not fit into their elastic quota or one above it"},
		{Name: GateEnableQuotaAdmissionOnUpdate, Doc: "refuse moves of a pod to a quota that it does not fit into, too"},
		{Name: GateElasticQuotaIgnorePodOverhead, Doc: "count pods without their overhead"},
		{Name: GateQuotaByAllocatedResources, Default: true,
			Doc: "count what the node of a pod holds while a resize is not carried out, not only the spec"},
		{Name: GateQuotaByDeviceClasses, Doc: "count the devices that pods claim by DRA, as the policy maps their classes to resources"},
		{Name: GateElasticQuotaEvaluationTransformPod, Doc: "count pods as annotation pod.koordinator.sh/replace-resources says, together with the next"},
		{Name: GateReplaceResourcesTransformer, Doc: "count pods as annotation pod.koordinator.sh/replace-resources says, together with the one before"},
	}
}

// ForeignGates returns the other gates of koord-manager, so that its --feature-gates can be used as it is.
func ForeignGates() []gate.Name {
	return []gate.Name{
		"WebhookFramework", "ColocationProfileController", "EnableSyncGPUSharedResource", "DisablePVCReservation",
		"PriorityTransformer", "PreemptionPolicyTransformer", "AllAlpha", "AllBeta",
	}
}
