package mutators

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// TreeQuestions holds the questions of the step multi-quota-tree. An error is never the user's fault; it wraps
// admit.ErrNotReady if the data is not available yet.
type TreeQuestions struct {
	// QuotaTree returns the current elastic quotas; a nil function has none.
	QuotaTree func() (*quota.Tree, error)
	// QuotaProfiles returns all ElasticQuotaProfiles in any order. The step only reads them.
	QuotaProfiles func() ([]*api.ElasticQuotaProfile, error)
	// LabelOnly: only the label binds a pod to a quota (gate DisableDefaultQuota).
	LabelOnly bool
}

// multiQuotaTree keeps pods on the nodes of their quota's tree: the node selector of the tree's profile is added to
// every term of the pod's own required node affinity. Pods without a tree may run everywhere.
func multiQuotaTree(ask TreeQuestions) admit.Mutator[admit.Pod] {
	return admit.Mutator[admit.Pod]{
		Name:  "multi-quota-tree",
		Doc:   "keeps pods on the nodes of their quota's tree, by required node affinity; of several profiles for a tree the first by name wins",
		Gate:  api.GateMultiQuotaTree,
		Needs: []string{api.CollectionElasticQuotas, api.CollectionElasticQuotaProfiles},
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) error {
			if req.Operation != admissionv1.Create || ask.QuotaTree == nil {
				req.Explain("only new pods are kept on the nodes of a quota tree")
				return nil
			}
			tree, err := ask.treeOf(req, pod)
			if err != nil || tree == "" {
				return err
			}
			profile, err := ask.profileOf(req, tree)
			if err != nil {
				return err
			}
			if profile == nil {
				req.Explain("no elastic quota profile is for quota tree %s: any node", tree)
				return nil
			}
			requirements := requirementsOf(req, profile)
			if len(requirements) == 0 {
				req.Explain("quota tree %s: elastic quota profile %s/%s selects no nodes", tree, profile.Namespace, profile.Name)
			}
			requireNodes(pod, requirements)
			return nil
		},
	}
}

// treeOf returns the ID of the tree of a pod's quota; empty if it has none.
func (q TreeQuestions) treeOf(req *admit.Request, pod *admit.Pod) (string, error) {
	tree, err := q.QuotaTree()
	if err != nil {
		return "", fmt.Errorf("reading the elastic quotas: %w", err)
	}
	binding := tree.Bind(quota.BindingKeyOf(req.Namespace, pod), q.LabelOnly)
	switch {
	case binding.Unknown():
		req.Warnf("label %s: no elastic quota is named %.40q; the pod may run on nodes of any quota tree", api.LabelQuotaName, binding.Name)
		req.Explain("label %s names no elastic quota: any node", api.LabelQuotaName)
	case binding.Quota == nil:
		req.Explain("no quota: pods of namespace %s are bound to no elastic quota", req.Namespace)
	case binding.Quota.TreeID == "":
		req.Explain("quota %s (via %s) is in no quota tree: any node", binding.Name, binding.Via)
	default:
		return binding.Quota.TreeID, nil
	}
	return "", nil
}

// profileOf returns the profile of a tree; nil if there is none. Several are a mistake that the pod's author can only
// report.
func (q TreeQuestions) profileOf(req *admit.Request, tree string) (first *api.ElasticQuotaProfile, _ error) {
	all, err := q.QuotaProfiles()
	if err != nil {
		return nil, fmt.Errorf("reading the elastic quota profiles: %w", err)
	}
	found := 0
	for _, p := range all {
		if p.Labels[api.LabelQuotaTreeID] != tree {
			continue
		}
		if found++; first == nil || byName(p, first) < 0 {
			first = p
		}
	}
	if found > 1 {
		req.Warnf("%d elastic quota profiles are for quota tree %.40q; %s/%s decides on the nodes", found, tree, first.Namespace, first.Name)
	}
	return first, nil
}

func byName(a, b *api.ElasticQuotaProfile) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// requirementsOf converts the node selector of a profile to node affinity, in a fixed order. An invalid selector
// gives a warning and no requirements, because the API server would refuse the pod for it.
func requirementsOf(req *admit.Request, profile *api.ElasticQuotaProfile) (all []corev1.NodeSelectorRequirement) {
	selector := profile.Spec.NodeSelector
	if selector == nil {
		return nil
	}
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		req.Warnf("elastic quota profile %s/%s is broken, not applied: spec.nodeSelector: %s", profile.Namespace, profile.Name, err)
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		all = append(all, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{selector.MatchLabels[key]}})
	}
	for _, e := range selector.MatchExpressions {
		all = append(all, corev1.NodeSelectorRequirement{Key: e.Key, Operator: corev1.NodeSelectorOperator(e.Operator), Values: e.Values})
	}
	return all
}

// requireNodes adds requirements to the pod's own on its nodes. A term that has them already is unchanged, and so is an
// empty one: it matches no node, and would match many with a requirement in it.
func requireNodes(pod *admit.Pod, requirements []corev1.NodeSelectorRequirement) {
	if len(requirements) == 0 {
		return // an empty term would match no node
	}
	terms := 0
	for t := range pod.NodeTerms() {
		terms++
		term := t.Term()
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			continue
		}
		for _, r := range requirements {
			if !slices.ContainsFunc(term.MatchExpressions, func(has corev1.NodeSelectorRequirement) bool { return sameRequirement(has, r) }) {
				t.AppendExpression(r)
			}
		}
	}
	if terms == 0 {
		pod.AppendNodeTerm(corev1.NodeSelectorTerm{MatchExpressions: requirements})
	}
}

// sameRequirement reports whether two requirements match the same nodes, whatever the order of their values.
func sameRequirement(a, b corev1.NodeSelectorRequirement) bool {
	return a.Key == b.Key && a.Operator == b.Operator && slices.Equal(sortedSet(a.Values), sortedSet(b.Values))
}

func sortedSet(values []string) []string { return slices.Compact(slices.Sorted(slices.Values(values))) }
