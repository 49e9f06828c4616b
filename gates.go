package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"
)

// gate is a feature gate, with Koordinator's name and default where Koordinator has it.
type gate struct {
	name string
	on   bool // by default
	doc  string
}

// knownGates are all of them. A route's or a step's gate stands in its own table; the others are arguments of steps, in routes.go.
func knownGates() []gate {
	return []gate{
		{"PodMutatingWebhook", true, "serve /mutate-pod"},
		{"PodValidatingWebhook", true, "serve /validate-pod and /validate-pod-binding"},
		{"ReservationMutatingWebhook", false, "serve /mutate-reservation"},
		{"ReservationValidatingWebhook", false, "serve /validate-reservation"},
		{"ProfileValidatingWebhook", true, "serve /validate-clustercolocationprofile"},
		{"ColocationProfileSkipMutatingResources", false, "leave cpu and memory as they are, whatever class a profile gives"},
		{"ColocationProfileSkipValidatingPriority", false, "let label koordinator.sh/priority change on update"},
		{"DisableExtendedResourceSpec", false, "do not write annotation node.koordinator.sh/extended-resource-spec"},
		{"DisableDeviceResourceSpec", false, "do not complete GPU resources"},
		{"ValidatePodDeviceResource", false, "check GPU resources"},
		{"EnablePodEnhancedValidator", false, "check the labels that the enhanced validator's ConfigMap requires"},
		{"BindingAdmissionWebhook", false, "let only the users of the policy bind pods to nodes"},
		{"NodeMutatingWebhook", false, "serve /mutate-node-status, and register it in place of /mutate-nodes"},
		{"NodeValidatingWebhook", false, "serve /validate-node"},
		{"ConfigMapValidatingWebhook", false, "serve /validate-configmap"},
		{"TopologyValidation", true, "check the annotations that ask for CPU and NUMA placement"},
		{"ReservationFit", false, "refuse pods that no reservation they ask for can ever hold"},
		{"ElasticMutatingWebhook", true, "serve /mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"},
		{"ElasticValidatingWebhook", true, "serve /validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"},
		{"ElasticQuotaEnableUpdateResourceKey", false, "let an elastic quota limit fewer resources than its parent"},
		{"ElasticQuotaGuaranteeUsage", false, "hold the min of elastic quotas against what is guaranteed up to the top"},
		{"MultiQuotaTree", false, "keep pods on the nodes of their quota's tree"},
		{"SupportParentQuotaSubmitPod", false, "let pods belong to parent quotas"},
		{"DisableDefaultQuota", false, "let only its label give a pod a quota"},
		{"EnableQuotaAdmission", false, "refuse pods that do not fit into their elastic quota or one above it"},
		{"EnableQuotaAdmissionOnUpdate", false, "refuse moves of a pod to a quota that it does not fit into, too"},
		{"ElasticQuotaIgnorePodOverhead", false, "count pods without their overhead"},
		{"ElasticQuotaEvaluationTransformPod", false, "count pods as annotation pod.koordinator.sh/replace-resources says, together with the next"},
		{"ReplaceResourcesTransformer", false, "count pods as annotation pod.koordinator.sh/replace-resources says, together with the one before"},
	}
}

// gates are the feature gates as they are set.
type gates struct{ set featuregate.FeatureGate }

func gatesFlag(set *pflag.FlagSet) *string {
	return set.String("feature-gates", "", "switch feature gates, such as BindingAdmissionWebhook=true,TopologyValidation=false; usher steps --gates lists them")
}

// parseGates reads --feature-gates, such as A=true,B=false.
func parseGates(text string) (gates, error) {
	known := featuregate.NewFeatureGate()
	specs := map[featuregate.Feature]featuregate.FeatureSpec{}
	var names []string
	for _, g := range knownGates() {
		specs[featuregate.Feature(g.name)] = featuregate.FeatureSpec{Default: g.on, PreRelease: featuregate.Beta}
		names = append(names, g.name)
	}
	if err := known.Add(specs); err != nil {
		panic(err) // the table names a gate twice
	}
	if err := known.Set(text); err != nil {
		return gates{}, fmt.Errorf("--feature-gates: %w; the gates are %s", err, strings.Join(names, ", "))
	}
	return gates{known}, nil
}

// defaultGates are the gates as they are by default.
func defaultGates() gates {
	open, err := parseGates("")
	if err != nil {
		panic(err) // nothing was to be parsed
	}
	return open
}

// on tells whether a gate is open. "" is no gate, and !Name is open when Name is not.
func (g gates) on(name string) bool {
	switch closed, inverted := strings.CutPrefix(name, "!"); {
	case name == "":
		return true
	case inverted:
		return !g.set.Enabled(featuregate.Feature(closed))
	default:
		return g.set.Enabled(featuregate.Feature(name))
	}
}
