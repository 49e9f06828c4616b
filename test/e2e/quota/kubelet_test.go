package quota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/e2e/kubetest"
)

// hollowKubelet stands for the kubelet of a node. It takes pods up, and carries out resizes: some it calls infeasible,
// some it defers, and the others it allocates and later enacts. The API server has all its state except for what it
// intends, so it may be restarted at any time. It allocates only what is still asked when its status is stored.
type hollowKubelet struct {
	node   string
	client *kubetest.Client
	within time.Duration // from a resize until it is carried out
	random *rand.Rand
	counts *kubetest.Counts
	pods   map[types.UID]*intent
}

// intent is a pod and what the kubelet intends for its spec.
type intent struct {
	pod     *corev1.Pod
	verdict string // the reason why the resize waits; empty if it does not
	due     time.Time
	end     time.Time // of the resize
}

// startKubelets creates nodes and starts their kubelets.
func startKubelets(ctx context.Context, t *testing.T, names []string, within time.Duration, counts *kubetest.Counts) {
	t.Helper()
	for i, name := range names {
		newNode(ctx, t, name)
		_, err := cluster.Admin().Patch(ctx, "/api/v1/nodes/"+name+"/status", kubetest.MergePatch,
			`{"status": {"allocatable": {"cpu": "10000", "pods": "10000"}, "capacity": {"cpu": "10000", "pods": "10000"}}}`)
		stored(t, err)
		k := &hollowKubelet{node: name, client: cluster.Node(name), within: within, random: rand.New(rand.NewPCG(uint64(i), 1)), counts: counts}
		go k.run(ctx)
	}
}

// run restarts the kubelet now and then, and when its watch breaks.
func (k *hollowKubelet) run(ctx context.Context) {
	for ctx.Err() == nil {
		k.pods = map[types.UID]*intent{}
		k.live(ctx, time.Now().Add(k.upTo(20*k.within)))
		pause(ctx, k.upTo(time.Second))
		k.counts.Add("kubelets started again", 1)
	}
}

func (k *hollowKubelet) upTo(long time.Duration) time.Duration {
	return time.Duration(k.random.Int64N(int64(long)))
}

// podEvent is a change of one of a node's pods.
type podEvent struct {
	gone bool
	pod  *corev1.Pod
}

