package review

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/usage"
	"usher.dev/usher/validators/workload"
)

// planned are the pods, by namespace, that the reviewed manifests would create.
type planned map[string][]usage.PlannedPods

// add adds the pods of a document that the API server would create, as its report has them.
func (p planned) add(d requests.Document, r report.Report) {
	file := d.File()
	if r.Kind != "Pod" || r.Operation != string(admissionv1.Create) || file.Existing || d.KeepsSpec() ||
		slices.Contains([]report.Verdict{report.Denied, report.Invalid}, r.Verdict) {
		return
	}
	of := objectOf(file.JSON)
	pods := usage.PlannedPods{Of: of.GetKind() + " " + cmp.Or(of.GetName(), of.GetGenerateName()+"*")}
	if pods.Pod, pods.Unknown = podOf(r.After); pods.Unknown == "" {
		pods.Count, pods.Unknown = countOf(of)
	}
	if pods.Unknown == "" && len(file.Old) > 0 {
		pods.Count, pods.Unknown = 0, "the quotas still count those that they replace"
	}
	if pods.Unknown == "" && r.Verdict == report.NotJudged && lacksRequests(pods.Pod) {
		pods.Count, pods.Unknown = 0, "requests that it lacks may be set by what could not be read"
	}
	if pods.Count > 0 || pods.Unknown != "" {
		p[r.Namespace] = append(p[r.Namespace], pods)
	}
}

// podOf returns a pod with the requests that follow from its limits, or why it cannot be read.
func podOf(raw []byte) (pod *corev1.Pod, unknown string) {
	pod = &corev1.Pod{}
	made, err := document.Parse(raw)
	if err == nil {
		workload.FillNew(admit.AsPod(made), nil)
		err = cmp.Or(made.Err(), json.Unmarshal(made.Bytes(), pod))
	}
	if err != nil {
		return nil, fmt.Sprintf("cannot be read as a pod: %v", err)
	}
	return pod, ""
}

// lacksRequests reports whether a container requests no cpu or no memory.
func lacksRequests(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero()
	})
}

// countOf returns how many pods an object has at the same time, or why that is not known.
func countOf(o *unstructured.Unstructured) (count int64, unknown string) {
	kind := o.GroupVersionKind().GroupKind()
	if _, known := admit.WorkloadKindOf(kind); !known && kind != podKind.GroupKind() {
		return 0, fmt.Sprintf("how many pods %s %s has is not known", o.GetKind(), o.GetName())
	}
	switch kind.Kind {
	case "Pod":
		return 1, ""
	case "PodTemplate":
		return 0, ""
	case "DaemonSet":
		return 0, fmt.Sprintf("DaemonSet %s has a pod on each node that it selects", o.GetName())
	case "Job":
		return ofJob(o.Object["spec"])
	case "CronJob":
		spec, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "jobTemplate", "spec")
		return ofJob(spec)
	}
	switch n, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas"); n := n.(type) {
	case nil:
		return 1, ""
	case float64:
		if n >= 0 && n == float64(int64(n)) {
			return int64(n), ""
		}
	}
	return 0, "spec.replicas is no number of pods"
}

// ofJob returns how many pods of a Job run at the same time, or why that is not known.
func ofJob(spec any) (int64, string) {
	var job batchv1.JobSpec
	raw, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(raw, &job)
	}
	if err != nil {
		return 0, fmt.Sprintf("the spec of the job cannot be read: %v", err)
	}
	count := int64(1)
	if job.Parallelism != nil {
		count = int64(*job.Parallelism)
	}
	if job.Completions != nil {
		count = min(count, int64(*job.Completions))
	}
	return count, ""
}

// reports returns a report for each namespace: what the pods would take of its elastic quotas, and what is left.
func (p planned) reports(ctx context.Context, source reader.Source, in suite.Instance) (all []report.Report) {
	kind := reader.NewKind("scheduling.sigs.k8s.io", "v1alpha1", "ElasticQuota", "elasticquotas")
	for _, namespace := range slices.Sorted(maps.Keys(p)) {
		if _, err := source.List(ctx, kind, namespace); errors.Is(err, reader.ErrNotFound) {
			return nil // their CRD is not installed
		}
		of := report.Subject{Source: "the cluster", Of: "elastic quotas of namespace " + namespace}
		answer, err := usage.Of(ctx, usage.Question{Source: source, Namespace: namespace, Gates: in.Gates, Pods: p[namespace]})
		if err != nil {
			all = append(all, report.Examined(of, report.Finding{ID: "quota-not-known", Severity: report.Unknown, Message: err.Error()}))
			continue
		}
		if len(answer.Quotas)+len(answer.Unknown) > 0 {
			r := report.Examined(of, findingsOf(answer)...)
			r.Notes = []suite.Note{{Name: "quota", Value: answer, Lines: append(linesOf(answer), answer.Notes...)}}
			all = append(all, r)
		}
	}
	return all
}

// findingsOf returns what does not fit, or is not known.
func findingsOf(answer usage.Usage) (all []report.Finding) {
	for _, t := range answer.Takes {
		what := fmt.Sprintf("%d pods of %s", t.Pods, strings.Join(t.Of, ", "))
		if t.Pods == 0 { // which is not known
			what = "the pods of " + strings.Join(t.Of, ", ")
		}
		switch t.Fits {
		case usage.FitsNo:
			all = append(all, report.Finding{ID: "quota-full", Severity: report.Error, Object: t.Quota, Message: what + " do not fit" + because(t.Why)})
		case usage.FitsUnknown:
			all = append(all, report.Finding{ID: "quota-not-known", Severity: report.Unknown, Object: t.Quota,
				Message: "whether " + what + " fit is not known" + because(t.Why)})
		}
	}
	return all
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// linesOf says of each quota and resource what the pods would take, what is left, and whose limit decides that.
func linesOf(answer usage.Usage) (lines []string) {
	for _, t := range answer.Takes {
		for _, r := range t.Resources {
			lines = append(lines, fmt.Sprintf("%s: %d pods of %s would take %s %s, %s: fits: %s%s", cmp.Or(t.Quota, "no quota"), t.Pods,
				strings.Join(t.Of, ", "), r.Name, r.Takes, leftOf(answer, t.Quota, r), r.Fits, because(r.By)))
		}
	}
	return lines
}

// leftOf says what a quota has left of a resource.
func leftOf(answer usage.Usage, quota string, take usage.ResourceTake) string {
	for _, q := range answer.Quotas {
		for _, r := range q.Resources {
			switch {
			case q.Name != quota || r.Name != take.Name:
			case r.Unlimited:
				return "without a limit"
			case r.Left == nil:
				return "what is left is not known"
			case r.LeftMost:
				return "at most " + *r.Left + " is left"
			default:
				return *r.Left + " is left"
			}
		}
	}
	return "what is left is not known"
}
