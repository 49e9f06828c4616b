package validators

import (
	"cmp"
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// Ledger decides whether a pod fits into its quota and all quotas above it.
type Ledger interface {
	// Judge returns the verdict and reserves nothing.
	Judge(ctx context.Context, ask quota.Request) (quota.PodVerdict, error)
	// Reserve returns the verdict and, if the pod fits, reserves its request until the pod is observed.
	Reserve(ctx context.Context, ask quota.Request) (quota.PodVerdict, error)
}

// evaluateQuotaName is the name of the step that quota-meta leaves unknown quotas to.
const evaluateQuotaName = "evaluate-quota"

// QuotaAdmission holds the dependencies of the admission of pods to quotas.
type QuotaAdmission struct {
	// Ledger is nil where the steps are merely listed.
	Ledger Ledger
	// OnUpdate requires that a pod fits into the quota that an update moves it to (gate EnableQuotaAdmissionOnUpdate).
	OnUpdate bool
	// Counting says what the ledger charges pods for.
	Counting quota.Counting
}

// evaluateQuota refuses pods that do not fit into their elastic quota, or into one above it. It decides which requests
// need capacity and how much; the ledger knows how much is available. Capacity is reserved by Commit, which only runs
// if no other step refused the pod.
func evaluateQuota(ask QuotaAdmission) admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name:   evaluateQuotaName,
		Doc:    "refuses pods that do not fit into their elastic quota or one above it; holds the room of those that do",
		Gate:   api.GateEnableQuotaAdmission,
		Needs:  []string{api.CollectionElasticQuotas, api.CollectionPodRequests},
		Run:    ask.step(Ledger.Judge),
		Commit: ask.step(Ledger.Reserve),
	}
}

// step returns the step function for one of the ledger's methods.
func (q QuotaAdmission) step(
	answer func(Ledger, context.Context, quota.Request) (quota.PodVerdict, error),
) func(context.Context, *admit.Request, *admit.Pod) (field.ErrorList, error) {
	return func(ctx context.Context, req *admit.Request, pod *admit.Pod) (field.ErrorList, error) {
		if q.Ledger == nil || !q.needsCapacity(req, pod) {
			return pass(req, "the request needs no capacity of a quota: it creates, moves, resizes or revives no pod")
		}
		verdict, err := answer(q.Ledger, ctx, ledgerRequest(req, pod))
		if err != nil {
			return nil, err
		}
		if verdict.Unknown {
			return field.ErrorList{field.Invalid(quotaPath, admit.Shorten(verdict.Binding.Name, 80),
				"no elastic quota has this name; set the label to one that exists, or remove it")}, nil
		}
		for _, name := range verdict.BrokenLimits {
			req.Warnf("elastic quota %.60s: annotation %s is not valid and is ignored; only spec.max applies", name, api.AnnotationQuotaAdmission)
		}
		switch b := verdict.Binding; {
		case len(verdict.Excess) > 0:
		case b.Quota == nil:
			req.Explain("no quota: pods of namespace %s are bound to no elastic quota", req.Namespace)
		default:
			req.Explain("the pod fits into quota %s (via %s) and those above it", b.Name, b.Via)
		}
		return withCommand(refusals(verdict), verdict.Binding, req.Namespace), nil
	}
}

// needsCapacity reports whether a request may need capacity: it creates a pod, moves a pod to another quota, resizes
// it, makes it count for other resources, or sets a status by which an ended pod counts again or a pod counts for more.
// A pod that is being deleted is no exception: it counts until it is gone, which may take long.
func (q QuotaAdmission) needsCapacity(req *admit.Request, pod *admit.Pod) bool {
	old := storedPod(req)
	switch {
	case ended(pod):
		return false
	case req.Operation == admissionv1.Create:
		return req.SubResource == ""
	case req.Operation != admissionv1.Update || old == nil:
		return false
	case req.SubResource == "resize", req.SubResource == "" && !sameRequests(pod, old): // as before Kubernetes 1.32
		return true
	case req.SubResource == "status" && (ended(old) || q.Counting.Allocated && !sameAllocation(pod, old)):
		return true
	case req.SubResource == "" || req.SubResource == "status":
		return q.OnUpdate && !sameQuotaLabel(pod, old) || q.Counting.Replace && !sameReplacement(pod, old)
	}
	return false
}

// sameRequests reports whether an update keeps what the spec requests. Most updates keep the whole spec.
func sameRequests(is, was *admit.Pod) bool {
	return is.SameSpec(was) || equality.Semantic.DeepEqual(is.Asking(), was.Asking())
}

