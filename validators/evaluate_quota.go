package validators

import (
	"cmp"
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/api"
	"usher.dev/usher/quota"
)

// Ledger answers whether a pod fits into its quota and all above it, now. No excess: it fits.
type Ledger interface {
	// Judge gives the verdict and remembers nothing.
	Judge(ctx context.Context, ask quota.Ask) (*quota.Excess, error)
	// Reserve gives the verdict and, if the pod fits, holds its room until the pod is seen.
	Reserve(ctx context.Context, ask quota.Ask) (*quota.Excess, error)
}

// QuotaAdmission is what pods are held to their quotas by.
type QuotaAdmission struct {
	Tree QuotaTree
	// Await waits a moment for a quota that is not there: another replica may just have let it in. Nil: nobody else does.
	Await    func(ctx context.Context, name string)
	Ledger   Ledger
	Counting quota.Counting
	// LabelOnly: only its label gives a pod a quota (gate DisableDefaultQuota).
	LabelOnly bool
	// OnUpdate: a pod that an update moves to another quota must fit there (gate EnableQuotaAdmissionOnUpdate).
	OnUpdate bool
}

// evaluateQuota refuses pods that do not fit into their elastic quota, or into one above it. It decides which requests ask for room and
// for how much; the ledger knows how much there is. What a pod counts for is held only if nothing else refused the pod: by Commit.
func evaluateQuota(ask QuotaAdmission) admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name:   "evaluate-quota",
		Doc:    "refuses pods that do not fit into their elastic quota or one above it; holds the room of those that do",
		Gate:   api.GateEnableQuotaAdmission,
		Needs:  []string{api.CollectionElasticQuotas, api.CollectionPodRequests},
		Run:    ask.by(Ledger.Judge),
		Commit: ask.by(Ledger.Reserve),
	}
}

// by makes the step of one of the ledger's answers.
func (q QuotaAdmission) by(answer func(Ledger, context.Context, quota.Ask) (*quota.Excess, error)) func(context.Context, *admit.Request, *admit.Pod) (field.ErrorList, error) {
	return func(ctx context.Context, req *admit.Request, pod *admit.Pod) (field.ErrorList, error) {
		if q.Tree == nil || !q.mayAsk(req, pod) {
			return nil, nil
		}
		if named := pod.Label(api.LabelQuotaName); q.Await != nil && named != "" {
			q.Await(ctx, named)
		}
		tree, err := q.Tree()
		if err != nil {
			return nil, fmt.Errorf("reading the elastic quotas: %w", err)
		}
		question, problem := q.question(req, tree, pod)
		if problem != nil {
			return field.ErrorList{problem}, nil
		}
		if question == nil {
			return nil, nil
		}
		excess, err := answer(q.Ledger, ctx, *question)
		if err != nil || excess == nil {
			return nil, err
		}
		return refusals(question.Binding, excess), nil
	}
}

// mayAsk tells whether a request may need room: that of a new pod, one that gives a pod another quota, a resize, or a status by which a
// pod that has ended counts again. A pod that is being deleted is no exception: it counts until it is gone, and that may take long.
func (q QuotaAdmission) mayAsk(req *admit.Request, pod *admit.Pod) bool {
	old := storedPod(req)
	switch {
	case ended(pod):
		return false
	case req.Operation == admissionv1.Create:
		return req.SubResource == ""
	case req.Operation != admissionv1.Update || old == nil:
		return false
	case req.SubResource == "status" && ended(old):
		return true
	case req.SubResource == "" || req.SubResource == "status":
		return q.OnUpdate && !sameQuotaLabel(pod, old)
	}
	return req.SubResource == "resize"
}

// ended tells whether a pod is over and needs nothing any more.
func ended(pod *admit.Pod) bool {
	return pod.Phase() == corev1.PodSucceeded || pod.Phase() == corev1.PodFailed
}

// question is what the ledger is asked; nil if the pod is of no quota, or asks for no more than it has.
func (q QuotaAdmission) question(req *admit.Request, tree *quota.Tree, pod *admit.Pod) (*quota.Ask, *field.Error) {
	now, before := q.member(req, tree, pod), q.member(req, tree, storedPod(req))
	if b := now.Binding; b.Quota == nil && !b.Unknown() || before != nil && !asksMore(req, now, before) {
		return nil, nil
	}
	if now.Binding.Unknown() {
		return nil, field.Invalid(quotaPath, admit.Shorten(now.Binding.Name, 80),
			"no elastic quota has this name; set the label to one that exists, or remove it")
	}
	tellOfBrokenLimits(req, tree.Path(now.Binding.Name))
	return &quota.Ask{Pod: now.pod, Binding: now.Binding, Charge: now.Charge, Before: before.place()}, nil
}

