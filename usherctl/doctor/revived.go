package doctor

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/usherctl/report"
)

// maxRevived is the number of revived pods that are reported.
const maxRevived = 20

// readRevived finds the pods that have ended and run again by their phase, which takes room in their quotas. It reads all
// pods, so it looks only where usher checks the status of pods.
func (f *snapshot) readRevived(ctx context.Context, failed func(error, string)) {
	checked := func(w entry) bool { return w.ushers() && pathOf(w.ClientConfig) == "/validate-pod-status" }
	if !slices.ContainsFunc(f.webhooks, checked) {
		return
	}
	now := f.source.Now()
	err := f.source.Each(ctx, reader.NewKind("", "v1", "Pod", "pods"), "", func(raw json.RawMessage) {
		var pod corev1.Pod
		if len(f.revived) < maxRevived && json.Unmarshal(raw, &pod) == nil && revived(&pod, now.Add(-time.Minute)) {
			f.revived = append(f.revived, revivedProblem(&pod))
		}
	})
	if err != nil {
		failed(err, "pods that have ended and run again by their status")
	}
}

// revivedProblem returns the finding for a revived pod.
func revivedProblem(pod *corev1.Pod) report.Finding {
	about, by := subject{pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}}, metav1.GetControllerOf(pod)
	about.replaced = by != nil && slices.Contains([]string{"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"}, by.Kind)
	found := problem("pod-runs-again", about, "pod %s has ended, and its phase says that it runs: somebody else than its kubelet "+
		"has written its status, and it takes room in its quota again.", about.pod)
	found.Object = "pod " + about.pod.String()
	return found
}

// revived reports whether a pod runs by its phase, although it had ended by the given time: by a condition that a kubelet
// sets then, or because all its containers have terminated for good.
func revived(pod *corev1.Pod, before time.Time) bool {
	if pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && (c.Reason == "PodCompleted" || c.Reason == "PodFailed") && c.LastTransitionTime.Time.Before(before)
	}) || terminated(pod, before)
}

// terminated reports whether all containers of a pod had terminated for good by the given time.
func terminated(pod *corev1.Pod, before time.Time) bool {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		at := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		if at < 0 || c.RestartPolicy != nil {
			return false
		}
		end := pod.Status.ContainerStatuses[at].State.Terminated
		if end == nil || !end.FinishedAt.Time.Before(before) || pod.Spec.RestartPolicy != corev1.RestartPolicyNever &&
			(pod.Spec.RestartPolicy != corev1.RestartPolicyOnFailure || end.ExitCode != 0) {
			return false
		}
	}
	return len(pod.Spec.Containers) > 0
}
