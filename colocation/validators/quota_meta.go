package validators

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// QuotaTree returns the current elastic quotas. An error wraps admit.ErrNotReady before they have been listed. A nil
// function has no quotas.
type QuotaTree func() (*quota.Tree, error)

// QuotaMembership holds the dependencies of the check of the quotas that pods name.
type QuotaMembership struct {
	Tree QuotaTree
	// LabelOnly: only the label binds a pod to a quota (gate DisableDefaultQuota).
	LabelOnly bool
	// Parents: pods may also belong to parent quotas (gate SupportParentQuotaSubmitPod).
	Parents bool
	// Evaluated is the mode of step evaluate-quota where no override changes it; empty if its gate is off. In mode enforce
	// it refuses pods on create and, with EvaluatedOnUpdate, on a change of their quota. It then also refuses quotas that
	// do not exist.
	Evaluated         admit.Mode
	EvaluatedOnUpdate bool
}

var (
	quotaPath       = admit.LabelPath(api.LabelQuotaName)
	preemptiblePath = admit.LabelPath(api.LabelQuotaPreemptible)
)

// quotaMeta keeps pods out of parent quotas, whose capacity is for their children, and keeps the preemptibility that
// the scheduler relies on. Quotas change while pods exist, so on update only changed labels are checked.
func quotaMeta(m QuotaMembership) admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name:  "quota-meta",
		Doc:   "keeps pods out of parent quotas, and their preemptible label as it is; an update is asked only about what it changes",
		Needs: []string{api.CollectionElasticQuotas},
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) (problems field.ErrorList, _ error) {
			old := storedPod(req)
			if old != nil {
				if pod.Deleting() {
					return pass(req, "the pod is being deleted")
				}
				problems = keepsPreemptible(pod, old)
			}
			if m.Tree == nil || old != nil && sameQuotaLabel(pod, old) {
				if len(problems) == 0 {
					req.Explain("the update keeps the labels %s and %s", api.LabelQuotaName, api.LabelQuotaPreemptible)
				}
				return problems, nil
			}
			tree, err := m.Tree()
			if err != nil {
				return nil, fmt.Errorf("reading the elastic quotas: %w", err)
			}
			return append(problems, m.judge(req, tree, pod, old)...), nil
		},
	}
}

// keepsPreemptible refuses to change whether a pod is preemptible: the scheduler has counted it as one or the other.
func keepsPreemptible(is, was *admit.Pod) field.ErrorList {
	now, before := is.Label(api.LabelQuotaPreemptible), was.Label(api.LabelQuotaPreemptible)
	if now == before {
		return nil
	}
	return field.ErrorList{field.Invalid(preemptiblePath, now, fmt.Sprintf(
		"was %q and cannot change while the pod exists; create a new pod, or set it back", before))}
}

// sameQuotaLabel reports whether an update keeps the quota label. The namespace of a pod, which also matters, cannot
// change.
func sameQuotaLabel(is, was *admit.Pod) bool {
	return quota.BindingKeyOf("", is) == quota.BindingKeyOf("", was)
}

// judge checks the quota that a pod moves to. The quota that it already belongs to is not checked again.
func (m QuotaMembership) judge(req *admit.Request, tree *quota.Tree, pod, old *admit.Pod) field.ErrorList {
	b := tree.Bind(quota.BindingKeyOf(req.Namespace, pod), m.LabelOnly)
	evaluated := m.refusesUnknown(req, old != nil)
	if old != nil && tree.Bind(quota.BindingKeyOf(req.Namespace, old), m.LabelOnly).Name == b.Name {
		req.Explain("the pod stays in quota %s", b.Name)
		return nil
	}
	switch {
	case b.Unknown() && !evaluated:
		req.Warnf("label %s: no elastic quota is named %.40q; the pod counts against no quota", api.LabelQuotaName, b.Name)
		req.Explain("label %s names no elastic quota: no quota limits the pod", api.LabelQuotaName)
	case b.Unknown() && req.Expected: // evaluate-quota does not judge it
		req.Warnf("label %s: no elastic quota is named %.40q yet: pods are refused until there is one", api.LabelQuotaName, b.Name)
	case b.Unknown():
		req.Explain("label %s names no elastic quota: evaluate-quota decides", api.LabelQuotaName)
	case b.Quota == nil:
		req.Explain("no quota: pods of namespace %s are bound to no elastic quota", req.Namespace)
	case b.Quota.IsParent && !m.Parents:
		return field.ErrorList{field.Forbidden(quotaPath, fmt.Sprintf(
			"quota %s (via %s) is a parent of quotas and takes no pods; set the label to %s", b.Name, b.Via, childrenOf(tree, b.Name)))}
	default:
		req.Explain("quota %s (via %s) takes pods", b.Name, b.Via)
	}
	return nil
}

// refusesUnknown reports whether step evaluate-quota refuses a request whose pod names a quota that does not exist.
func (m QuotaMembership) refusesUnknown(req *admit.Request, update bool) bool {
	return req.ModeOf(evaluateQuotaName, m.Evaluated) == admit.Enforce && (!update || m.EvaluatedOnUpdate)
}

// childrenOf lists some quotas that a pod may use instead of their parent.
func childrenOf(tree *quota.Tree, parent string) string {
	const some = 3
	names := tree.Children(parent)
	switch {
	case len(names) == 0:
		return "a quota that is no parent: it has no children yet"
	case len(names) > some:
		return fmt.Sprintf("one of its %d children, such as %s", len(names), strings.Join(names[:some], ", "))
	case len(names) == 1:
		return "its child " + names[0]
	}
	return "one of its children " + strings.Join(names, ", ")
}