// member is a pod in its quota.
type member struct {
	pod *quota.Pod
	quota.Standing
}

// member gives a pod in its quota; nil without a pod. What a pod of no quota counts for is not looked at.
func (q QuotaAdmission) member(req *admit.Request, tree *quota.Tree, pod *admit.Pod) *member {
	if pod == nil {
		return nil
	}
	m := &member{Standing: quota.Standing{Binding: tree.Bind(quota.HolderOf(req.Namespace, pod), q.LabelOnly)}}
	if m.Binding.Quota != nil || m.Binding.Unknown() {
		m.pod = countedPod(req, pod)
		m.Charge = q.Counting.Charge(m.pod)
	}
	return m
}

func (m *member) place() *quota.Standing {
	if m == nil {
		return nil
	}
	return &m.Standing
}

// asksMore tells whether an update takes a pod to another quota (another label may lead to the same one), or a resize or a status lets it
// count for more. One that gives room back need not fit into a quota that has become too small for it.
func asksMore(req *admit.Request, now, before *member) bool {
	if req.SubResource == "" || now.Binding.Name != before.Binding.Name {
		return now.Binding.Name != before.Binding.Name
	}
	for name, amount := range now.Charge {
		if amount.Cmp(before.Charge[name]) > 0 {
			return true
		}
	}
	return false
}

// countedPod is a pod as quotas count it. The request knows its namespace, and who it is while a hand-written review does not.
func countedPod(req *admit.Request, pod *admit.Pod) *quota.Pod {
	meta := metav1.ObjectMeta{
		Namespace: req.Namespace, Name: pod.Name(), UID: cmp.Or(pod.UID(), req.UID), Labels: pod.Labels(), Annotations: pod.Annotations(),
	}
	spec := pod.Asking()
	return quota.PodOf(&meta, &spec, pod.Phase())
}

// tellOfBrokenLimits warns of quotas whose admission annotation does not read: spec.max limits alone then (W63).
func tellOfBrokenLimits(req *admit.Request, path []*quota.Quota) {
	at := admit.AnnotationPath(api.AnnotationQuotaAdmission).String()
	for _, q := range path {
		for _, problem := range q.Problems {
			if problem.Field == at {
				req.Warnf("elastic quota %.60s: annotation %s does not read; spec.max limits alone", q.Name, api.AnnotationQuotaAdmission)
			}
		}
	}
}

// maxRefusals bounds how many exceeded limits are told: whoever keeps to these will hear of the others.
const maxRefusals = 10

// refusals word an excess, one problem for each resource of each quota.
func refusals(b quota.Binding, excess *quota.Excess) (problems field.ErrorList) {
	at := admit.ContainersPath
	if b.Via == "label" {
		at = quotaPath
	}
	for i := range excess.Items {
		item := &excess.Items[i]
		if i == maxRefusals {
			return append(problems, field.Forbidden(at, fmt.Sprintf("and %d more limits, in quotas above these", len(excess.Items)-i)))
		}
		problems = append(problems, field.Forbidden(at, fmt.Sprintf("quota %s: %s requested %s, used %s%s, limit %s (%s); %s",
			whose(item.Quota, b, excess), item.Resource, &item.Requested, &item.Used, reserved(item), &item.Limit, item.Source, wayOut(item))))
	}
	return problems
}

// whose names a quota, and what the pod has to do with it.
func whose(name string, b quota.Binding, excess *quota.Excess) string {
	switch {
	case name == excess.Own:
		return fmt.Sprintf("%s (via %s)", name, excess.Via)
	case b.Quota.Parent == name:
		return fmt.Sprintf("%s, parent of %s (via %s)", name, excess.Own, excess.Via)
	}
	return fmt.Sprintf("%s, above %s (via %s)", name, excess.Own, excess.Via)
}

// reserved is what is held for pods that were admitted a moment ago, if there is any.
func reserved(item *quota.ExcessItem) string {
	if item.Reserved.IsZero() {
		return ""
	}
	return ", reserved " + item.Reserved.String()
}

// wayOut is what helps. Where the request alone is too large, it does not help that others go.
func wayOut(item *quota.ExcessItem) string {
	if item.Requested.Cmp(item.Limit) > 0 {
		return "ask for less, or raise the limit"
	}
	return "ask for less, free some of it, or raise the limit"
}
