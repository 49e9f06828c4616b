package requests

import (
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.dev/usher/internal/poddefaults"
)

func fillNamespace(n *corev1.Namespace) {
	poddefaults.Fill(&n.Status.Phase, corev1.NamespaceActive)
	if n.Name != "" {
		n.Labels = withLabel(n.Labels, corev1.LabelMetadataName, n.Name)
	}
}

func withLabel(labels map[string]string, key, value string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}

func fillSecret(s *corev1.Secret) {
	poddefaults.Fill(&s.Type, corev1.SecretTypeOpaque)
	for key, value := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

func fillService(s *corev1.Service) {
	poddefaults.Fill(&s.Spec.SessionAffinity, corev1.ServiceAffinityNone)
	fillAffinity(&s.Spec)
	poddefaults.Fill(&s.Spec.Type, corev1.ServiceTypeClusterIP)
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		poddefaults.Fill(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if s.Spec.Type != corev1.ServiceTypeExternalName {
		poddefaults.Point(&s.Spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if balances := s.Spec.Type == corev1.ServiceTypeLoadBalancer; balances {
		poddefaults.Point(&s.Spec.AllocateLoadBalancerNodePorts, true)
	}
	if s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer || s.Spec.Type == corev1.ServiceTypeClusterIP &&
		len(s.Spec.ExternalIPs) > 0 {
		poddefaults.Fill(&s.Spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
}

func fillAffinity(s *corev1.ServiceSpec) {
	switch s.SessionAffinity {
	case corev1.ServiceAffinityNone:
		s.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		poddefaults.Point(&s.SessionAffinityConfig, corev1.SessionAffinityConfig{})
		poddefaults.Point(&s.SessionAffinityConfig.ClientIP, corev1.ClientIPConfig{})
		poddefaults.Point(&s.SessionAffinityConfig.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds)
	}
}

func fillEndpoints(e *corev1.Endpoints) { //nolint:staticcheck // rules may still be for Endpoints
	for i := range e.Subsets {
		for n := range e.Subsets[i].Ports {
			poddefaults.Fill(&e.Subsets[i].Ports[n].Protocol, corev1.ProtocolTCP)
		}
	}
}

func fillPersistentVolume(v *corev1.PersistentVolume) {
	poddefaults.Fill(&v.Status.Phase, corev1.VolumePending)
	poddefaults.Fill(&v.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	poddefaults.Point(&v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	fillStored(&v.Spec.PersistentVolumeSource)
}

func fillStored(v *corev1.PersistentVolumeSource) {
	if v.HostPath != nil {
		poddefaults.Point(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.RBD != nil {
		poddefaults.Fill(&v.RBD.RBDPool, "rbd")
		poddefaults.Fill(&v.RBD.RadosUser, "admin")
		poddefaults.Fill(&v.RBD.Keyring, "/etc/ceph/keyring")
	}
	if v.ISCSI != nil {
		poddefaults.Fill(&v.ISCSI.ISCSIInterface, "default")
	}
	poddefaults.AzureDisk(v.AzureDisk)
	if v.ScaleIO != nil {
		poddefaults.Fill(&v.ScaleIO.StorageMode, "ThinProvisioned")
		poddefaults.Fill(&v.ScaleIO.FSType, "xfs")
	}
}

func fillClaim(c *corev1.PersistentVolumeClaim) {
	poddefaults.Fill(&c.Status.Phase, corev1.ClaimPending)
	poddefaults.Point(&c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
}

func fillNetworkPolicy(p *networkingv1.NetworkPolicy) {
	if len(p.Spec.PolicyTypes) == 0 {
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	for _, rule := range p.Spec.Ingress {
		fillPorts(rule.Ports)
	}
	for _, rule := range p.Spec.Egress {
		fillPorts(rule.Ports)
	}
}

func fillPorts(ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		poddefaults.Point(&ports[i].Protocol, corev1.ProtocolTCP)
	}
}

func fillAutoscaler(h *autoscalingv2.HorizontalPodAutoscaler) {
	poddefaults.Point(&h.Spec.MinReplicas, 1)
	if len(h.Spec.Metrics) == 0 {
		target := autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(80))}
		h.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: target}}}
	}
	if b := h.Spec.Behavior; b != nil {
		percent := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}
		pods := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}
		fillScaling(&b.ScaleUp, pods, percent)
		poddefaults.Point(&b.ScaleUp.StabilizationWindowSeconds, 0)
		fillScaling(&b.ScaleDown, percent)
	}
}

func fillScaling(rules **autoscalingv2.HPAScalingRules, usual ...autoscalingv2.HPAScalingPolicy) {
	poddefaults.Point(rules, autoscalingv2.HPAScalingRules{})
	poddefaults.Point(&(*rules).SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if (*rules).Policies == nil {
		(*rules).Policies = usual
	}
}

func fillBinding(role *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	poddefaults.Fill(&role.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if subjects[i].Kind == rbacv1.UserKind || subjects[i].Kind == rbacv1.GroupKind {
			poddefaults.Fill(&subjects[i].APIGroup, rbacv1.GroupName)
		}
	}
}

func fillDriver(d *storagev1.CSIDriver) {
	poddefaults.Point(&d.Spec.AttachRequired, true)
	poddefaults.Point(&d.Spec.PodInfoOnMount, false)
	poddefaults.Point(&d.Spec.StorageCapacity, false)
	poddefaults.Point(&d.Spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(d.Spec.VolumeLifecycleModes) == 0 {
		d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	poddefaults.Point(&d.Spec.RequiresRepublish, false)
	poddefaults.Point(&d.Spec.SELinuxMount, false)
}

func fillMutating(c *registration.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		fillWebhook(&w.ClientConfig, w.Rules, &w.FailurePolicy, &w.TimeoutSeconds)
		fillSelectors(&w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector)
		poddefaults.Point(&w.ReinvocationPolicy, registration.NeverReinvocationPolicy)
	}
}

func fillValidating(c *registration.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		fillWebhook(&w.ClientConfig, w.Rules, &w.FailurePolicy, &w.TimeoutSeconds)
		fillSelectors(&w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector)
	}
}

func fillWebhook(client *registration.WebhookClientConfig, rules []registration.RuleWithOperations, policy **registration.FailurePolicyType,
	timeout **int32) {
	poddefaults.Point(policy, registration.Fail)
	poddefaults.Point(timeout, 10)
	if client.Service != nil {
		poddefaults.Point(&client.Service.Port, 443)
	}
	for i := range rules {
		poddefaults.Point(&rules[i].Scope, registration.AllScopes)
	}
}

func fillSelectors(policy **registration.MatchPolicyType, namespaces, objects **metav1.LabelSelector) {
	poddefaults.Point(policy, registration.Equivalent)
	poddefaults.Point(namespaces, metav1.LabelSelector{})
	poddefaults.Point(objects, metav1.LabelSelector{})
}

func fillResources(r *registration.MatchResources) {
	if r == nil {
		return
	}
	fillSelectors(&r.MatchPolicy, &r.NamespaceSelector, &r.ObjectSelector)
	for i := range r.ResourceRules {
		poddefaults.Point(&r.ResourceRules[i].Scope, registration.AllScopes)
	}
	for i := range r.ExcludeResourceRules {
		poddefaults.Point(&r.ExcludeResourceRules[i].Scope, registration.AllScopes)
	}
}

// fillDefinition fills in the fields of a CustomResourceDefinition, which has no type here.
func fillDefinition(object any) {
	spec := mapping(*object.(*map[string]any), "spec")
	names := mapping(spec, "names")
	if names == nil {
		return
	}
	kind, _ := names["kind"].(string)
	absent(names, "singular", strings.ToLower(kind))
	absent(names, "listKind", kind+"List")
	absent(spec, "conversion", map[string]any{"strategy": "None"})
	if service := mapping(spec, "conversion", "webhook", "clientConfig", "service"); service != nil {
		absent(service, "port", int64(443))
	}
}

// mapping returns the mapping at a path, or nil.
func mapping(of map[string]any, path ...string) map[string]any {
	for _, name := range path {
		of, _ = of[name].(map[string]any)
	}
	return of
}

// absent sets a member that is absent or empty.
func absent(of map[string]any, key string, value any) {
	if is := of[key]; is == nil || is == "" {
		of[key] = value
	}
}
