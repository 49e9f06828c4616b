package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"usher.dev/usher/api"
	"usher.dev/usher/gate"
)

// knownGates are all of them, with Koordinator's name and default where Koordinator has it. A route's or a step's gate stands in its own
// table; the others are arguments of steps, in routes.go.
func knownGates() []gate.Gate {
	return []gate.Gate{
		{Name: api.GatePodMutatingWebhook, Default: true, Doc: "serve /mutate-pod"},
		{Name: api.GatePodValidatingWebhook, Default: true, Doc: "serve /validate-pod and /validate-pod-binding"},
		{Name: api.GateReservationMutatingWebhook, Doc: "serve /mutate-reservation"},
		{Name: api.GateReservationValidatingWebhook, Doc: "serve /validate-reservation"},
		{Name: api.GateProfileValidatingWebhook, Default: true, Doc: "serve /validate-clustercolocationprofile"},
		{Name: api.GateColocationProfileSkipMutatingResources, Doc: "leave cpu and memory as they are, whatever class a profile gives"},
		{Name: api.GateColocationProfileSkipValidatingPriority, Doc: "let label koordinator.sh/priority change on update"},
		{Name: api.GateDisableExtendedResourceSpec, Doc: "do not write annotation node.koordinator.sh/extended-resource-spec"},
		{Name: api.GateDisableDeviceResourceSpec, Doc: "do not complete GPU resources"},
		{Name: api.GateValidatePodDeviceResource, Doc: "check GPU resources"},
		{Name: api.GateEnablePodEnhancedValidator, Doc: "check the labels that the enhanced validator's ConfigMap requires"},
		{Name: api.GateBindingAdmissionWebhook, Doc: "let only the users of the policy bind pods to nodes"},
		{Name: api.GateNodeMutatingWebhook, Doc: "serve /mutate-node-status, and register it in place of /mutate-nodes"},
		{Name: api.GateNodeValidatingWebhook, Doc: "serve /validate-node"},
		{Name: api.GateConfigMapValidatingWebhook, Doc: "serve /validate-configmap"},
		{Name: api.GateTopologyValidation, Default: true, Doc: "check the annotations that ask for CPU and NUMA placement"},
		{Name: api.GateReservationFit, Doc: "refuse pods that no reservation they ask for can ever hold"},
		{Name: api.GateElasticMutatingWebhook, Default: true, Doc: "serve /mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"},
		{Name: api.GateElasticValidatingWebhook, Default: true, Doc: "serve /validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"},
		{Name: api.GateElasticQuotaEnableUpdateResourceKey, Doc: "let an elastic quota limit fewer resources than its parent"},
		{Name: api.GateElasticQuotaGuaranteeUsage, Doc: "hold the min of elastic quotas against what is guaranteed up to the top"},
		{Name: api.GateMultiQuotaTree, Doc: "keep pods on the nodes of their quota's tree"},
		{Name: api.GateSupportParentQuotaSubmitPod, Doc: "let pods belong to parent quotas"},
		{Name: api.GateDisableDefaultQuota, Doc: "let only its label give a pod a quota"},
		{Name: api.GateEnableQuotaAdmission, Doc: "refuse pods that do not fit into their elastic quota or one above it"},
		{Name: api.GateEnableQuotaAdmissionOnUpdate, Doc: "refuse moves of a pod to a quota that it does not fit into, too"},
		{Name: api.GateElasticQuotaIgnorePodOverhead, Doc: "count pods without their overhead"},
		{Name: api.GateElasticQuotaEvaluationTransformPod, Doc: "count pods as annotation pod.koordinator.sh/replace-resources says, together with the next"},
		{Name: api.GateReplaceResourcesTransformer, Doc: "count pods as annotation pod.koordinator.sh/replace-resources says, together with the one before"},
	}
}

func gatesFlag(set *pflag.FlagSet) *string {
	return set.String("feature-gates", "", "switch feature gates, such as BindingAdmissionWebhook=true,TopologyValidation=false; usher steps --gates lists them")
}

// parseGates reads --feature-gates, such as A=true,B=false.
func parseGates(text string) (gate.Set, error) {
	set, err := gate.Parse(text, knownGates())
	if err != nil {
		return gate.Set{}, fmt.Errorf("--feature-gates: %w", err)
	}
	return set, nil
}

// defaultGates are the gates as they are by default.
func defaultGates() gate.Set { return gate.Defaults(knownGates()) }