// live watches the pods of the node and acts on them until a time, or until the watch breaks.
func (k *hollowKubelet) live(ctx context.Context, until time.Time) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	events := make(chan podEvent)
	go func() {
		defer close(events)
		_ = k.client.Watch(ctx, podWatch+"?fieldSelector=spec.nodeName%3D"+k.node, func(kind string, object json.RawMessage) error {
			event := podEvent{kind == "DELETED", &corev1.Pod{}}
			if err := json.Unmarshal(object, event.pod); err != nil {
				return err
			}
			select {
			case events <- event:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case event, ok := <-events:
			if !ok {
				return
			}
			k.see(event)
		case <-tick.C:
			k.act(ctx)
		}
	}
}

// see takes note of a pod, and decides anew if its spec has changed.
func (k *hollowKubelet) see(event podEvent) {
	pod := event.pod
	if event.gone || pod.Status.Phase == corev1.PodSucceeded {
		delete(k.pods, pod.UID)
		return
	}
	known := k.pods[pod.UID]
	switch {
	case known == nil || known.pod.Generation < pod.Generation:
		k.pods[pod.UID] = k.intend(pod)
	case version(known.pod) < version(pod):
		known.pod = pod
	}
}

func version(pod *corev1.Pod) int64 {
	n, _ := strconv.ParseInt(pod.ResourceVersion, 10, 64)
	return n
}

// intend decides what to do about a spec.
func (k *hollowKubelet) intend(pod *corev1.Pod) *intent {
	now := time.Now()
	i := &intent{pod: pod, due: now.Add(k.upTo(k.within)), end: now.Add(k.within)}
	if len(pod.Status.ContainerStatuses) == 0 {
		i.due = now.Add(k.upTo(time.Second))
		return i
	}
	if c := pending(pod); c != nil && c.Reason == corev1.PodReasonInfeasible && c.ObservedGeneration == pod.Generation {
		i.verdict = corev1.PodReasonInfeasible // it said so before it was restarted
		return i
	}
	asked, allocated := pod.Spec.Containers[0].Resources.Requests.Cpu(), pod.Status.ContainerStatuses[0].AllocatedResources.Cpu()
	if asked.Cmp(*allocated) > 0 {
		switch n := k.random.IntN(100); {
		case n < 10:
			i.verdict, i.due = corev1.PodReasonInfeasible, now.Add(k.upTo(k.within/10))
		case n < 25:
			i.verdict, i.due = corev1.PodReasonDeferred, now.Add(k.upTo(k.within/10))
		}
	}
	return i
}

func pending(pod *corev1.Pod) *corev1.PodCondition {
	for i, c := range pod.Status.Conditions {
		if c.Type == corev1.PodResizePending {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// act writes the status of each pod for which something is due.
func (k *hollowKubelet) act(ctx context.Context) {
	now := time.Now()
	for _, i := range k.pods {
		if now.Before(i.due) || ctx.Err() != nil {
			continue
		}
		status, more := i.next()
		switch {
		case status == nil:
			i.due = i.end.Add(24 * time.Hour) // until the spec changes
		case !k.write(ctx, i, status):
			i.due = now.Add(50 * time.Millisecond)
		case more:
			i.verdict = ""
			i.due = now.Add(k.upTo(max(i.end.Sub(now), time.Millisecond)))
		}
	}
}

// next returns the next status of a pod, and whether there is more to do; nil if there is nothing to do.
func (i *intent) next() (status *corev1.PodStatus, more bool) {
	status = i.pod.Status.DeepCopy()
	spec := i.pod.Spec
	waits, in := pending(i.pod), len(status.ContainerStatuses) > 0
	status.ObservedGeneration = i.pod.Generation
	switch {
	case !in:
		status.Phase = corev1.PodRunning
		status.ContainerStatuses = takenUp(spec.Containers)
		status.InitContainerStatuses = takenUp(spec.InitContainers)
		return status, true
	case i.verdict != "":
		if waits != nil && waits.ObservedGeneration == i.pod.Generation {
			return nil, false
		}
		status.Conditions = []corev1.PodCondition{resizing(i.pod, corev1.PodResizePending, i.verdict)}
		return status, i.verdict == corev1.PodReasonDeferred
	}
	of := &status.ContainerStatuses[0]
	asked, has := spec.Containers[0].Resources.Requests, of.Resources.Requests
	if of.AllocatedResources.Cpu().Cmp(*asked.Cpu()) != 0 {
		of.AllocatedResources = asked.DeepCopy()
		status.Conditions = []corev1.PodCondition{resizing(i.pod, corev1.PodResizeInProgress, "")}
		return status, true
	}
	if has.Cpu().Cmp(*asked.Cpu()) != 0 || len(status.Conditions) > 0 {
		of.Resources = spec.Containers[0].Resources.DeepCopy()
		status.Conditions = nil
		return status, true
	}
	if i.pod.Status.ObservedGeneration < i.pod.Generation {
		return status, true // there is nothing to do, and it says so
	}
	return nil, false
}

func resizing(pod *corev1.Pod, kind corev1.PodConditionType, reason string) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, ObservedGeneration: pod.Generation, LastTransitionTime: metav1.Now()}
}

// takenUp returns the statuses of containers that run as their spec says.
func takenUp(containers []corev1.Container) (statuses []corev1.ContainerStatus) {
	for _, c := range containers {
		statuses = append(statuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true, Started: new(true),
			State:              corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
			AllocatedResources: c.Resources.Requests.DeepCopy(), Resources: c.Resources.DeepCopy()})
	}
	return statuses
}

// write stores a status, and reports whether it did. Nothing but an outage or another change may prevent that.
func (k *hollowKubelet) write(ctx context.Context, i *intent, status *corev1.PodStatus) bool {
	answer, err := k.client.Do(ctx, http.MethodPatch, podPath(i.pod.Namespace, i.pod.Name)+"/status", kubetest.MergePatch, kubetest.Object{
		"metadata": kubetest.Object{"uid": i.pod.UID, "resourceVersion": i.pod.ResourceVersion},
		"status": kubetest.Object{"phase": status.Phase, "observedGeneration": status.ObservedGeneration, "conditions": status.Conditions,
			"containerStatuses": status.ContainerStatuses, "initContainerStatuses": status.InitContainerStatuses}})
	if err == nil {
		err = answer.Err()
	}
	var refused *kubetest.StatusError
	switch {
	case err == nil:
		stored := &corev1.Pod{}
		if err := json.Unmarshal(answer.Body, stored); err == nil && i.pod.Generation == stored.Generation {
			i.pod = stored
		}
		return true
	case !errors.As(err, &refused) || refused.Code == http.StatusConflict || refused.Code == http.StatusNotFound:
	case refused.Code >= 500 && !strings.Contains(refused.Message, "webhook"):
		k.counts.Add("kubelet: the API server was away", 1)
	default:
		k.counts.Add(fmt.Sprintf("kubelet: unexpected: %v", err), 1)
	}
	return false
}
