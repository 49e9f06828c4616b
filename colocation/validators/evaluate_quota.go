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
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// Ledger answers whether a pod fits into its quota and all above it, now.
type Ledger interface {
	// Judge returns the verdict and remembers nothing.
	Judge(ctx context.Context, ask quota.Request) (quota.PodVerdict, error)
	// Reserve returns the verdict and, if the pod fits, holds its room until the pod is seen.
	Reserve(ctx context.Context, ask quota.Request) (quota.PodVerdict, error)
}

// QuotaAdmission is what pods are held to their quotas by.
type QuotaAdmission struct {
	// Ledger is nil where the steps are merely listed.
	Ledger Ledger
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
func (q QuotaAdmission) by(answer func(Ledger, context.Context, quota.Request) (quota.PodVerdict, error)) func(context.Context, *admit.Request, *admit.Pod) (field.ErrorList, error) {
	return func(ctx context.Context, req *admit.Request, pod *admit.Pod) (field.ErrorList, error) {
		if q.Ledger == nil || !q.mayAsk(req, pod) {
			return nil, nil
		}
		verdict, err := answer(q.Ledger, ctx, askFor(req, pod))
		if err != nil {
			return nil, err
		}
		if verdict.Unknown {
			return field.ErrorList{field.Invalid(quotaPath, admit.Shorten(verdict.Binding.Name, 80),
				"no elastic quota has this name; set the label to one that exists, or remove it")}, nil
		}
		for _, name := range verdict.BrokenLimits { // (W63)
			req.Warnf("elastic quota %.60s: annotation %s does not read; spec.max limits alone", name, api.AnnotationQuotaAdmission)
		}
		return refusals(verdict), nil
	}
}

// mayAsk reports whether a request may need room: that of a new pod, one that gives a pod another quota, a resize, or a status by which a
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

// ended reports whether a pod is over and needs nothing any more.
func ended(pod *admit.Pod) bool {
	return pod.Phase() == corev1.PodSucceeded || pod.Phase() == corev1.PodFailed
}

// askFor is what the ledger is asked.
func askFor(req *admit.Request, pod *admit.Pod) quota.Request {
	return quota.Request{Key: quota.BindingKeyOf(req.Namespace, pod), Read: func() (now, stored *quota.Pod) {
		if old := storedPod(req); old != nil {
			stored = countedPod(req, old)
		}
		return countedPod(req, pod), stored
	}}
}

// countedPod is a pod as quotas count it. The request knows its namespace, and who it is while a hand-written review does not.
func countedPod(req *admit.Request, pod *admit.Pod) *quota.Pod {
	meta := metav1.ObjectMeta{
		Namespace: req.Namespace, Name: pod.Name(), UID: cmp.Or(pod.UID(), req.UID), Labels: pod.Labels(), Annotations: pod.Annotations(),
	}
	spec := pod.Asking()
	return quota.PodOf(&meta, &spec, pod.Phase())
}

// maxRefusals bounds how many exceeded limits are told: whoever keeps to these will hear of the others.
const maxRefusals = 10

// refusals words what does not fit, one problem for each resource of each quota.
func refusals(verdict quota.PodVerdict) (problems field.ErrorList) {
	at := admit.ContainersPath
	if verdict.Binding.Via == "label" {
		at = quotaPath
	}
	for i := range verdict.Excess {
		item := &verdict.Excess[i]
		if i == maxRefusals {
			return append(problems, field.Forbidden(at, fmt.Sprintf("and %d more limits, in quotas above these", len(verdict.Excess)-i)))
		}
		problems = append(problems, field.Forbidden(at, fmt.Sprintf("quota %s: %s requested %s, used %s%s, limit %s (%s); %s",
			whose(item.Quota, verdict.Binding), item.Resource, &item.Requested, &item.Used, reserved(item), &item.Limit, item.Source, wayOut(item))))
	}
	return problems
}

// whose names a quota, and what the pod has to do with it.
func whose(name string, b quota.Binding) string {
	switch {
	case name == b.Name:
		return fmt.Sprintf("%s (via %s)", name, b.Via)
	case b.Quota.Parent == name:
		return fmt.Sprintf("%s, parent of %s (via %s)", name, b.Name, b.Via)
	}
	return fmt.Sprintf("%s, above %s (via %s)", name, b.Name, b.Via)
}

// reserved is what is held for pods that were admitted a moment ago, if there is any.
func reserved(item *quota.Excess) string {
	if item.Reserved.IsZero() {
		return ""
	}
	return ", reserved " + item.Reserved.String()
}

// wayOut is what helps. Where the request alone is too large, it does not help that others go.
func wayOut(item *quota.Excess) string {
	if item.Requested.Cmp(item.Limit) > 0 {
		return "ask for less, or raise the limit"
	}
	return "ask for less, free some of it, or raise the limit"
}