// sameAllocation reports whether an update keeps what the node has allocated. A kubelet's own report is not judged.
func sameAllocation(is, was *admit.Pod) bool {
	return equality.Semantic.DeepEqual(is.Allocation(), was.Allocation())
}

// sameReplacement reports whether an update keeps the resources that the pod counts for.
func sameReplacement(is, was *admit.Pod) bool {
	now, _ := is.Annotation(api.AnnotationReplaceResources)
	before, _ := was.Annotation(api.AnnotationReplaceResources)
	return now == before
}

// ended reports whether a pod has ended and uses nothing any more.
func ended(pod *admit.Pod) bool {
	return pod.Phase() == corev1.PodSucceeded || pod.Phase() == corev1.PodFailed
}

// ledgerRequest returns the question for the ledger.
func ledgerRequest(req *admit.Request, pod *admit.Pod) quota.Request {
	ask := quota.Request{Key: quota.BindingKeyOf(req.Namespace, pod)}
	old := storedPod(req)
	if old == nil {
		ask.Read = func() (now, stored *quota.Pod) { return countedPod(req, pod, corev1.PodStatus{}), nil }
		return ask
	}
	ask.From = old.ResourceVersion()
	ask.Read = func() (now, stored *quota.Pod) {
		was := old.Allocation()
		is := was // only a write of the status changes it
		if req.SubResource == "status" {
			is = pod.Allocation()
		}
		return countedPod(req, pod, is), countedPod(req, old, was)
	}
	return ask
}

// countedPod returns a pod as quotas count it, with what its node has allocated. The namespace comes from the request,
// and so does the identity if a hand-written review has none.
func countedPod(req *admit.Request, pod *admit.Pod, allocated corev1.PodStatus) *quota.Pod {
	meta := metav1.ObjectMeta{
		Namespace: req.Namespace, Name: pod.Name(), UID: cmp.Or(pod.UID(), req.UID), Labels: pod.Labels(), Annotations: pod.Annotations(),
		Generation: pod.Generation(),
	}
	if pod.Deleting() {
		meta.DeletionTimestamp = &metav1.Time{}
	}
	spec := pod.Asking()
	allocated.Phase = pod.Phase()
	return quota.PodOf(&meta, &spec, &allocated)
}

// maxRefusals bounds how many exceeded limits are reported. The others are reported once these are met.
const maxRefusals = 10

// withCommand returns refusals, the last of which names the command that shows use and limits: where pods of the namespace count, or
// where the quota is that the pod names.
func withCommand(problems field.ErrorList, b quota.Binding, namespace string) field.ErrorList {
	if b.Via == "label" && b.Quota != nil {
		namespace = b.Quota.Namespace
	}
	if n := len(problems); n > 0 {
		problems[n-1].Detail += fmt.Sprintf("; `kubectl get elasticquotas -n %s` shows use and limits", namespace)
	}
	return problems
}

// refusals returns a problem for each resource of each quota that does not fit.
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
		problems = append(problems, field.Forbidden(at, fmt.Sprintf("quota %s: %s requested %s%s, used %s%s%s, limit %s (%s); %s",
			describeQuota(item.Quota, verdict.Binding), item.Resource, &item.Requested, quota.BySpec(item.RequestedAsked),
			&item.Used, quota.BySpec(item.UsedAsked), reserved(item), &item.Limit, item.Source, remedy(item))))
	}
	return problems
}

// describeQuota describes a quota and its relation to the pod.
func describeQuota(name string, b quota.Binding) string {
	switch {
	case name == b.Name:
		return fmt.Sprintf("%s (via %s)", name, b.Via)
	case b.Quota.Parent == name:
		return fmt.Sprintf("%s, parent of %s (via %s)", name, b.Name, b.Via)
	}
	return fmt.Sprintf("%s, above %s (via %s)", name, b.Name, b.Via)
}

// reserved describes what is reserved for pods that were just admitted, if anything.
func reserved(item *quota.Excess) string {
	if item.Reserved.IsZero() {
		return ""
	}
	return ", reserved " + item.Reserved.String()
}

// remedy says what helps. If the request alone is too large, deleting other pods does not.
func remedy(item *quota.Excess) string {
	if item.Requested.Cmp(item.Limit) > 0 {
		return "ask for less, or raise the limit"
	}
	return "ask for less, free some of it, or raise the limit"
}
