package validators

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/sections"
)

// QuotaSelection holds the dependencies of the step quota-selection, in addition to QuotaMembership.
type QuotaSelection struct {
	Policy *sections.QuotaPolicy
	// Tree returns the stored quotas. If awaited is not empty, it waits briefly until a quota of that name is stored,
	// because it may just have been created.
	Tree func(ctx context.Context, awaited string) (*quota.Tree, error)
	// Core answers the question for the labels of the pod's namespace.
	Core admit.Questions
}

// quotaSelection lets pods name only quotas of their namespace and those that the policy allows to it, and keeps them out
// of the reserved quotas, which limit nothing. A label that names no quota is left to evaluate-quota where that refuses it. An
// update is judged only if it changes the quota of the pod.
func quotaSelection(s QuotaSelection, m QuotaMembership) admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name:    "quota-selection",
		Doc:     "lets pods name only elastic quotas that the policy allows to their namespace, and keeps them out of those without limits",
		Section: sections.QuotasSection,
		Needs:   []string{api.CollectionElasticQuotas, admit.CollectionNamespaces},
		Idle:    s.Policy == nil || !s.Policy.LimitsLabels() && !s.Policy.LimitsReserved(),
		Run: func(ctx context.Context, req *admit.Request, pod *admit.Pod) (field.ErrorList, error) {
			old := storedPod(req)
			if old != nil && (pod.Deleting() || sameQuotaLabel(pod, old)) {
				return pass(req, "the update keeps the label %s, or the pod is being deleted", api.LabelQuotaName)
			}
			c, err := s.choiceOf(ctx, req, m, pod, old)
			if err != nil {
				return nil, fmt.Errorf("reading the elastic quotas: %w", err)
			}
			if old != nil && c.was.Name == c.now.Name {
				return pass(req, "the pod stays in quota %s", c.now.Name)
			}
			return s.judge(req, c)
		},
	}
}

// quotaChoice is the quota that a pod is in after a request.
type quotaChoice struct {
	now        quota.Binding
	was        quota.Binding // for an update, before it
	unlabelled quota.Binding // without the label
	labelled   bool          // the label decides
	leftAlone  bool          // the label names no quota, and evaluate-quota refuses that
}

func (s QuotaSelection) choiceOf(
	ctx context.Context, req *admit.Request, m QuotaMembership, pod, old *admit.Pod,
) (c quotaChoice, err error) {
	key, awaited := quota.BindingKeyOf(req.Namespace, pod), ""
	if s.Policy.LimitsLabels() {
		awaited = key.Label
	}
	tree, err := s.Tree(ctx, awaited)
	if err != nil {
		return c, err
	}
	c = quotaChoice{now: tree.Bind(key, m.LabelOnly), labelled: key.Label != "",
		unlabelled: tree.Bind(quota.BindingKey{Namespace: req.Namespace}, m.LabelOnly)}
	if old != nil {
		c.was = tree.Bind(quota.BindingKeyOf(req.Namespace, old), m.LabelOnly)
	}
	c.leftAlone = c.now.Unknown() && m.refusesUnknown(req, old != nil)
	return c, nil
}

// none reports whether no quota is found for the pod.
func (c quotaChoice) none() bool { return c.now.Quota == nil && (!c.labelled || c.now.Unknown()) }

// own reports whether the quota belongs to the pod's namespace, or is in it.
func (c quotaChoice) own(namespace string) bool {
	return c.now.Name == c.unlabelled.Name || c.now.Quota != nil && c.now.Quota.Namespace == namespace
}

// judge returns the problem of a choice, if there is one.
func (s QuotaSelection) judge(req *admit.Request, c quotaChoice) (field.ErrorList, error) {
	switch p := s.Policy; {
	case c.leftAlone:
		return pass(req, "label %s names no elastic quota: evaluate-quota decides", api.LabelQuotaName)
	case c.labelled && api.ReservedQuota(c.now.Name) && !p.ReservedByLabel:
		return field.ErrorList{field.Forbidden(quotaPath, fmt.Sprintf("pods may not choose the reserved quota %s, which limits nothing "+
			"(quotas.reserved of usher's policy); name the quota of your team", c.now.Name))}, nil
	case c.none() && !p.ReservedByDefault:
		return field.ErrorList{field.Required(quotaPath, fmt.Sprintf("no elastic quota is for pods of namespace %s with this label, "+
			"and pods without one are refused (quotas.reserved of usher's policy); name the quota of your team, "+
			"or have the namespace listed in a quota", req.Namespace))}, nil
	case c.was.Quota != nil && c.now.Quota == nil && !p.ReservedByMove:
		return field.ErrorList{field.Forbidden(quotaPath, fmt.Sprintf("the pod may not leave quota %s for one that limits nothing "+
			"(quotas.reserved of usher's policy); keep the label as it is, or name another quota of your team", c.was.Name))}, nil
	case p.LimitsLabels() && !c.own(req.Namespace):
		return s.judgeLabel(req, c.now)
	}
	return pass(req, "quotas of the policy lets pods of namespace %s be in quota %s", req.Namespace, c.now.Name)
}

// judgeLabel returns the problem of a label that names another quota than the namespace's, if there is one.
func (s QuotaSelection) judgeLabel(req *admit.Request, b quota.Binding) (field.ErrorList, error) {
	tree := ""
	if b.Quota != nil {
		tree = b.Quota.TreeID
	}
	by, may, err := s.Policy.MayName(b.Name, tree, req.Namespace, s.Core.LabelsOfNamespace(req))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading namespace %s: %w", req.Namespace, err)
	case !may:
		return field.ErrorList{field.Forbidden(quotaPath, fmt.Sprintf("namespace %s may not name quota %s: quotas.selection of usher's "+
			"policy does not let it; remove the label, or have the namespace added there", req.Namespace, admit.Shorten(b.Name, 80)))}, nil
	}
	return pass(req, "entry %s of quotas.selection lets namespace %s name quota %s", by, req.Namespace, b.Name)
}
